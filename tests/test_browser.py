"""Pages in a real browser, opened from disk with the network off: they draw, answer the mouse and the keyboard, and ask
nothing of anyone. Skipped where Chromium, its driver or selenium is absent.

SPECDEC_SCREENSHOTS=DIR keeps pictures of the pages in both themes and at phone width, to be looked at.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_runs import write_toys

from specdec_cli.cli.app import run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver") or shutil.which("chromium.chromedriver")
if not (CHROMIUM and DRIVER):
    pytest.skip("no Chromium with its driver here (Debian: chromium, chromium-driver)", allow_module_level=True)

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
from selenium.webdriver.chrome.options import Options  # noqa: E402
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--hide-scrollbars"),
)
WAIT_S = 30
DESKTOP, PHONE = (1200, 900), (390, 844)
TIPS = "[...document.querySelectorAll('#vg-tooltip-element tr')].map(r => [...r.cells].map(c => c.textContent))"

PANEL = (
    "return Object.fromEntries([...document.querySelectorAll('#point dl div')]"
    ".map(pair => [pair.children[0].textContent, pair.children[1].textContent]))"
)


class Browser:
    """Chromium without a network, and what one does with a page."""

    def __init__(self, folder: Path) -> None:
        options = Options()
        options.binary_location = CHROMIUM
        for flag in (*FLAGS, f"--user-data-dir={folder}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(DRIVER))
        self._do("Network.enable")
        self._do("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)

    def _do(self, command: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(command, arguments)

    def open(self, file: Path, *, size: tuple[int, int] = DESKTOP, dark: bool = False) -> None:
        """Load the page and wait for its first chart."""
        self._do("Emulation.setDeviceMetricsOverride", width=size[0], height=size[1], deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._do("Emulation.setEmulatedMedia", features=[scheme])
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(file.as_uri())
        self.until("return window.specdecDrawn >= 1")

    def js(self, script: str, *arguments: Any) -> Any:
        """Run it; it returns a value."""
        return self.driver.execute_script(script, *arguments)

    def until(self, script: str, *arguments: Any) -> Any:
        """Wait until it returns something true."""
        return WebDriverWait(self.driver, WAIT_S, 0.05).until(lambda _: self.js(script, *arguments))

    def view(self, name: str) -> None:
        """Switch to another view, as a click does, and wait for its chart."""
        before = self.js("return window.specdecDrawn")
        self.js("document.querySelector(`input[name=view][value=${arguments[0]}]`).click()", name)
        self.until("return window.specdecDrawn > arguments[0]", before)

    def choose(self, select: str, value: str) -> None:
        """Choose an entry of a list, and wait for the chart to follow."""
        self.js(
            "const list = document.getElementById(arguments[0]); list.value = arguments[1];"
            "list.dispatchEvent(new Event('change'))",
            select,
            value,
        )
        self.settle()

    def settle(self) -> None:
        """Wait for the chart to have taken in what was changed."""
        self.driver.execute_async_script("const done = arguments[0]; window.specdecView.runAsync().then(() => done())")

    def hover(self, x: float, y: float) -> None:
        """Move the mouse to a place in the viewport."""
        self._do("Input.dispatchMouseEvent", type="mouseMoved", x=x - 3, y=y - 3)
        self._do("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def place(self, scales: str) -> tuple[float, float]:
        """Where in the viewport a data point is drawn; `scales`: JavaScript that gives [x, y] within the plot."""
        found = self.js(
            "const v = window.specdecView; document.getElementById('chart').scrollIntoView({block: 'center'});"
            "const box = document.querySelector('#drawing svg, #drawing canvas').getBoundingClientRect();"
            f"const [x, y] = {scales}; const [ox, oy] = v.origin(); const pad = v.padding();"
            "return [box.x + pad.left + ox + x, box.y + pad.top + oy + y]"
        )
        return found[0], found[1]

    def tip(self) -> dict[str, str]:
        """What hovering shows, by name."""
        self.until("return document.querySelector('#vg-tooltip-element.visible') !== null")
        return {key.strip(): value for key, value in self.js(f"return {TIPS}")}

    def console(self) -> list[str]:
        """Everything that the console said."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Every address that was asked for since the page was opened."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]

    def shoot(self, name: str) -> None:
        """Keep a picture of the whole page where the environment asks for it."""
        folder = os.environ.get("SPECDEC_SCREENSHOTS")
        if not folder:
            return
        width, height = self.js("return [innerWidth, document.documentElement.scrollHeight]")
        self._do("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        picture = self._do("Page.captureScreenshot", format="png")["data"]
        Path(folder, f"{name}.png").write_bytes(base64.b64decode(picture))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = Browser(tmp_path_factory.mktemp("chromium"))
    yield found
    found.driver.quit()


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Run a command on the toys; the file that it wrote. Each is made once."""
    folder = tmp_path_factory.mktemp("pages")
    toys = write_toys(folder / "toys")
    made: dict[tuple[str, ...], Path] = {}

    def run_once(*arguments: str, ending: str = "html") -> Path:
        if arguments not in made:
            file = folder / f"{len(made)}.{ending}"
            toy = ["--profiles", str(toys), "--hardware", "toy-chip", "--model", "toy-model", "--engine", "toy-engine"]
            assert run([arguments[0], *toy, *arguments[1:], "-o", str(file)]) == 0
            made[arguments] = file
        return made[arguments]

    return run_once


PLOT = ("plot", "--batch", "8", "--drafter", "toy-model-eagle3,ngram", "--acceptance-rate", "0.6")


@pytest.fixture(scope="module")
def points(make: Callable[..., Path]) -> list[dict[str, Any]]:
    """The same points from `specdec sweep`."""
    arguments = [word for word in PLOT[1:] if word not in ("--batch", "8")]
    record = json.loads(make("sweep", *arguments, ending="json").read_text("utf-8"))
    found: list[dict[str, Any]] = record["points"]
    return found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("command", [PLOT, ("report", "--batch", "8")], ids=["plot", "report"])
def test_every_view_draws_quietly_and_asks_for_nothing(
    browser: Browser, make: Callable[..., Path], command: tuple[str, ...], size: tuple[int, int], dark: bool
) -> None:
    file = make(*command)
    browser.open(file, size=size, dark=dark)
    name = f"{command[0]}-{size[0]}-{'dark' if dark else 'light'}"
    for view, mark in (("frontier", "symbol"), ("speedup", "rect"), ("step", "rect"), ("acceptance", "symbol")):
        browser.view(view) if view != "frontier" else None
        drawn = browser.js(f"return document.querySelectorAll('#drawing .mark-{mark}.role-mark path').length")
        assert drawn > 3, view
        wide = browser.js("return document.querySelector('#drawing svg').getBoundingClientRect().width")
        assert 0.7 * size[0] * (0.75 if size == DESKTOP else 1) < wide <= size[0]
        assert browser.js("return document.documentElement.scrollWidth") <= size[0]  # nothing sticks out sideways
        browser.shoot(f"{name}-{view}")
    ground = browser.js("return getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 24, 31)" if dark else "rgb(255, 255, 255)")
    assert browser.console() == []
    assert [url for url in browser.requests() if not url.startswith(("data:", "blob:"))] == [file.as_uri()]


@pytest.mark.parametrize("which", [0, 1, 2], ids=["fastest", "middle", "widest"])
def test_hover_shows_the_records_numbers(
    browser: Browser, make: Callable[..., Path], points: list[dict[str, Any]], which: int
) -> None:
    by_batch: dict[int, dict[str, Any]] = {}
    x_key, y_key = "interactivity_tokens_per_s_per_user", "throughput_tokens_per_s_per_gpu"
    for point in points:  # on the line of a drafter stands the best draft length of each batch
        best = by_batch.get(point["batch"])
        if point["drafter"] == "toy-model-eagle3" and (best is None or point[x_key] > best[x_key]):
            by_batch[point["batch"]] = point
    point = by_batch[(1, 16, 256)[which]]
    browser.open(make(*PLOT))
    x, y = point[x_key], point[y_key]
    browser.hover(*browser.place(f"[v.scale('x')({x}), v.scale('y')({y})]"))
    tip = browser.tip()
    assert tip["line"] == "EAGLE-3"
    assert int(tip["batch B"]) == point["batch"]
    assert int(tip["draft length D"]) == point["draft_length"]
    assert tip["bound by"] == point["bound"]
    for name, key in (
        ("AL", "acceptance_length"),
        ("tokens/s/user", "interactivity_tokens_per_s_per_user"),
        ("tokens/s/GPU", "throughput_tokens_per_s_per_gpu"),
        ("speedup", "speedup"),
        ("speedup, low", "speedup_low"),
        ("speedup, high", "speedup_high"),
        ("target ms", "target_ms"),
        ("verify ms", "verify_ms"),
        ("draft ms", "draft_ms"),
        ("step ms", "step_ms"),
    ):
        shown = float(tip[name].replace(",", ""))
        assert shown == pytest.approx(point[key], rel=1e-3, abs=0.006), name


def test_hover_over_the_heat_map(browser: Browser, make: Callable[..., Path], points: list[dict[str, Any]]) -> None:
    browser.open(make(*PLOT))
    browser.view("speedup")
    browser.choose("series", "EAGLE-3")
    cell = "[v.scale('x')(64) + v.scale('x').bandwidth() / 3, v.scale('y')(3) + v.scale('y').bandwidth() / 3]"
    browser.hover(*browser.place(cell))
    tip = browser.tip()
    point = next(p for p in points if (p["batch"], p["draft_length"], p["drafter"]) == (64, 3, "toy-model-eagle3"))
    assert (tip["batch B"], tip["draft length D"]) == ("64", "3")
    assert float(tip["speedup"]) == pytest.approx(point["speedup"], abs=0.006)


def test_legend_buttons_hide_lines_and_bring_them_back(browser: Browser, make: Callable[..., Path]) -> None:
    browser.open(make(*PLOT))
    count = "return document.querySelectorAll('#drawing .mark-line.role-mark path').length"
    shown = "return window.specdecView.data('points') && document.querySelectorAll('#drawing .mark-symbol path').length"
    everything = browser.js(shown)
    assert browser.js(count) == 3
    for name in ("no speculation", "n-gram"):
        button = browser.driver.find_element(By.XPATH, f"//button[@data-line and contains(., '{name}')]")
        before = browser.js(count)
        button.send_keys(Keys.SPACE)  # by keyboard, as by mouse
        assert button.get_attribute("aria-pressed") == "false"
        browser.until(f"{count} === arguments[0]", before - 1)
    assert browser.js(shown) < everything
    for name in ("no speculation", "n-gram"):
        browser.driver.find_element(By.XPATH, f"//button[@data-line and contains(., '{name}')]").click()
    browser.until(f"{count} === 3")
    assert browser.js(shown) == everything


def test_drafter_and_batch_choose_what_the_step_shows(
    browser: Browser, make: Callable[..., Path], points: list[dict[str, Any]]
) -> None:
    browser.open(make(*PLOT))
    browser.view("step")
    bars = "return document.querySelectorAll('#drawing .mark-rect.role-mark path').length"
    for drafter, name in (("toy-model-eagle3", "EAGLE-3"), ("ngram", "n-gram")):
        browser.choose("series", name)
        browser.choose("batch", "16")
        here = [p for p in points if p["batch"] == 16 and p["drafter"] in (drafter, "none")]
        browser.until(f"{bars} === arguments[0]", 4 * len(here))
        browser.settle()
        diamonds = browser.js(
            "return [...document.querySelectorAll('#drawing .mark-symbol.role-mark path')].map(p => p.__data__.datum)"
        )
        found = {int(d["draft_length"]): d["step_ms"] for d in diamonds}
        assert found == pytest.approx({p["draft_length"]: p["step_ms"] for p in here}, rel=1e-4)


def test_arrow_keys_walk_the_points(browser: Browser, make: Callable[..., Path], points: list[dict[str, Any]]) -> None:
    browser.open(make(*PLOT))
    chart = browser.driver.find_element(By.ID, "chart")
    chart.send_keys(Keys.ARROW_RIGHT)
    first = browser.js(PANEL)
    assert first["line"] == "no speculation"
    chart.send_keys(Keys.END)
    last = browser.js(PANEL)
    point = next(
        p
        for p in points
        if (str(p["batch"]), str(p["draft_length"])) == (last["batch B"], last["draft length D"])
        and (p["drafter"] == "ngram") == (last["line"] == "n-gram")
        and p["draft_length"]
    )
    assert float(last["tokens/s/user"].replace(",", "")) == pytest.approx(
        point["interactivity_tokens_per_s_per_user"], rel=1e-3
    )
    browser.settle()
    assert browser.js("return window.specdecView.signal('focus')") >= 0
    chart.send_keys(Keys.ESCAPE)
    assert "arrow keys" in browser.driver.find_element(By.ID, "point").text
    browser.settle()
    assert browser.js("return window.specdecView.signal('focus')") == -1
    assert browser.console() == []


def test_everything_is_reached_by_keyboard(browser: Browser, make: Callable[..., Path]) -> None:
    browser.open(make("report", "--batch", "8"))
    reached = []
    for _ in range(40):
        browser.driver.switch_to.active_element.send_keys(Keys.TAB)
        reached.append(
            browser.js(
                "const e = document.activeElement; return e.id || e.name || (e.dataset && ('line' in e.dataset ? 'line'"
                " : 'copy' in e.dataset ? 'copy' : '')) || e.tagName"
            )
        )
        if reached.count("copy") >= 2:
            break
    assert {"theme", "view", "line", "log", "chart", "copy"} <= set(reached)
    assert browser.js("return getComputedStyle(document.activeElement).outlineStyle") != "none"


def test_theme_button_switches_and_log_axes_redraw(browser: Browser, make: Callable[..., Path]) -> None:
    browser.open(make(*PLOT))
    browser.driver.find_element(By.ID, "theme").click()
    browser.until("return window.specdecDrawn >= 2")
    assert browser.js("return document.documentElement.dataset.theme") == "dark"
    label = "return document.querySelector('#drawing .role-axis-label text').getAttribute('fill')"
    assert browser.js(label) == "#e8ebf0"
    browser.driver.find_element(By.ID, "log").click()
    browser.until("return window.specdecDrawn >= 3")
    assert browser.js("return window.specdecView.scale('x').type") == "log"
    assert browser.console() == []


def test_copy_button_copies(browser: Browser, make: Callable[..., Path]) -> None:
    file = make("report", "--batch", "8")
    browser.open(file)
    button = browser.driver.find_elements(By.CSS_SELECTOR, "[data-copy]")[-1]
    wanted = browser.js("return arguments[0].parentElement.querySelector('pre').textContent", button)
    assert wanted.startswith("specdec report")
    browser.js("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()
    browser.until("return arguments[0].textContent !== 'Copy'", button)
    assert button.text == "Copied"
    # Pasted into a field, it is the command.
    browser.js("const t = document.createElement('textarea'); t.id = 'pasted'; document.body.prepend(t); t.focus()")
    field = browser.driver.find_element(By.ID, "pasted")
    field.send_keys(Keys.CONTROL, "v")
    assert field.get_attribute("value") == wanted


def test_many_points_stay_usable(browser: Browser, make: Callable[..., Path]) -> None:
    many = ("--batches", "1..3000", "--draft-lengths", "0..16", "--acceptance-rate", "0.6", "--context", "16")
    file = make("plot", *many)
    assert file.stat().st_size < 3_000_000
    browser.open(file)
    assert browser.js("return document.querySelector('#drawing canvas') !== null")
    said = browser.driver.find_element(By.ID, "left-out").text
    assert "of 51,000 points are drawn: every point of the frontiers" in said
    took = browser.driver.execute_async_script(
        "const done = arguments[0]; const start = performance.now();"
        "window.specdecView.signal('hidden', ['no speculation']).runAsync().then(() => done(performance.now() - start))"
    )
    assert took < 5000  # milliseconds, on a machine that does other things as well
    browser.view("speedup")
    assert browser.console() == []
