"""Files that are no profile, or barely one: encodings, structure, size. Each is a file's bytes."""

from __future__ import annotations

import codecs
import itertools
import json
import zlib

import yaml
from builders import toy_hardware
from test_hf_config import DENSE

MIB = 2**20
MB = 10**6
"""Just below what is read."""
DEEP = 10_000
GOOD = yaml.safe_dump(toy_hardware(), sort_keys=False)
CONFIG = json.dumps(DENSE, indent=1)
LAUGHS = "a: &a [lol, lol]\n" + "".join(
    f"{b}: &{b} [*{a}, *{a}, *{a}, *{a}]\n" for a, b in itertools.pairwise("abcdefghi")
)

TAGS = (
    "!!python/object:os.system",
    "!!python/object/apply:os.system",
    "!!binary",
    "!!set",
    "!!timestamp",
    "!mine",
    "!",
)

ACCEPTED: dict[str, bytes] = {
    "a byte-order mark": codecs.BOM_UTF8 + GOOD.encode(),
    "CRLF": GOOD.replace("\n", "\r\n").encode(),
    "CR alone": GOOD.replace("\n", "\r").encode(),
    "25,000 notes": GOOD.encode() + b"notes:\n" + b"- x\n" * 25_000,
    "1 MB of comment": GOOD.encode() + b"# " + b"x" * 10**6,
    "two byte-order marks": codecs.BOM_UTF8 * 2 + GOOD.encode(),
    "line separators": GOOD.replace("\n", "\u2028").encode(),
    "an escaped NUL in a text": GOOD.replace("vendor: Toy", 'vendor: "T\\0y"').encode(),
    "1 MB in one text": GOOD.replace("vendor: Toy", "vendor: " + "T" * 10**6).encode(),
    "document marks": f"---\n{GOOD}...\n".encode(),
}
"""What must load all the same."""

