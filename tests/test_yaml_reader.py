"""The YAML subset: what is read, what is refused, and where each error points."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from specdec_cli.errors import ProfileError, shown
from specdec_cli.profiles import yaml_reader
from specdec_cli.profiles.yaml_reader import MAX_BYTES, MAX_DEPTH, Document, dotted, parse, read

FILE = Path("toy.yaml")


def refused(text: str) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        parse(text, FILE)
    return caught.value


def test_reads_plain_data() -> None:
    document = parse(
        "name: toy  # a comment\n"
        "count: 8\n"
        "ratio: .5\n"
        "small: -1.5e-3\n"
        "large: 3.35e+12\n"
        "point: 1.\n"
        "fitted: true\n"
        "gate: off\n"
        "nothing:\n"
        "tilde: ~\n"
        "checked: 2025-07-01\n"
        "month: 2025-07\n"
        "quoted: '12'\n"
        "folded: >-\n  two\n  lines\n"
        "list: [1, two, [3]]\n"
        "peers:\n  2: {latency_us: 4.3}\n",
        FILE,
    )
    assert document.data == {
        "name": "toy",
        "count": 8,
        "ratio": 0.5,
        "small": -0.0015,
        "large": 3.35e12,
        "point": 1.0,
        "fitted": True,
        "gate": False,
        "nothing": None,
        "tilde": None,
        "checked": "2025-07-01",  # a date stays text
        "month": "2025-07",
        "quoted": "12",
        "folded": "two lines",
        "list": [1, "two", [3]],
        "peers": {2: {"latency_us": 4.3}},
    }
    assert isinstance(document.data["count"], int)


def test_keeps_lines_and_spellings() -> None:
    document = parse("a: off\nb:\n  - x: 1\n  - x:\n      2\nc: {8: {d: 1.50}}\n", FILE)
    assert document.line(("a",)) == 1
    assert document.written(("a",)) == "off"
    assert document.line(("b", 1, "x")) == 4  # the key's line, not its value's
    assert document.line(("c", "8", "d")) == 6
    assert document.written(("c", "8", "d")) == "1.50"
    assert document.written(("c",)) is None
    assert document.line(("b", 1, "not there")) == 4  # the nearest above
    assert document.line(("not there",)) == 1
    assert document.written(("not there",)) is None
    assert Document(FILE, {}, {}).line(("a",)) is None


def test_dotted_key_paths() -> None:
    assert dotted(()) == ""
    assert dotted(("points", 2, "draft_length")) == "points[2].draft_length"
    assert dotted(("all_reduce", "8")) == "all_reduce.8"
    assert dotted(("sources", "kernels.default", "kind")) == 'sources["kernels.default"].kind'
    assert dotted(("sources", "*")) == "sources.*"
    assert dotted(("", "a")) == '[""].a'


# What YAML would take for something else in silence: (line, text, key, part of the message, part of the hint).
TRAPS = [
    (3, "a: 1\nb: 2\na: 3", "a", "given twice, on lines 1 and 3", "keep one"),
    (1, "{a: 1, a: 2}", "a", "given twice, on lines 1 and 1", "keep one"),
    (3, "x:\n  2: a\n  '2': b", "x.2", "given twice, on lines 2 and 3", "keep one"),
    (1, "a: &one {b: 1}\nc: 2", "a", "anchors (&one)", "where it belongs"),
    (1, "a: &one 1", "a", "anchors (&one)", "where it belongs"),
    (1, "a: [x, *one]", "a[1]", "aliases", "repeat the value"),
    (1, "<<: {a: 1}", None, "merge keys", "in full"),
    (1, "a: {<<: {b: 1}}", "a", "merge keys", "in full"),
    (1, "a: !!str 1", "a", "tags (!!str)", "remove the tag"),
    (1, "a: !!python/object:os.system []", "a", "tags (!!python/object:os.system)", "remove the tag"),
    (1, "a: !mine {b: 1}", "a", "tags (!mine)", "remove the tag"),
    (1, "a: ! b", "a", "tags (!)", "remove the tag"),
    (1, "a: 12:30", "a", "found `12:30`", "base 60"),
    (1, "a: 1:30.5", "a", "found `1:30.5`", "base 60"),
    (1, "a: 010", "a", "found `010`", "octal"),
    (1, "a: 08", "a", "found `08`", "leading zero"),
    (1, "a: 0x1F", "a", "found `0x1F`", "decimal"),
    (1, "a: 0b11", "a", "found `0b11`", "decimal"),
    (1, "a: 1_000", "a", "found `1_000`", "without underscores"),
    (1, "a: 1_000.5", "a", "found `1_000.5`", "without underscores"),
    (1, "a: .nan", "a", "expected a finite number, found .nan", "leave the key out"),
    (1, "a: -.inf", "a", "expected a finite number, found -.inf", "leave the key out"),
    (1, "a: 1.0e+999", "a", "past the largest", None),
    (1, f"a: 1{'0' * 30}", "a", "at most 18 digits, found 31", None),
    (1, "on: 1", None, "expected a key of text, found a boolean (on)", '"on"'),
    (1, "a: {no: 1}", "a", "expected a key of text, found a boolean (no)", '"no"'),
    (1, "1.5: 1", None, "expected a key of text, found a number (1.5)", '"1.5"'),
    (1, "~: 1", None, "expected a key of text, found nothing (~)", '"~"'),
    (1, "? [a]\n: 1", None, "expected a key of text, found a list", "in quotes"),
    (1, "? {a: 1}\n: 1", None, "expected a key of text, found a mapping", "in quotes"),
    (2, "a: 1\n---\na: 2", None, "second document", "a file of its own"),
    (1, "- 1", None, "expected a mapping of keys, found a list", "key: value"),
    (1, "just text", None, "expected a mapping of keys, found a single value", "key: value"),
    (None, "", None, "empty file", None),
    (None, "# only a comment\n", None, "empty file", None),
]


@pytest.mark.parametrize(("line", "text", "key", "message", "hint"), TRAPS, ids=[repr(trap[1][:24]) for trap in TRAPS])
def test_traps_are_refused(line: int | None, text: str, key: str | None, message: str, hint: str | None) -> None:
    error = refused(text)
    assert error.exit_code == 3
    assert (error.file, error.line, error.key) == (FILE, line, key)
    assert message in error.message
    assert (error.hint is None) if hint is None else (hint in (error.hint or ""))


def test_a_text_that_only_starts_like_a_number_stays_text() -> None:
    # YAML 1.1 wants a point and a signed exponent; the loader's own error says so where a number is expected.
    for written in ("3.35e12", "1e9", "1e+5", "1,000", "4090ti", "+-1", "..", "1.2.3", "2025-07-01"):
        assert parse(f"a: {written}", FILE).data == {"a": written}


# What a hand slips on: (text, line, part of the hint).
SYNTAX = [
    ("a: b: c", 1, "colon and a space must be in quotes"),
    ("a: 1\n b: 2", 2, "colon and a space must be in quotes"),
    ("a:\n\t- b", 2, "spaces, not tabs"),
    ("a: b\n\tc: d", 2, "spaces, not tabs"),
    ("a: 1\nb: @x", 2, "must be in quotes"),
    ("a: 'b", 1, "never closed"),
    ("a: [1", 2, "never closed"),
    ("a: {b: 1", 2, "never closed"),
    ("sources:\n  *: {from: x}", 2, '"*"'),
    ('a: "\\q"', 1, "single quotes"),
    ("a:\n  b: 1\n c: 2", 3, "indented alike"),
    ("a: 1\nb\nc: 2", 3, "key: value"),
]


@pytest.mark.parametrize(("text", "line", "hint"), SYNTAX, ids=[repr(case[0][:24]) for case in SYNTAX])
def test_bad_syntax_names_line_and_remedy(text: str, line: int, hint: str) -> None:
    error = refused(text)
    assert error.message.startswith("expected YAML, but ")
    assert error.line is not None
    assert abs(error.line - line) <= 1  # the parser notices an unclosed bracket one line late
    assert hint in (error.hint or "")


def test_too_many_brackets_end_in_the_limit() -> None:
    """Newer libyaml refuses them itself, older ones leave it to us: either way the limit is named."""
    for many in (100, 5000):
        error = refused("a: " + "[" * many)
        assert error.line == 1
        assert f"at most {MAX_DEPTH} levels" in str(error)


def test_control_characters_are_named() -> None:
    error = refused("a: 1\nb: \x01")
    assert (error.line, error.message) == (2, "expected text, found the control character U+0001")


@pytest.mark.parametrize("opening", ["- ", "{a: ", "? "])
def test_depth_is_limited_before_anything_recurses(opening: str) -> None:
    error = refused(opening * 100_000)
    expected = "expected a key of text" if opening == "? " else f"at most {MAX_DEPTH} levels"
    assert expected in error.message


def test_depth_limit_is_exact() -> None:
    def nested(levels: int) -> str:
        return "{a: " * levels + "1" + "}" * levels

    assert parse(nested(MAX_DEPTH), FILE).data
    assert "levels" in refused(nested(MAX_DEPTH + 1)).message


def test_pure_python_loader_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: 8\nb: [off, 3.35e12, 2025-07-01]\nc: {2: ~}\n"
    with_c = parse(text, FILE)
    monkeypatch.setattr(yaml_reader, "_LOADER", yaml.SafeLoader)
    assert parse(text, FILE) == with_c
    assert "aliases" in refused("a: *b").message
    assert "control character" in refused("a: \x01").message
    assert "tabs" in (refused("a:\n\t- b").hint or "")


# ------------------------------------------------------------------------------------------------- files


def refused_file(path: Path) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        read(path)
    assert shown(str(path)) in str(caught.value)
    return caught.value


def test_missing_file(tmp_path: Path) -> None:
    assert refused_file(tmp_path / "none.yaml").message == "no such file"


def test_folder_for_a_file(tmp_path: Path) -> None:
    assert "found a folder" in refused_file(tmp_path).message


def test_pipe_for_a_file_does_not_hang(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    assert "a device or a pipe" in refused_file(pipe).message


def test_symlink_to_itself(tmp_path: Path) -> None:
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    assert "cannot be read" in refused_file(loop).message


def test_impossible_names() -> None:
    assert "cannot be read" in refused_file(Path("x" * 5000)).message
    assert "cannot be read" in refused_file(Path("null\0.yaml")).message


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "locked.yaml"
    path.write_text("a: 1")

    def locked(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", locked)
    assert refused_file(path).message == "cannot be read: Permission denied"


def test_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    line = b"a: 1\n"
    path.write_bytes(line + b"#" * (MAX_BYTES - len(line)))
    assert read(path).data == {"a": 1}
    path.write_bytes(line + b"#" * (MAX_BYTES - len(line) + 1))
    assert "at most 1 MiB, found 1.0 MiB" in refused_file(path).message


def test_byte_order_mark_and_windows_lines(tmp_path: Path) -> None:
    path = tmp_path / "windows.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb:\r\n  c: no\r\n")
    document = read(path)
    assert document.data == {"a": 1, "b": {"c": False}}
    assert document.line(("b", "c")) == 3


def test_utf16_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.yaml"
    path.write_bytes("a: 1".encode("utf-16"))
    error = refused_file(path)
    assert (error.message, error.hint) == ("expected UTF-8 text, found UTF-16", "save the file as UTF-8")


def test_other_encodings_are_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("a: 1\nb: caf\xe9\n".encode("latin-1"))
    error = refused_file(path)
    assert (error.line, error.message) == (2, "expected UTF-8 text, found the byte 0xe9")


def test_beyond_ascii(tmp_path: Path) -> None:
    path = tmp_path / "text.yaml"
    path.write_text("a: é\u4e2d\U0001f600\n", encoding="utf-8")
    assert read(path).data == {"a": "é\u4e2d\U0001f600"}


# ------------------------------------------------------------------------------------------- properties

# No 8 and 9 in text: PyYAML writes "08" without quotes, which this reader refuses.
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**17), 10**17),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text("abno:#-[]{}&*!|>'\"%@`,?= 0147.eE+_~<é\n\\", max_size=20),
)
_TREES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abcdefg_", min_size=1), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abcdefg_", min_size=1), _TREES, max_size=5))
def test_what_pyyaml_writes_is_read_back(data: dict[str, object]) -> None:
    text = yaml.safe_dump(data, allow_unicode=True)
    if "&id" not in text:  # equal empty objects that hypothesis shares are written as anchors
        document = parse(text, FILE)
        assert document.data == data
        assert document.line(()) == 1


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_politely(text: str) -> None:
    try:
        read_as: object = parse(text, FILE).data
    except ProfileError as error:
        read_as = str(error)
    assert isinstance(read_as, dict) or str(read_as).startswith("toy.yaml")
