"""Fitted kernel figures: the profiles are what the scripts of tests/fits make of the measured tables, and say so.

The tables come with the package aiconfigurator-core (`pip install -e .[fits]`); without it the profiles are still held
to what their sources claim. SPECDEC_FIT_ALL=1 fits every chip (a minute), not one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from specdec_cli.physics.chip import Shape, operation_cost, resolve_chip
from specdec_cli.physics.operations import Experts, IndexerScan, LatentAttention, Linear, Operation
from specdec_cli.profiles.load import Loaded, load_file
from specdec_cli.profiles.schema import Engine, Hardware, KernelSet, Source

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fits"))

import hardware_file  # noqa: E402
import routing  # noqa: E402

WRITE_HARDWARE = ROOT / "tests" / "fits" / "write_hardware.py"
ENGINES = ROOT / "profiles" / "engines"
HARDWARE = sorted((ROOT / "profiles" / "hardware").glob("*.yaml"))
QUICK_CHIP = "l40s"  # seconds, and every kind of rule applies to it

FITTED_FROM = re.compile(r"^aiconfigurator-core \d+\.\d+\.\d+ .*, (vLLM|SGLang|TensorRT-LLM|NCCL) \d")
SHARE = re.compile(r"^fitted on (\d+)(-\d+)? % of the rows, by shape; ")
ERRORS = re.compile(r"median error on the other shapes ([^;(]*)")
SKEWED_ERRORS = re.compile(r"; with power-law routing \([^)]*\) on one GPU ([^;(]*)")
ERROR = re.compile(r"(?:(\w+) )?(\d+\.\d) %")

# Median over chips of the median error on shapes that were not fitted, percent.
TARGETS = {
    ("gemm", "bf16"): 6.5,
    ("gemm", "fp8"): 10.0,
    ("gemm", "fp8_block"): 10.0,
    ("gemm", "nvfp4"): 8.0,
    ("attention", "bf16"): 10.0,
    ("attention", "fp8"): 10.0,
    ("mla", "bf16"): 10.0,
    ("mla", "fp8"): 10.0,
    ("moe", "bf16"): 15.0,
    ("moe", "fp8"): 15.0,
    ("moe", "fp8_block"): 15.0,
    ("moe", "nvfp4"): 15.0,
    ("moe", "mxfp4"): 15.0,
    ("moe", "int4"): 15.0,
    ("indexer", ""): 10.0,
    ("linear_attention", ""): 10.0,
}

every_chip = pytest.mark.parametrize("path", HARDWARE, ids=lambda path: path.stem)


def write_hardware(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(WRITE_HARDWARE), *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def fitted_sources(loaded: Loaded[Hardware]) -> dict[str, Source]:
    """Sources of kernels whose kind is fitted, by key."""
    return {
        key: source
        for key, source in loaded.record.sources.items()
        if key.startswith("kernels") and source.kind == "fitted"
    }


def errors_of(source: Source, wanted: re.Pattern[str] = ERRORS) -> dict[str, float]:
    """{dtype or GPUs ("" for a section of one): held-out median error in percent}."""
    found = wanted.search(source.note or "")
    return {key: float(error) for key, error in ERROR.findall(found[1])} if found else {}


def recorded_errors(wanted: re.Pattern[str] = ERRORS) -> dict[tuple[str, str], dict[str, dict[str, float]]]:
    """(section, dtype) -> chip -> kernel set -> held-out median error in percent."""
    answer: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for path in HARDWARE:
        for key, source in fitted_sources(load_file(path, "hardware")).items():
            _, engine, section = key.split(".")
            for dtype, error in errors_of(source, wanted).items():
                answer.setdefault((section, dtype), {}).setdefault(path.stem, {})[engine] = error
    return answer


# ----------------------------------------------------------------------------------------- the fit made again


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("aiconfigurator_core", "pyarrow", "scipy")),
    reason="needs the measured tables: pip install -e .[fits]",
)
def test_profiles_match_the_fit() -> None:
    done = write_hardware("--check", *([] if os.environ.get("SPECDEC_FIT_ALL") else [QUICK_CHIP]))
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------------------ what the profiles say


def test_figures_that_follow_from_others_follow(tmp_path: Path) -> None:
    """Taken over from another chip, weight-only from bf16, the same as another dtype: computed again, they agree."""
    nothing_fitted = tmp_path / "fitted.json"
    nothing_fitted.write_text("{}", encoding="utf-8")
    done = write_hardware("--check", "--fitted", str(nothing_fitted))
    assert done.returncode == 0, done.stderr
    assert f"{len(HARDWARE)} profiles agree" in done.stderr


def test_a_profile_that_departs_from_the_fit_is_found(tmp_path: Path) -> None:
    """The check can fail: a fit of another all-reduce is not what the profile holds."""
    found = {"latency_us": 1.0, "efficiency": 0.5, "n_fit": 9, "n_heldout": 8, "heldout_median_error": 0.05}
    other = {"vllm": {"all_reduce": {"2": found | {"table": "vllm 0.0.1 custom_allreduce_perf"}}}}
    path = tmp_path / "fitted.json"
    path.write_text(json.dumps({"arc-pro-b60": other}), encoding="utf-8")
    done = write_hardware("--check", "--fitted", str(path), "arc-pro-b60")
    assert done.returncode == 1
    assert "arc-pro-b60: kernels.default.all_reduce.2.latency_us" in done.stderr


@every_chip
def test_fitted_sources_say_version_share_and_error(path: Path) -> None:
    loaded: Loaded[Hardware] = load_file(path, "hardware")
    sources = fitted_sources(loaded)
    assert bool(sources) == loaded.record.fitted
    for key, source in sources.items():
        assert FITTED_FROM.match(source.from_), key
        share = SHARE.match(source.note or "")
        assert share, f"{key}: share of the rows"
        assert 2 <= int(share[1]) <= 60, f"{key}: the shapes that are not fitted are the greater part"
        # Each entry below that has no source of its own is fitted, and has its error.
        _, engine, section = key.split(".")
        entries = getattr(loaded.record.kernels[engine], section)
        stated = errors_of(source)
        own = {name for name in stated if f"{key}.{name}" not in loaded.record.sources}
        assert own == set(stated), f"{key}: an error of a figure with another source"
        if isinstance(entries, dict):
            assert set(stated) <= {str(name) for name in entries}, key


@every_chip
def test_entries_under_a_fitted_source_are_all_fitted(path: Path) -> None:
    """A figure must not borrow the word from its section: every key in the file has an error or its own source."""
    loaded: Loaded[Hardware] = load_file(path, "hardware")
    for key, source in fitted_sources(loaded).items():
        prefix = f"{key}."
        depth = key.count(".") + 1
        held = {".".join(str(part) for part in place) for place in loaded.document.marks}
        names = {name.removeprefix(prefix) for name in held if name.startswith(prefix) and name.count(".") == depth}
        if key.rpartition(".")[2] in ("indexer", "linear_attention"):
            continue  # one entry, whose fields these are
        bare = {name for name in names if prefix + name not in loaded.record.sources}
        assert bare == set(errors_of(source)), key


def medians(chips: dict[str, dict[str, float]]) -> tuple[float, float]:
    """Medians over chips: of the best engine, of the better of vLLM and SGLang."""
    best = statistics.median(min(engines.values()) for engines in chips.values())
    open_source = [[e for name, e in engines.items() if name != "tensorrt-llm"] for engines in chips.values()]
    return best, statistics.median(min(errors) for errors in open_source if errors)


@pytest.mark.parametrize("family", TARGETS, ids=lambda family: "-".join(filter(None, family)))
def test_held_out_errors_are_under_the_targets(family: tuple[str, str]) -> None:
    """The best engine of each chip, and the better of vLLM and SGLang: medians over the chips."""
    chips = recorded_errors()[family]
    assert len(chips) >= 5
    assert max(medians(chips)) < TARGETS[family]


@pytest.mark.parametrize("dtype", [dtype for section, dtype in TARGETS if section == "moe"])
def test_experts_are_under_the_target_by_power_law_routing_too(dtype: str) -> None:
    """With constants that were fitted to balanced routing; what has the one error has the other."""
    chips = recorded_errors(SKEWED_ERRORS)["moe", dtype]
    balanced = recorded_errors()["moe", dtype]
    without = {(chip, name) for chip, engines in balanced.items() for name in set(engines) - set(chips.get(chip, {}))}
    # The one shape that TensorRT-LLM's mxfp4 table of the H100 has on a single GPU is fitted.
    assert without == ({("h100-sxm", "tensorrt-llm")} if dtype == "mxfp4" else set())
    assert max(medians(chips)) < TARGETS["moe", dtype]


def test_rules_that_changed_a_figure_are_stated() -> None:
    """The notes that a reader needs: caps, fallbacks, open constants, caches."""
    notes: dict[str, str] = {}
    for path in HARDWARE:
        for key, source in load_file(path, "hardware").record.sources.items():
            notes[f"{path.stem}:{key}"] = f"{source.from_} {source.note or ''}"
    assert "cut to a fused quantise launch's" in notes["b200-sxm:kernels.tensorrt-llm.gemm"]
    assert notes["b300-sxm:kernels.tensorrt-llm.moe.nvfp4"].startswith("taken over from b200-sxm: ")
    assert notes["gb300-nvl72:kernels.tensorrt-llm.moe.nvfp4"].startswith("taken over from gb200-nvl72: ")
    assert notes["h200-sxm:kernels.default.gemm.fp8_block"].startswith("taken over from sglang: ")
    assert notes["h200-sxm:kernels.default.moe.fp8"].startswith("the same figures as fp8_block: ")
    assert "wait for the host's launches" in notes["b200-sxm:kernels.default.indexer"]
    for name, note in notes.items():
        if name.endswith((".attention", ".mla")) and "fitted on" in note:
            assert "last-level cache" in note, name


# ---------------------------------------------------------------------------------- reading the tables and profiles


@pytest.mark.parametrize(
    ("tokens", "measured"), [(8, 753 / 762), (16, 1139 / 1491), (32, 1557 / 2928), (48, 2159 / 2937), (64, 2290 / 2946)]
)
def test_power_law_routing_touches_the_experts_that_were_read(tokens: int, measured: float) -> None:
    """Experts of one layer bound by their weights: times by exponent 1.01 over balanced ones go as the experts read.

    aiconfigurator-core 0.12.0, SGLang 0.5.14 on H200, bf16, 256 experts of 4096 x 2048, 8 a token, us.
    """
    one = [np.array([value]) for value in (float(tokens), 256.0, 8.0)]
    share = routing.power_law_distinct(*one, np.array([1.01])) / routing.balanced_distinct(*one)
    assert share[0] == pytest.approx(measured, abs=0.06)


@pytest.mark.parametrize("alpha", [1.01, 1.2])
@pytest.mark.parametrize(("experts", "top_k"), [(8, 2), (128, 8), (512, 10), (16, 1)])
def test_power_law_counts_are_a_routing(experts: int, top_k: int, alpha: float) -> None:
    """T k choices in all, no expert twice by one token, and steeper is fuller."""
    for tokens in (1, 2, 7, 64, 1024):
        counts = routing.power_law_counts(tokens, experts, top_k, alpha)
        assert counts.sum() == tokens * top_k
        assert counts.min() >= 0
        assert counts.max() <= tokens
    assert counts.max() > 2 * counts.sum() / experts or experts == 8


def test_routings_are_told_apart_by_name() -> None:
    assert routing.exponent("power_law_1.01") == 1.01
    assert all(np.isnan(routing.exponent(name)) for name in ("balanced", "uniform", "power_law_1.2_eplb"))


@every_chip
def test_the_writer_keeps_what_it_does_not_fit(path: Path) -> None:
    """Comments, block formats with their tile kernels, sources and their order: rewritten, the file is the same."""
    assert hardware_file.render(hardware_file.load(path)) == path.read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------- what they price


def operations(kernels: KernelSet) -> list[Operation]:
    """One operation for each weight dtype that a kernel set claims, in DeepSeek's sizes."""
    answer: list[Operation] = [Linear(name=f"gemm {dtype}", n=7168, k=7168, dtype=dtype) for dtype in kernels.gemm]
    for dtype in kernels.moe:
        sizes = {"experts": 256, "top_k": 8, "hidden": 7168, "intermediate": 2048, "matrices": 3, "expert_parallel": 1}
        answer.append(Experts(name=f"experts {dtype}", dtype=dtype, routing_overlap=0.0, **sizes))  # type: ignore[arg-type]
    if kernels.mla:
        latent = {"heads": 128, "latent_dim": 512, "rope_dim": 64, "prefill_dim": 320}
        answer.append(LatentAttention(name="mla", top_k=2048, **latent))  # type: ignore[arg-type]
        answer.append(IndexerScan(name="indexer", heads=64, head_dim=128))
    return answer


@every_chip
@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "llama-cpp"])
def test_every_claimed_dtype_has_a_price(path: Path, engine: str) -> None:
    """Finite and positive, never faster than the peaks; an indexer wherever latent attention is priced."""
    hardware: Hardware = load_file(path, "hardware").record
    driver: Engine = load_file(ENGINES / f"{engine}.yaml", "engine").record
    for kv_dtype in ("bf16", "fp8"):
        chip = resolve_chip(hardware, driver, kv_dtype)  # type: ignore[arg-type]
        assert "fp8_block" in chip.kernels.gemm
        assert "fp8_block" in chip.kernels.moe
        shape = Shape(requests=np.array([1.0, 16.0, 256.0]), width=np.array(1.0), context=np.array(8192.0))
        for operation in operations(chip.kernels):
            cost = operation_cost(operation, shape, chip)
            assert np.all(np.isfinite(cost.seconds) & (cost.seconds > 0)), operation.name
            assert np.all(np.diff(cost.seconds) >= 0), f"{operation.name}: more requests take no less time"
            assert np.all(cost.seconds < 1.0), f"{operation.name}: s, of one layer"
