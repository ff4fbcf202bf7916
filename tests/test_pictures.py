"""`plot`, `sweep --plot` and `report`: formats, the extra that pictures need, and what the pages hold."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from builders import toy_acceptance, toy_drafter, toy_engine, toy_hardware, toy_model, write_library
from cli_runs import Answer, Runner
from conftest import REPO

from specdec_cli.cli import pictures
from specdec_cli.report.chart_page import ABOUT, ACCEPTANCE_TIPS, STEP_TIPS, VIEWS
from specdec_cli.report.chart_spec import POINT_TIPS

MAGIC = {"svg": b"<svg", "png": b"\x89PNG\r\n\x1a\n", "pdf": b"%PDF-"}


@pytest.fixture(scope="session")
def pages(toys: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One page of each kind; making one takes seconds."""
    from specdec_cli.cli.app import run

    folder = tmp_path_factory.mktemp("pages")
    toy = ["--profiles", str(toys), "--hardware", "toy-chip", "--model", "toy-model", "--engine", "toy-engine"]
    for command in ("plot", "report"):
        assert run([command, *toy, "--batch", "8", "-o", str(folder / f"{command}.html")]) == 0
    return {command: (folder / f"{command}.html").read_text("utf-8") for command in ("plot", "report")}


def refused(answer: Answer, *fragments: str) -> None:
    assert answer.code == 2, answer.err
    assert answer.out == ""
    for fragment in fragments:
        assert fragment in answer.err


