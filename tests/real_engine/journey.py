"""A user's way through, on this machine: a real engine, its own files, `acceptance`, `calibrate`, `sweep`.

Makes two tiny models, runs llama.cpp with and without the draft model, measures the CPU, writes profiles for all of
it, and sets what specdec predicts beside what was measured. Needs an interpreter with `xllamacpp` and `gguf`.

python tests/real_engine/journey.py OUT --python ENGINE_VENV/bin/python --store f32 --fifo
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
STORES = {"f32": ("fp32", 32.0), "q8_0": ("q8_0", 8.5)}
"""Store of the weights -> how specdec calls it, bits per weight."""
DRAFT_LENGTHS = (0, 1, 2, 3, 4, 6, 8)
GIVEN = (0, 1, 8)
"""The three runs that a calibration gets; the others are predicted."""
ROUNDS = 2
"""Times that all draft lengths are run, so that a disturbance does not hit one of them alone."""

Specdec = Callable[[Sequence[str]], str]
"""Runs the command line, returns stdout."""


@dataclass(frozen=True, slots=True)
class Point:
    """One draft length at batch 1."""

    draft_length: int
    acceptance_length: float
    """As `specdec acceptance` reads it from the log."""
    counted: float
    """As the engine's own counters have it: 1 + accepted tokens / rounds with drafts; 1 without."""
    measured_ms: float
    """A step, as `specdec acceptance` reads it."""
    prior_ms: float
    """As the profiles alone predict it."""
    calibrated_ms: float
    """As predicted with the three runs of GIVEN."""
    curve_ms: float
    """As predicted with the three runs and the target's passes, timed by themselves, as a curve."""

    def speed(self, step_ms: float) -> float:
        """Tokens/s of a user."""
        return 1e3 * self.acceptance_length / step_ms


def run_engine(python: str, folder: Path, store: str, *, fifo: bool, rounds: int, tokens: int) -> None:
    """Models and logs: folder/models, folder/0, folder/1 ..."""
    right = ["--fifo"] if fifo else []
    right += ["--passes", ",".join(str(length + 1) for length in DRAFT_LENGTHS)]
    models = folder / "models"
    commands = [["tiny_models.py", str(models), store]]
    commands += [
        ["run_llama_cpp.py", str(models), str(folder / str(place)), "--tokens", str(tokens), "--requests", "3", *right]
        for place in range(rounds)
    ]
    for name, *rest in commands:
        subprocess.run([python, str(HERE / name), *rest], check=True, stdout=subprocess.DEVNULL)


def write_profiles(python: str, folder: Path, store: str, specdec: Specdec, *, fifo: bool) -> Path:
    """Profiles of the target, the draft model, the drafter and this CPU, made as a user would make them."""
    profiles = folder / "profiles"
    profiles.mkdir(exist_ok=True)
    dtype, bits = STORES[store]
    for name in ("tiny-target", "tiny-draft"):
        config, made = str(folder / "models" / name), str(profiles / f"{name}.yaml")
        specdec(["profiles", "import", config, "--bits-per-weight", str(bits), "-o", made, "--force"])
    source = f'sources:\n  "*": {{from: tests/real_engine, checked: "{date.today()}", kind: measured}}\n'
    drafter = "format: 1\nkind: drafter\nname: tiny-target-draft\nmechanism: draft_model\ntargets: [tiny-target]\n"
    drafter += "title: The target's first layer as a draft model\ndefault: true\nmodel: tiny-draft\n"
    (profiles / "tiny-target-draft.yaml").write_text(drafter + source, "utf-8")

    command = [python, str(HERE / "measure_cpu.py"), *(["--fifo"] if fifo else [])]
    measured = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    skeleton = specdec(["profiles", "new", "hardware", "this-cpu", "--like", "epyc-9654", "-o", "-"])
    (profiles / "this-cpu.yaml").write_text(filled(skeleton, dtype, measured), "utf-8")
    specdec(["profiles", "check", *map(str, sorted(profiles.glob("*.yaml")))])
    return profiles


def filled(skeleton: str, dtype: str, measured: dict[str, float]) -> str:
    """The hardware skeleton with this CPU in it.

    The bandwidth is what a read reached, so the matrix kernels' share of it is 1, not the donor's share of a datasheet.
    """
    values = {
        "title": "One core of this machine",
        "vendor": "as measured",
        "architecture": "CPU",
        "memory_gb": "16.0",
        "memory_bytes": "17179869184.0",
        "memory_bandwidth_gb_per_s": f"{measured['read_gb_per_s']:.2f}",
        "bf16": f"{measured['fp32_tflops']:.4f}",
        "technology": "none",
        "gb_per_s": "1.0",
        "peer_gb_per_s": "1.0",
        "domain_gpus": "1",
        "from": "a dot product and a matrix product of numpy on one core",
        "kind": "measured",
    }
    text = re.sub(r"(?m)^  fp8: .*\n", "", skeleton, count=1)  # a peak that no CPU has
    for key, value in values.items():
        text = re.sub(rf"(?m)^( *{key}:) +# required.*$", rf"\1 {value}", text, count=1)
    own = (
        f"      {dtype}: {{compute: bf16, eta_c: 0.5, eta_m: 1.0, tau_us: 10.0, tau_k_us: 0.0, overlap_exponent: 1.0}}"
    )
    text = re.sub(rf"(?m)^      {dtype}: .*\n", "", text, count=1)
    return text.replace("    gemm:\n", f"    gemm:\n{own}\n", 1)


