"""Choosing on published sweeps: profiles alone, acceptance as measured, beside three simpler choosers.

The table is `python tests/fits/decisions.py`.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from conftest import REPO
from published_sweeps import Sweep, sweeps

sys.path.insert(0, str(REPO / "tests" / "fits"))
from decisions import CHOOSERS, groups, loss, on_off_right, score, table

MOST_MEAN_LOSS = 0.03
LEAST_RIGHT = 0.9
GATED = ("several D, chains", "several D, chains, ratios of steps", "one D", "all")
BASELINES = [name for name in CHOOSERS if name != "specdec"]


@pytest.mark.parametrize("group", GATED)
def test_the_choice_loses_little_and_beats_every_baseline(group: str) -> None:
    members = groups()[group]
    assert len(members) >= 15
    own = score(CHOOSERS["specdec"], members)
    assert own.mean_loss < MOST_MEAN_LOSS, table()
    assert own.right >= LEAST_RIGHT, table()
    for name in BASELINES:
        assert own.mean_loss < score(CHOOSERS[name], members).mean_loss, f"{name}\n{table()}"


def test_trees_are_scored_apart() -> None:
    """Their published verify widths are partly assumed: the gate is the loss alone."""
    members = groups()["several D, trees"]
    assert len(members) >= 10
    assert score(CHOOSERS["specdec"], members).mean_loss < MOST_MEAN_LOSS, table()


def test_the_table_names_everyone() -> None:
    said = table()
    for name in (*CHOOSERS, *groups()):
        assert name in said


# A made-up sweep: D = 2 is measured best (1.5x), D = 4 less (1.2x).


def made_up(speeds: dict[int, float]) -> Sweep:
    found = SimpleNamespace(measured=lambda: speeds, predicted=lambda _: speeds)
    return cast(Sweep, found)


def test_what_is_scored() -> None:
    sweep = made_up({0: 1.0, 2: 1.5, 4: 1.2})
    assert loss(sweep, 2) == 0.0
    assert loss(sweep, 4) == pytest.approx(0.2)  # 1 - 1.2/1.5
    assert loss(sweep, 0) == pytest.approx(1 / 3)
    assert on_off_right(sweep, 4) is True
    assert on_off_right(sweep, 0) is False
    assert on_off_right(made_up({0: 1.0, 3: 1.02}), 0) is None
    assert on_off_right(made_up({0: 1.0, 3: 0.7}), 0) is True
    both = score(lambda one: 4 if 4 in one.measured() else 3, [sweep, made_up({0: 1.0, 3: 0.7})])
    assert (both.sweeps, both.on_off_right, both.on_off) == (2, 1, 2)
    assert both.mean_loss == pytest.approx((0.2 + 0.3) / 2)
    assert both.worst_loss == pytest.approx(0.3)


# ------------------------------------------------------------------------------------------- the answer key

NO_PROFILE = "the chip has no profile"
HELD: dict[str, tuple[str, str]] = {
    "vllm-l31-8b-eagle1": ("vllm-issue-20780", "eagle"),
    "vllm-l31-8b-eagle3": ("vllm-issue-20780", "eagle3"),
    "q38-3090-250w": ("qwen38-mtp-community", "rtx-3090-q4-250w"),
    "q38-5090-192k": ("qwen38-mtp-community", "rtx-5090-q4-192k"),
    "q38-5090-q5": ("qwen38-mtp-community", "rtx-5090-q5"),
    "q38-5090-600w": ("qwen38-mtp-community", "rtx-5090-q4"),
    "gptoss120b-h100": ("specdrift-gpt-oss-120b-h100", "eagle3"),
    "q30ba3b-2xh100": ("specforge-issue-339", "eagle3"),
    "q38-27b-sm120": ("llama-cpp-issue-28196", "sm120-mtp"),
    "q35-397b-4xpro6000": ("rtx6kpro-qwen3.5-397b", "nvfp4-mtp2-scaling"),
}
"""Groups of the answer key -> source and setup."""
LEFT_OUT: dict[str, str] = {
    "q38-2x5060ti-tp": NO_PROFILE,
    "q38-5060ti-tp-b1": NO_PROFILE,
    "q38-5060ti-layer": NO_PROFILE,
    "q38-5060ti-par": NO_PROFILE,
    "q38-a6000": NO_PROFILE,
    "q38-2xp40": NO_PROFILE,
    "q36-27b-r9700-par": NO_PROFILE,
    "q35-2b-npu-tp2": NO_PROFILE,
    "gb10-llamacpp-mtp": "the model is not named, and every step captured its graph again",
    "nemotron35-imp": "a software fault by its own source",
    "gemma4-26b-spark": "no run without speculation",
    "flashnext-pro6000": "no run without speculation",
    "q38-5090-nvfp4": "acceptance stated at one draft length of three",
    "q38-5090-400w": "no acceptance stated",
}


def test_every_group_of_the_answer_key_is_held_or_left_out_by_name(shared_data: Path) -> None:
    with (shared_data / "answer_key.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["group"] for row in rows} == set(HELD) | set(LEFT_OUT)
    compared = 0
    for row in rows:
        if row["group"] not in HELD:
            continue
        source, setup = HELD[row["group"]]
        own = [s for s in sweeps() if s.source.name == source and s.setup.id == setup]
        own = [s for s in own if abs(s.results[0].batch - float(row["B"])) < 0.5]
        assert own, row["group"]
        speeds = {length: max(s.measured().get(length, 0.0) for s in own) for s in own for length in s.measured()}
        wanted = float(row["speedup_best"])
        assert max(speeds.values()) == pytest.approx(wanted, rel=0.01), row["group"]
        assert (max(speeds, key=lambda length: speeds[length]) > 0) == (row["verdict"] == "on"), row["group"]
        compared += 1
    assert compared >= 15
