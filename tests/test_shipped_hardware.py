"""Every shipped chip and engine: it loads, its figures are plausible, and its facts are those of the data sheets.

Parametrised over the folder, so that a newcomer's file is tested without a change here.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from specdec_cli.physics import roofline
from specdec_cli.profiles.load import Loaded, check_file, load_file, sources_for
from specdec_cli.profiles.schema import Engine, Hardware, KernelSet
from specdec_cli.units import GIB, GIGA, TERA, WEIGHT_BYTES

ROOT = Path(__file__).parent.parent
HARDWARE = sorted((ROOT / "profiles" / "hardware").glob("*.yaml"))
ENGINES = sorted((ROOT / "profiles" / "engines").glob("*.yaml"))

SERVED_DTYPES = ("bf16", "fp8", "fp8_block", "int8", "int4", "mxfp4", "nvfp4")
"""What a checkpoint may come in: native where the chip has the tensor type, else weight-only."""
FIRST_TEN = {
    "a100-sxm-80gb",
    "h100-sxm",
    "h200-sxm",
    "b200-sxm",
    "gb300-nvl72",
    "l40s",
    "mi300x",
    "mi355x",
    "rtx-4090",
    "rtx-5090",
}

# fp8 tensor cores run at twice the bf16 rate; where not, the reason.
FP8_RATIO = {
    "gaudi3": 1.0,  # 1677 for both at the shipped clock
    "inferentia2": 1.0,  # 190 for both
    "tpu-v6e": 1.0,  # no fp8 speed-up
    "rubin-nvl72": 4.375,  # 17.5 PFLOPS over 4
}
# What a system keeps for itself: unified memory, of which the GPU is given a part.
SMALLEST_VISIBLE_SHARE = 0.74


def _hardware(path: Path) -> Loaded[Hardware]:
    return load_file(path, "hardware")


def _engine(path: Path) -> Engine:
    record: Engine = load_file(path, "engine").record
    return record


def _name(path: Path) -> str:
    return path.stem


every_chip = pytest.mark.parametrize("path", HARDWARE, ids=_name)
every_engine = pytest.mark.parametrize("path", ENGINES, ids=_name)


def test_the_library_has_the_chips_that_people_use() -> None:
    assert {path.stem for path in HARDWARE} >= FIRST_TEN
    assert {"vllm", "vllm-2025-07", "sglang", "tensorrt-llm", "llama-cpp"} <= {path.stem for path in ENGINES}


@pytest.mark.parametrize("path", HARDWARE + ENGINES, ids=_name)
def test_file_has_nothing_wrong(path: Path) -> None:
    assert check_file(path) == []


@every_chip
def test_datasheet_facts_are_plausible(path: Path) -> None:
    chip = _hardware(path).record
    bandwidth = chip.memory_bandwidth_gb_per_s
    assert 150 <= bandwidth <= 25_000, "GB/s: from a notebook's LPDDR to announced HBM4"
    assert 8 <= chip.memory_gb <= 1024
    share = chip.memory_bytes / (chip.memory_gb * GIB)
    assert SMALLEST_VISIBLE_SHARE <= share <= 1.0 + 1e-9, "a label counts GiB, of which a program sees most"
    # Tokens at which a bf16 GEMM turns compute-bound: 2 M N K / P = 2 N K / beta -> M = P / beta.
    ridge = chip.peak_tflops["bf16"] * TERA / (bandwidth * GIGA)
    assert 20 <= ridge <= 1000, "from GPUs without tensor cores to tensor cores on a notebook's memory"
    assert chip.link.peer_gb_per_s <= chip.link.gb_per_s
    if chip.link.domain_gpus > 1:
        assert chip.link.gb_per_s < bandwidth, "a link is slower than local memory"


@every_chip
def test_peaks_are_dense_and_in_ratio(path: Path) -> None:
    chip = _hardware(path).record
    peaks = chip.peak_tflops
    if "fp8" in peaks:
        assert peaks["fp8"] / peaks["bf16"] == pytest.approx(FP8_RATIO.get(chip.name, 2.0), rel=0.03)
    if "fp4" in peaks:
        assert peaks["fp4"] >= 2 * peaks["fp8"] * 0.97


def _kernel_numbers(kernels: KernelSet) -> list[tuple[str, float, float, float]]:
    """(key, value, smallest, largest) of everything that has a plausible range."""
    rows: list[tuple[str, float, float, float]] = []
    for dtype, gemm in kernels.gemm.items():
        rows += [
            (f"gemm.{dtype}.eta_m", gemm.eta_m, 0.4, 1.2),
            (f"gemm.{dtype}.eta_c", gemm.eta_c, 0.05, 1.2),
            (f"gemm.{dtype}.tau_us", gemm.tau_us, 0.0, 30.0),
            (f"gemm.{dtype}.tau_k_us", gemm.tau_k_us, 0.0, 40.0),
            (f"gemm.{dtype}.overlap_exponent", gemm.overlap_exponent, 0.6, 12.0),
        ]
    for dtype, attention in kernels.attention.items():
        rows += [
            (f"attention.{dtype}.eta_m", attention.eta_m, 0.35, 1.2),
            (f"attention.{dtype}.floor_us", attention.floor_us, 1.0, 100.0),
            (f"attention.{dtype}.window_factor", attention.window_factor, 1.0, 2.0),
        ]
    for dtype, mla in kernels.mla.items():
        rows += [(f"mla.{dtype}.eta_m", mla.eta_m, 0.3, 1.2), (f"mla.{dtype}.tau_us", mla.tau_us, 1.0, 60.0)]
    for dtype, moe in kernels.moe.items():
        rows += [(f"moe.{dtype}.eta_m", moe.eta_m, 0.3, 1.2), (f"moe.{dtype}.tau_us", moe.tau_us, 0.0, 100.0)]
    for gpus, reduce in kernels.all_reduce.items():
        rows.append((f"all_reduce.{gpus}.latency_us", reduce.latency_us, 1.0, 50.0))
    if kernels.indexer is not None:
        # SGLang's scan on Blackwell reads at a tenth of the bandwidth; TensorRT-LLM's Hopper path takes 0.2 ms.
        rows += [
            ("indexer.eta_m", kernels.indexer.eta_m, 0.05, 1.0),
            ("indexer.floor_us", kernels.indexer.floor_us, 10.0, 250.0),
        ]
    rows.append(("small_kernels_us_per_layer", kernels.small_kernels_us_per_layer, 1.0, 20.0))
    return rows


@every_chip
def test_kernel_figures_are_plausible(path: Path) -> None:
    for engine, kernels in _hardware(path).record.kernels.items():
        wrong = [row for row in _kernel_numbers(kernels) if not row[2] <= row[1] <= row[3]]
        assert not wrong, f"{engine}: (key, value, smallest, largest)"
        assert kernels.eager_us_per_layer > kernels.small_kernels_us_per_layer


@every_chip
def test_kernels_serve_every_checkpoint(path: Path) -> None:
    chip = _hardware(path).record
    kernels = chip.kernels["default"]
    assert set(SERVED_DTYPES) <= set(kernels.gemm)
    assert set(SERVED_DTYPES) <= set(kernels.moe)
    assert {"bf16", "fp8"} <= set(kernels.attention)
    assert kernels.linear_attention is not None
    assert (kernels.indexer is not None) == bool(kernels.mla), "an indexer wherever latent attention is priced"
    for gpus in kernels.all_reduce:
        assert gpus in (2, 4, 8)
        assert gpus <= chip.link.domain_gpus


@every_chip
def test_fewer_weight_bytes_are_not_slower_at_one_token(path: Path) -> None:
    """A decode GEMM of a large layer (28672 x 8192) is memory-bound: 4 bits beat 8, and 8 beat 16."""
    chip = _hardware(path).record
    kernels = chip.kernels["default"]

    def seconds(dtype: str) -> float:
        kernel = kernels.gemm[dtype]  # type: ignore[index]
        cost = roofline.gemm_seconds(
            1,
            28672,
            8192,
            WEIGHT_BYTES[dtype],
            peak=chip.peak_tflops[kernel.compute] * TERA,
            bandwidth=chip.memory_bandwidth_gb_per_s * GIGA,
            kernel=kernel,
        )
        return float(cost.seconds)

    for wide, narrow in (("bf16", "fp8"), ("bf16", "int8"), ("int8", "int4"), ("fp8", "nvfp4"), ("fp8", "mxfp4")):
        assert seconds(narrow) < seconds(wide), f"{narrow} is slower than {wide}"


@every_chip
def test_fitted_says_what_the_sources_say(path: Path) -> None:
    loaded = _hardware(path)
    source = sources_for(loaded, "kernels.default.gemm.bf16.eta_m")
    assert source is not None
    assert (source.kind == "fitted") == loaded.record.fitted
    if loaded.record.fitted:
        assert "median error" in (source.note or ""), "a fit states its error on shapes that it has not seen"
    if loaded.record.confidence == "low":
        assert not loaded.record.fitted


def test_engines_kernels_exist() -> None:
    known = {name for path in HARDWARE for name in _hardware(path).record.kernels}
    assert "default" in known
    for path in ENGINES:
        assert _engine(path).kernels in known, path.stem


NOT_SERVERS = {"gpt-fast", "magicdec-2024"}
"""Loops around a compiled step: nothing that schedules, arrives or looks up."""


@every_engine
def test_engine_constants_are_plausible(path: Path) -> None:
    engine = _engine(path)
    overheads = engine.overheads
    assert engine.settings.checked_version
    assert 0.5 <= engine.memory.usable_fraction <= 1
    if engine.name in NOT_SERVERS:
        assert overheads.lookup_ms == 0.0
        return
    assert 0.05 <= overheads.step_ms <= 3
    assert overheads.step_ms <= overheads.serving_step_ms <= 3, "prompts that arrive and leave cost something"
    assert 0 < overheads.speculation_ms <= 3
    assert 0 <= overheads.draft_pass_ms <= 1
    assert overheads.draft_pass_ms + overheads.draft_pass_target_fraction > 0, "a pass costs more than its kernels"
    assert 5 <= overheads.per_request_us <= 500
    assert 0 < overheads.lookup_ms < 1


def test_newest_engine_of_a_family_bears_its_name() -> None:
    engines = [_engine(path) for path in ENGINES]
    newest = {engine.family: max(one.date for one in engines if one.family == engine.family) for engine in engines}
    for family, date in newest.items():
        plain = [engine for engine in engines if engine.name == family]
        assert plain, f"no profile is named {family}"
        assert plain[0].date == date


def test_engine_names_and_aliases_are_one_to_one() -> None:
    names = [word for path in ENGINES for word in (_engine(path).name, *_engine(path).aliases)]
    assert len(names) == len(set(names))


def test_trtllm_rests_on_one_sweep_and_says_so() -> None:
    engine = _engine(ROOT / "profiles" / "engines" / "tensorrt-llm.yaml")
    assert engine.fitted_sweeps == 1
    assert "trtllm" in engine.aliases


def test_the_slow_eagle3_path_belongs_to_mid_2025_alone() -> None:
    then = _engine(ROOT / "profiles" / "engines" / "vllm-2025-07.yaml").overheads
    now = _engine(ROOT / "profiles" / "engines" / "vllm.yaml").overheads
    assert then.draft_pass_ms_by_mechanism["eagle3"] > 3 * now.draft_pass_ms
    assert "eagle3" not in now.draft_pass_ms_by_mechanism


# ------------------------------------------------------------------------- against the collected data sheets


def _disagreements(chip: Hardware, row: dict[str, str]) -> list[str]:
    """What the profile says otherwise than its row, blank cells aside."""
    columns = {"bf16": "bf16_tflops", "fp8": "fp8_tflops", "int8": "int8_tops", "fp4": "fp4_tflops"}
    peaks = {str(dtype): peak for dtype, peak in chip.peak_tflops.items()}
    pairs: list[tuple[str, float | None, str]] = [
        *((f"peak_tflops.{dtype}", peaks.get(dtype), row[column]) for dtype, column in columns.items()),
        ("memory_gb", chip.memory_gb, row["mem_gb_label"]),
        ("memory_bytes", chip.memory_bytes, row["mem_bytes_visible"]),
        ("memory_bandwidth_gb_per_s", chip.memory_bandwidth_gb_per_s, row["mem_bw_gbps"]),
        ("sm_count", chip.sm_count, row["sm_or_cu"]),
        ("l2_mb", chip.l2_mb, row["l2_mb"]),
    ]
    if chip.link.domain_gpus > 1:  # a domain of one holds placeholders
        pairs += [
            ("link.gb_per_s", chip.link.gb_per_s, row["scaleup_gbps_per_dir"]),
            ("link.peer_gb_per_s", chip.link.peer_gb_per_s, row["p2p_gbps_per_dir"]),
            ("link.domain_gpus", chip.link.domain_gpus, row["scaleup_domain"]),
        ]
    wrong = [f"{chip.name} {key}: {value} for {cell}" for key, value, cell in pairs if cell and value != float(cell)]
    if row["confidence"].startswith("low") and chip.confidence != "low":
        wrong.append(f"{chip.name} confidence: {chip.confidence} for {row['confidence']}")
    return wrong


def test_facts_agree_with_the_collected_data_sheets(shared_data: Path) -> None:
    with (shared_data / "hardware.csv").open(encoding="utf-8", newline="") as lines:
        rows = {row["id"]: row for row in csv.DictReader(lines)}
    chips = {path.stem: _hardware(path).record for path in HARDWARE}
    assert set(rows) <= set(chips), "every collected chip has a profile"
    assert [line for name, row in rows.items() for line in _disagreements(chips[name], row)] == []