YAML: dict[str, bytes] = {
    "empty": b"",
    "blank": b"  \n\n",
    "only comments": b"# nothing\n# at all\n",
    "only a document mark": b"---\n",
    "null": b"null\n",
    "a scalar": b"hardware\n",
    "a list": b"- format: 1\n- kind: hardware\n",
    "two documents": f"{GOOD}---\n{GOOD}".encode(),
    "two documents, one empty": f"{GOOD}---\n".encode() + b"---\n",
    "tabs": GOOD.replace("  ", "\t").encode(),
    "an anchor": GOOD.replace("name:", "name: &n").encode(),
    "an alias": GOOD.replace("vendor: Toy", "vendor: *n").encode(),
    "aliases of aliases": (GOOD + LAUGHS).encode(),
    "an anchor on itself": b"format: 1\nkind: &k [*k]\n",
    "a merge key": (GOOD + "<<: {fitted: true}\n").encode(),
    **{f"tag {tag}": GOOD.replace("vendor: Toy", f"vendor: {tag} Toy").encode() for tag in TAGS},
    "a tag on the whole": f"!!python/object:os.system\n{GOOD}".encode(),
    "a tag handle": f"%TAG !e! tag:example.org,2000:\n---\n{GOOD}".encode() + b"x: !e!y 1\n",
    "YAML 9.9": f"%YAML 9.9\n---\n{GOOD}".encode(),
    "[ without end": b"a: " + b"[" * DEEP,
    "{ without end": b"a: " + b"{a: " * DEEP,
    "[ closed": b"a: " + b"[" * DEEP + b"]" * DEEP,
    "{ closed": b"a: " + b"{a: " * DEEP + b"1" + b"}" * DEEP,
    "- - - -": b"- " * DEEP,
    "? ? ? ?": b"? " * DEEP,
    "steps down": b"".join(b" " * level + b"a:\n" for level in range(2000)),
    "a quote never closed": GOOD.replace("vendor: Toy", "vendor: 'Toy").encode(),
    "a double quote never closed": GOOD.replace("vendor: Toy", 'vendor: "Toy').encode(),
    "a bracket never closed": GOOD.replace("vendor: Toy", "vendor: [Toy").encode(),
    "a colon in a text": GOOD.replace("vendor: Toy", "vendor: Toy: Inc").encode(),
    "a dedent": GOOD.replace("  from:", " from:").encode(),
    "UTF-16 LE": GOOD.encode("utf-16"),
    "UTF-16 BE": codecs.BOM_UTF16_BE + GOOD.encode("utf-16-be"),
    "UTF-16, unmarked": GOOD.encode("utf-16-le"),
    "UTF-32": GOOD.encode("utf-32"),
    "Latin-1": GOOD.replace("vendor: Toy", "vendor: Tö").encode("latin-1"),
    "NUL bytes": GOOD.replace("vendor: Toy", "vendor: T\0y").encode(),
    "a NUL alone": b"\0",
    "a lone surrogate": GOOD.replace("vendor: Toy", 'vendor: "\\ud800"').encode(),
    "a raw surrogate": GOOD.replace("Toy", "T@y").encode().replace(b"@", b"\xed\xa0\x80"),
    "cut inside a letter": GOOD.encode() + "ö".encode()[:1],
    "an escape code": GOOD.replace("vendor: Toy", "vendor: \x1b[2J").encode(),
    "an escaped escape code": GOOD.replace("kind: hardware", 'kind: "\\e[2J\\a"').encode(),
    "letters turned round": GOOD.replace("kind: hardware", "kind: \u202eerawdrah").encode(),
    "an overlong escape": GOOD.replace("vendor: Toy", 'vendor: "\\UFFFFFFFF"').encode(),
    "25,000 keys": b"".join(b"k%d: 1\n" % number for number in range(25_000)),
    "1 MB of one key": b"k: 1\n" * (MB // 5),
    "1 MB in one key": b"k" * MB + b": 1\n",
    "1 MB of digits": GOOD.replace("10.0", "9" * MB, 1).encode(),
    "1 MB of [": b"[" * MB,
    "1 MB of {a: [": b"{a: [" * (MB // 5),
    "1 MB of quotes": b'"' * MB,
    "1 MB of ! and &": b"!a &a " * (MB // 6),
    "5 MiB": GOOD.encode() + b"# " + b"x" * (5 * MIB),
    "a picture": b"\x89PNG\r\n\x1a\n" + zlib.compress(GOOD.encode()),
    "a page": b"<!DOCTYPE html><html><body>404: not found</body></html>",
    "a table": b"a,b,c\n1,2,3\n",
    "a program": b"import os\nos.system('true')\n",
    "a git conflict": f"<<<<<<< HEAD\n{GOOD}=======\n{GOOD}>>>>>>> theirs\n".encode(),
    "a large-file pointer": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    "a base-60 number": GOOD.replace("10.0", "1:30").encode(),
    "an octal number": GOOD.replace("10.0", "010").encode(),
    "underscores": GOOD.replace("10.0", "1_0.0").encode(),
    "Arabic digits": GOOD.replace("10.0", "١٠").encode(),
    "full-width digits": GOOD.replace("10.0", "１０").encode(),
    "look-alike letters": GOOD.replace("kind: hardware", "kind: hаrdware").encode(),
    "a no-break space": GOOD.replace("vendor: Toy", "vendor:\u00a0Toy").encode(),
}
"""What no profile is."""


def _ignoring(*names: str) -> bytes:
    """The configuration of an fp8 checkpoint that leaves modules of these names alone."""
    return json.dumps({**DENSE, "quantization_config": {"quant_method": "fp8", "ignore": names}}).encode()


JSON: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n",
    "null": b"null",
    "a list": b"[]",
    "a list of objects": f"[{CONFIG}]".encode(),
    "an empty object": b"{}",
    "a number": b"1",
    "a text": b'"text"',
    "cut short": CONFIG[:-20].encode(),
    "more behind it": CONFIG.encode() + b"}",
    "two objects": f"{CONFIG}\n{CONFIG}".encode(),
    "a trailing comma": CONFIG.replace("\n}", ",\n}").encode(),
    "comments": f"// a model\n{CONFIG}".encode(),
    "single quotes": CONFIG.replace('"', "'").encode(),
    "a key given twice": CONFIG.replace("{", '{"hidden_size": 1,', 1).encode(),
    "UTF-16": CONFIG.encode("utf-16"),
    "Latin-1": CONFIG.replace("llama", "lläma").encode("latin-1"),
    "a NUL": CONFIG.replace("llama", "ll\0ma").encode(),
    "a lone surrogate": CONFIG.replace("llama", "\\ud800").encode(),
    "an escape code": CONFIG.replace("llama", "\\u001b[2J").encode(),
    "[ without end": b"[" * 100_000,
    "{ without end": b'{"a":' * 100_000,
    "[ closed": b'{"a":' + b"[" * DEEP + b"]" * DEEP + b"}",
    "15 MiB of [": b"[" * (15 * MIB),
    "17 MiB": CONFIG.encode() + b" " * (17 * MIB),
    "5,000 digits": CONFIG.replace("512", "9" * 5000).encode(),
    "a float of 5,000 digits": CONFIG.replace("512", "9" * 5000 + ".0").encode(),
    "a float past the largest": CONFIG.replace("512", "1e999").encode(),
    "layers in billions": CONFIG.replace('"num_hidden_layers": 4', '"num_hidden_layers": 1000000000').encode(),
    "a list of 2 million layers": CONFIG.replace(
        "{", '{"layer_types": [' + ",".join(['"full_attention"'] * 700_000) + "],", 1
    ).encode(),
    "a pattern that never ends": _ignoring("re:(.*)*x"),
    "optional letters without end": _ignoring("re:" + ".?" * 60 + "x"),
    "a pattern that is none": _ignoring("re:(["),
    "100,000 patterns": _ignoring(*["a*b*c"] * 100_000),
    "a picture": b"\x89PNG\r\n\x1a\n",
    "YAML": GOOD.encode(),
}
"""What no configuration is."""
READ_ALL_THE_SAME = ("a lone surrogate", "an escape code")
"""In a text that decides nothing."""