def counted_acceptance(folder: Path, draft_length: int) -> float:
    """From the engine's counters, whose names and meaning are the engine's: nothing of specdec in it."""
    drafts = accepted = 0.0
    for scrape in folder.glob(f"[0-9]/metrics-d{draft_length}.prom"):
        text = scrape.read_text("utf-8")
        found = {name: float(value) for name, value in re.findall(r"(?m)^llamacpp:(\w+) ([\d.]+)$", text)}
        drafts += found.get("spec_decode_num_drafts_total", 0.0)
        accepted += found.get("spec_decode_num_accepted_tokens_total", 0.0)
    return 1.0 + accepted / drafts if drafts else 1.0


def read_points(folder: Path, specdec: Specdec) -> dict[int, tuple[float, float]]:
    """AL and step in ms by draft length, out of the logs."""
    found = {}
    for length in DRAFT_LENGTHS:
        logs = sorted(map(str, folder.glob(f"[0-9]/server-d{length}.log")))
        runs = json.loads(specdec(["acceptance", *logs, "--format", "json"]))["runs"]
        assert {run["draft_length"] for run in runs} == {length}, (logs, runs)
        found[length] = (
            statistics.fmean(run["acceptance_length"] for run in runs),
            statistics.fmean(run["step_ms"] for run in runs),
        )
    return found


def predict(folder: Path, profiles: Path, specdec: Specdec) -> list[Point]:
    """Measured steps beside those of the profiles, and of the profiles calibrated on three draft lengths."""
    scenario = ["--hardware", "this-cpu", "--model", "tiny-target", "--drafter", "tiny-target-draft"]
    scenario += ["--engine", "llama-cpp", "--profiles", str(profiles)]
    off = sorted(map(str, folder.glob("[0-9]/server-d0.log")))
    on = [str(log) for length in GIVEN[1:] for log in sorted(folder.glob(f"[0-9]/server-d{length}.log"))]
    passes = sorted(map(str, folder.glob("[0-9]/passes.csv")))

    def calibration(name: str, *files: str) -> str:
        made = str(folder / f"{name}.yaml")
        plain = (part for log in off for part in ("--off", log))
        said = specdec(["calibrate", *files, *plain, *scenario, "-o", made, "--force"])
        (folder / f"{name}.txt").write_text(said, "utf-8")
        return made

    measured = read_points(folder, specdec)
    lengths = ",".join(map(str, DRAFT_LENGTHS))
    accepted = ",".join(f"{length}={measured[length][0]:.4f}" for length in DRAFT_LENGTHS[1:])
    asked = ["sweep", *scenario, "--batches", "1", "--draft-lengths", lengths, "--acceptance-length", accepted]
    asked += ["--context", "128", "--format", "json"]

    def steps(*more: str) -> dict[int, float]:
        answer: dict[str, Any] = json.loads(specdec([*asked, *more]))
        return {point["draft_length"]: point["step_ms"] for point in answer["points"]}

    prior = steps()
    calibrated = steps("--calibration", calibration("calibration", *on))
    curve = steps("--calibration", calibration("curve", *on, *passes))
    return [
        Point(
            draft_length=length,
            acceptance_length=measured[length][0],
            counted=counted_acceptance(folder, length),
            measured_ms=measured[length][1],
            prior_ms=prior[length],
            calibrated_ms=calibrated[length],
            curve_ms=curve[length],
        )
        for length in DRAFT_LENGTHS
    ]


def table(points: Sequence[Point]) -> str:
    """Markdown; bold: predicted, not given."""
    head = ("D", "AL read", "AL counted", "step ms measured", "profiles", "calibrated", "error", "with passes", "error")
    head += ("tokens/s",)
    lines = ["| " + " | ".join(head) + " |", "|" + " --: |" * len(head)]
    for point in points:
        errors = [f"{each / point.measured_ms - 1:+.1%}" for each in (point.calibrated_ms, point.curve_ms)]
        if point.draft_length not in GIVEN:
            errors = [f"**{error}**" for error in errors]
        cells = (
            f"{point.draft_length}",
            f"{point.acceptance_length:.2f}",
            f"{point.counted:.2f}",
            f"{point.measured_ms:.1f}",
            f"{point.prior_ms:.1f}",
            f"{point.calibrated_ms:.1f}",
            errors[0],
            f"{point.curve_ms:.1f}",
            errors[1],
            f"{point.speed(point.measured_ms):.1f}",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def journey(
    python: str,
    folder: Path,
    store: str,
    specdec: Specdec,
    *,
    fifo: bool = False,
    rounds: int = ROUNDS,
    tokens: int = 160,
) -> list[Point]:
    """All of it; keeps what the engine wrote under folder, and the table in folder/result.md."""
    folder.mkdir(parents=True, exist_ok=True)
    run_engine(python, folder, store, fifo=fifo, rounds=rounds, tokens=tokens)
    profiles = write_profiles(python, folder, store, specdec, fifo=fifo)
    points = predict(folder, profiles, specdec)
    (folder / "result.md").write_text(table(points) + "\n", "utf-8")
    return points


def by_command(arguments: Sequence[str]) -> str:
    """specdec in a process of its own."""
    command = [sys.executable, "-m", "specdec_cli", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a real engine and predict it.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--python", default=sys.executable, help="an interpreter with xllamacpp and gguf")
    parser.add_argument("--store", choices=STORES, default="f32")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--fifo", action="store_true", help="run the engine at real-time priority, undisturbed")
    asked = parser.parse_args()
    points = journey(
        asked.python, asked.out, asked.store, by_command, fifo=asked.fifo, rounds=asked.rounds, tokens=asked.tokens
    )
    print(table(points))


if __name__ == "__main__":
    main()