def payload(page: str) -> dict[str, Any]:
    """What page.js reads."""
    match = re.search(r'<script type="application/json" id="specdec-data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    found: dict[str, Any] = json.loads(match[1])
    return found


class Text(HTMLParser):
    """The visible text of a page, and its tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._hidden = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._hidden += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.parts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.parts).split())


# ----------------------------------------------------------------------------------------------- plot


def test_plot_draws_text_on_stdout(specdec: Runner) -> None:
    answer = specdec("plot", "--batch", "8")
    assert answer.code == 0
    assert "tokens/s/GPU" in answer.out
    assert "★ chosen: batch 8" in answer.out
    assert "\x1b" not in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80
    assert "note [acceptance_source]" in answer.err


def test_width_is_the_users(specdec: Runner) -> None:
    wide = specdec("plot", "--width", "140").out
    assert 120 < max(map(len, wide.splitlines())) <= 140


def test_a_terminal_without_the_letters_gets_ascii(specdec: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    class Ascii:
        encoding = "ascii"

    monkeypatch.setattr(pictures, "sys", type("Sys", (), {"stdout": Ascii()}))
    answer = specdec("plot")
    assert answer.code == 0
    assert answer.out.isascii()


@pytest.mark.parametrize("style", MAGIC)
def test_pictures_are_what_their_ending_says(specdec: Runner, tmp_path: Path, style: str) -> None:
    file = tmp_path / f"a.{style}"
    assert specdec("plot", "--batch", "8", output=str(file)).code == 0
    assert file.read_bytes().startswith(MAGIC[style])
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_as_a_picture(specdec: Runner, tmp_path: Path, view: str) -> None:
    file = tmp_path / "a.svg"
    assert specdec("plot", "--view", view, "--theme", "dark", output=str(file)).code == 0
    text = file.read_text("utf-8")
    assert "toy-model on 1 x toy-chip" in text
    assert "#14181f" in text  # the dark ground
    axis = {"frontier": "tokens/s/user", "speedup": "batch B", "step": "ms in a step", "acceptance": "AL, tokens"}
    assert axis[view] in text
    assert "NaN" not in text


def test_legend_names_every_line_in_a_picture(specdec: Runner, tmp_path: Path) -> None:
    for view, named in (("frontier", ["no speculation", "EAGLE-3"]), ("acceptance", ["EAGLE-3"])):
        file = tmp_path / f"{view}.svg"
        assert specdec("plot", "--view", view, output=str(file)).code == 0
        assert all(f">{name}<" in file.read_text("utf-8") for name in named)


def test_log_axes_change_the_picture(specdec: Runner, tmp_path: Path) -> None:
    files = [tmp_path / "a.svg", tmp_path / "b.svg"]
    assert specdec("plot", output=str(files[0])).code == 0
    assert specdec("plot", "--log", output=str(files[1])).code == 0
    assert files[0].read_text() != files[1].read_text()


def test_svg_goes_to_stdout_too(capsysbinary: pytest.CaptureFixture[bytes], toys: Path) -> None:
    from specdec_cli.cli.app import run

    toy = ["--profiles", str(toys), "--hardware", "toy-chip", "--model", "toy-model", "--engine", "toy-engine"]
    assert run(["plot", *toy, "--format", "svg"]) == 0
    assert capsysbinary.readouterr().out.startswith(b"<svg")


MISTAKES = {
    "an ending that no picture has": (["-o", "a.csv"], ["no picture ends in .csv", "specdec sweep"]),
    "unknown format": (["--format", "pgn"], ["--format 'pgn'", "did you mean png?"]),
    "unknown view": (["--view", "frontiers"], ["--view 'frontiers'", "frontier"]),
    "unknown theme": (["--theme", "drk"], ["--theme 'drk'", "dark"]),
    "no width": (["--width", "0"], ["--width"]),
    "negative batch": (["--batch", "-1"], ["--batch must be at least 1"]),
    "a drafter's view without one": (
        ["--drafter", "none", "--view", "speedup", "--format", "svg"],
        ["--view speedup shows a drafter"],
    ),
}


@pytest.mark.parametrize(("arguments", "fragments"), MISTAKES.values(), ids=MISTAKES)
def test_wrong_usage_of_plot(specdec: Runner, arguments: list[str], fragments: list[str]) -> None:
    refused(specdec("plot", *arguments), *fragments)


@pytest.mark.parametrize(
    ("command", "arguments"),
    [("plot", ["--format", "svg"]), ("report", ["-o", "a.html"]), ("sweep", ["--plot", "-o", "a.png"])],
)
def test_missing_extra_says_how_to_install_it(
    specdec: Runner, monkeypatch: pytest.MonkeyPatch, command: str, arguments: list[str], tmp_path: Path
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "altair" else real(name))
    monkeypatch.chdir(tmp_path)
    refused(specdec(command, *arguments), "needs altair", "pip install 'specdec-cli[plot]'")
    assert list(tmp_path.iterdir()) == []


def test_the_chart_in_the_terminal_needs_no_extra(specdec: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("altair", "vl_convert"):
        monkeypatch.setitem(sys.modules, name, None)  # importing it fails
    assert specdec("plot", "--batch", "8").code == 0


def test_nothing_is_left_where_the_drawing_fails(
    specdec: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> bytes:
        raise RuntimeError("no ink")

    monkeypatch.setattr("specdec_cli.report.image.image", broken)
    assert specdec("plot", output=str(tmp_path / "a.png")).code == 1
    assert list(tmp_path.iterdir()) == []


def test_existing_pictures_are_kept_without_force(specdec: Runner, tmp_path: Path) -> None:
    file = tmp_path / "a.svg"
    file.write_text("mine")
    refused(specdec("plot", output=str(file)), "exists; --force replaces it")
    assert file.read_text() == "mine"
    assert specdec("plot", "--force", output=str(file)).code == 0
    assert file.read_text() != "mine"


# ----------------------------------------------------------------------------------------------- sweep --plot


def test_sweep_plot_draws_below_the_table(specdec: Runner) -> None:
    plain, drawn = specdec("sweep").out, specdec("sweep", "--plot").out
    assert drawn.startswith(plain.rstrip("\n"))
    assert "beside a point: its D" in drawn


def test_sweep_plot_as_a_picture(specdec: Runner, tmp_path: Path) -> None:
    assert specdec("sweep", "--plot", output=str(tmp_path / "a.svg")).code == 0
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<svg")


@pytest.mark.parametrize("arguments", [["--format", "json"], ["-o", "a.csv"], ["--format", "csv", "-o", "a.svg"]])
def test_sweep_plot_has_no_other_format(specdec: Runner, arguments: list[str]) -> None:
    refused(specdec("sweep", "--plot", *arguments), "--plot draws below the table")


# ----------------------------------------------------------------------------------------------- pages


@pytest.mark.parametrize("command", ["plot", "report"])
def test_a_page_asks_nothing_of_a_network(pages: dict[str, str], command: str) -> None:
    page = pages[command]
    assert len(page.encode()) < 3_000_000
    tags = Text(page).tags
    for _, attributes in tags:
        assert not {"src", "srcset", "action", "background"} & attributes.keys()
        assert attributes.get("href", "data:,") == "data:,"
    policy = next(a["content"] for tag, a in tags if tag == "meta" and a.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "http" not in policy
    style = page[page.index("<style>") : page.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style


@pytest.mark.parametrize("command", ["plot", "report"])
def test_a_page_holds_the_records_points(pages: dict[str, str], command: str, specdec: Runner) -> None:
    points = specdec("sweep", "--format", "json").data["points"]
    table = payload(pages[command])["tables"]["points"]
    columns = {
        key: [table["texts"][key][v] for v in values] if key in table["texts"] else values
        for key, values in table["columns"].items()
    }
    assert table["length"] == len(points)
    for at, point in enumerate(points):
        for key in ("batch", "draft_length", "step_ms", "speedup", "interactivity_tokens_per_s_per_user", "bound"):
            value = columns[key][at]
            assert value == point[key] if isinstance(value, str) else value == pytest.approx(point[key], rel=5e-5)


def test_a_page_has_every_view_and_says_what_it_shows(pages: dict[str, str]) -> None:
    data = payload(pages["plot"])
    assert set(data["specs"]) == {*VIEWS, "frontier_log"}
    assert data["about"] == ABOUT
    assert set(data["themes"]) == {"light", "dark"}
    for spec in data["specs"].values():
        assert spec["width"] == "container"
        assert {p["name"] for p in spec["params"]} >= {"hidden", "series", "batch", "focus", "ink"}
    words = Text(pages["plot"]).text
    for name in (*VIEWS.values(), "no speculation", "EAGLE-3", "Rests on", "Make it again"):
        assert name in words


def test_the_command_is_there_to_be_run_again(pages: dict[str, str], toys: Path) -> None:
    for command in ("plot", "report"):
        match = re.search(rf"specdec {command} .*", Text(pages[command]).text)
        assert match is not None
        said = match[0]
        for part in ("--batch 8", "--hardware toy-chip", "--model toy-model", f"--profiles {toys}", "--output"):
            assert part in said


def test_report_holds_question_answer_guidelines_settings_and_sources(pages: dict[str, str], specdec: Runner) -> None:
    answer = specdec("recommend", "--batch", "8", "--format", "json").data
    words = Text(pages["report"]).text
    assert (
        "Which draft length for toy-model on 1 x toy-chip with toy-engine, 2,048 tokens of context, at batch 8?"
        in words
    )
    assert f"draft {answer['choice']['draft_length']}" in words or (
        f"draft length {answer['choice']['draft_length']}" in words
    )
    assert len(answer["guidelines"]) == 5
    for rule in answer["guidelines"]:
        assert f"{rule['id']} {rule['title']}" in words
        assert " ".join(rule["why"].split()) in words
    for entry in answer["engine_settings"].values():
        if entry["text"]:
            assert " ".join(entry["text"].split()) in words
    for name, entry in answer["inputs"].items():
        assert name in words
        assert entry["origin"] in words
    for heading in ("How far off it may be", "What it assumes", "Sources of the figures", "Engine settings"):
        assert heading in words
    assert "a made-up figure of this test" in words
    buttons = [attributes for tag, attributes in Text(pages["report"]).tags if "data-copy" in attributes]
    assert len(buttons) >= 2  # settings and the command
    for warning in answer["warnings"]:
        assert warning["code"] in words


def test_report_without_a_limit_holds_the_schedule(specdec: Runner, tmp_path: Path) -> None:
    file = tmp_path / "a.html"
    assert specdec("report", output=str(file)).code == 0
    words = Text(file.read_text("utf-8")).text
    assert "at each batch size?" in words
    assert "Draft length by batch" in words
    assert "The five guidelines" not in words


def test_report_counts_published_errors_where_measurements_are_known(
    specdec: Runner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    totals = [
        {
            "name": "tier Z",
            "points": 7,
            "errors": {"base_step": {"median": 0.031, "p90": 0.2}, "rho": {"median": 0.042, "p90": 0.3}},
        }
    ]
    monkeypatch.setattr("specdec_cli.cli.report._totals", lambda library: totals)
    file = tmp_path / "a.html"
    assert specdec("report", "--batch", "8", output=str(file)).code == 0
    words = Text(file.read_text("utf-8")).text
    assert "tier Z 7 3.1 % 20 % 4.2 % 30 %" in words


def test_off_is_an_answer_of_a_report(specdec: Runner, tmp_path: Path) -> None:
    file = tmp_path / "a.html"
    assert specdec("report", "--batch", "64", "--draft-lengths", "0,4", output=str(file)).code == 0
    assert "speculation off" in Text(file.read_text("utf-8")).text


def test_report_is_no_text_for_a_terminal(specdec: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specdec_cli.cli.output.Destination.terminal", property(lambda self: True))
    refused(specdec("report", "--batch", "8"), "-o report.html")


def test_names_cannot_break_out_of_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A profile's text is shown, never run: neither in the markup nor in the data."""
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    folder = write_library(
        tmp_path / "profiles",
        toy_hardware(),
        toy_model(),
        toy_drafter(default=True),
        toy_acceptance(default=True, data_set=evil),
        toy_engine(),
    )
    file = tmp_path / "a.html"
    answer = Runner(folder, capsys)("report", "--batch", "8", output=str(file))
    assert answer.code == 0, answer.err
    page = file.read_text("utf-8")
    tags = [tag for tag, _ in Text(page).tags]
    assert "img" not in tags
    assert tags.count("script") == 3
    assert evil in Text(page).text


def test_page_scripts_and_styles_are_in_the_package() -> None:
    """page.js and page.css are read at run time: the wheel must carry them."""
    folder = REPO / "specdec_cli" / "report" / "web"
    assert {file.name for file in folder.iterdir()} == {"page.css", "page.js"}


def test_page_js_knows_every_format_of_the_tips() -> None:
    script = (REPO / "specdec_cli" / "report" / "web" / "page.js").read_text("utf-8")
    formats = {form for tips in (POINT_TIPS, STEP_TIPS, ACCEPTANCE_TIPS) for _, _, form in tips if form}
    assert formats
    for form in formats:
        assert f'"{form}": {{' in script
