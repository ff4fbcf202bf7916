"""Fit the kernel constants of the hardware profiles to measured kernel tables.

    python tests/fits/fit_kernels.py [--tables DIR] [--chip NAME] [-o fitted.json]

Fits on about 30 % of the shapes (a hash of the shape decides) and reports the error on the other shapes. The formulas
are those of `specdec_cli.physics.roofline`: this script only looks for their constants. Needs pyarrow and scipy, and
the package `aiconfigurator-core` unless --tables names a folder. Not part of the wheel.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from indexer import fit_indexer
from search import Constants, errors, fit, from_memory, kept, possible
from tables import (
    CHIPS,
    ENGINES,
    Chip,
    Columns,
    Floats,
    all_reduce_tables,
    attention_tables,
    datasheet,
    gated_delta_tables,
    gemm_tables,
    library_tables,
    mla_tables,
    moe_tables,
    packaged_tables,
)

from specdec_cli.physics import roofline
from specdec_cli.profiles.schema import AllReduce, AttentionKernel, GemmKernel, MlaKernel, MoeKernel
from specdec_cli.units import KV_BYTES, WEIGHT_BYTES

WORST_WINDOW = 0.3  # the same for a window's factor: several kernels in one table

# Start and range of each constant. Fractions of a datasheet figure end at 1 where the figure bounds the kernel.
GEMM_START = {
    "eta_c": (0.7, 0.05, 1.0),
    "eta_m": (0.85, 0.2, 1.0),
    "tau_us": (3.0, 0.1, 40.0),
    "tau_k_us": (2.0, 0.01, 30.0),
    "overlap_exponent": (1.5, 0.6, 8.0),
}
QUANTISE_START = {"eta_q": (0.3, 0.02, 1.5)}  # above 1: the activations never leave the cache
# Tables with few query heads per KV head cannot tell eta_c from eta_m. Unbounded, some fits put 16 rows at a tenth of
# the peak and the memory at its datasheet, which prices 128 rows (a verify pass) several times too high.
ATTENTION_START = {"floor_us": (10.0, 0.5, 90.0), "eta_m": (0.85, 0.1, 0.95), "eta_c": (0.3, 0.2, 1.0)}
MLA_START = {
    "eta_m": (0.8, 0.03, 1.0),
    "eta_c": (0.5, 0.02, 1.5),  # against the bf16 peak: kernels that multiply in fp8 may pass it
    "tau_us": (14.0, 1.0, 80.0),
    "tau_l_us": (0.8, 0.01, 8.0),
    "overlap_exponent": (4.0, 1.0, 12.0),
}
MOE_START = {
    "eta_c": (0.5, 0.05, 1.0),
    "eta_m": (0.83, 0.1, 1.0),
    "eta_a": (0.2, 0.01, 1.5),
    "overlap_exponent": (2.0, 0.6, 8.0),
    "tau_us": (25.0, 1.0, 150.0),
}
ALL_REDUCE_START = {"latency_us": (5.0, 0.5, 100.0), "efficiency": (0.5, 0.02, 1.5)}
STATE_START = {"floor_us": (3.5, 0.1, 60.0), "eta_m": (0.85, 0.1, 1.0)}

COMPUTE = {"bf16": "bf16", "int8": "bf16", "int4": "bf16", "mxfp4": "bf16", "nvfp4": "fp4"}
COMPUTE |= {"fp8": "fp8", "fp8_block": "fp8", "mxfp4_w4a8": "fp8"}


def weight_bytes(dtype: str) -> float:
    """Bytes of one stored weight; a table's dtype may name how it is multiplied, too."""
    return WEIGHT_BYTES[{"mxfp4_w4a8": "mxfp4"}.get(dtype, dtype)]


def compute_dtype(chip: Chip, dtype: str) -> str:
    """The dtype that the multiplication runs in: bf16 where the chip has no unit for the low precision."""
    wanted = COMPUTE[dtype]
    return wanted if wanted in chip.peak else "bf16"


def fit_gemm(tables: Path, chip: Chip, engine: str) -> dict[str, Any]:
    fits = {}
    for dtype, columns in gemm_tables(tables, chip, engine):
        compute = compute_dtype(chip, dtype)
        quantises = dtype in ("fp8", "fp8_block", "nvfp4") and compute != "bf16"
        peak, weight = chip.peak[compute], weight_bytes(dtype)

        def model(
            c: Constants, v: dict[str, Floats], compute: Any = compute, peak: float = peak, weight: float = weight
        ) -> Floats:
            kernel = GemmKernel(compute=compute, **c)  # type: ignore[arg-type]
            return roofline.gemm_seconds(
                v["m"],
                v["n"],  # type: ignore[arg-type]
                v["k"],  # type: ignore[arg-type]
                weight,
                peak=peak,
                bandwidth=chip.bandwidth,
                kernel=kernel,
            ).seconds

        m, n, k = (columns.values[name] for name in "mnk")
        columns = possible(columns, 2 * m * n * k, peak, n * k * weight, chip.bandwidth)
        start = GEMM_START | (QUANTISE_START if quantises else {})
        fits[dtype] = fit(model, start, columns, compute=compute)
    return {dtype: found for dtype, found in fits.items() if found}


ATTENTION_TILE = 128


def fit_attention(tables: Path, chip: Chip, engine: str) -> dict[str, Any]:
    windows = dict(attention_tables(tables, chip, engine, windowed=True))
    fits = {}
    for dtype, columns in attention_tables(tables, chip, engine):
        element = KV_BYTES[dtype]

        def model(c: Constants, v: dict[str, Floats], element: float = element) -> Floats:
            kernel = AttentionKernel(**c)
            return roofline.attention_seconds(
                v["requests"],
                v["heads"] / v["kv_heads"],
                np.where(v["window"] > 0, np.minimum(v["context"], v["window"]), v["context"]),
                kv_heads=v["kv_heads"],  # type: ignore[arg-type]
                kv_dim=2 * v["head_dim"],  # type: ignore[arg-type]
                kv_element_bytes=element,
                peak=chip.peak["bf16"],
                bandwidth=chip.bandwidth,
                kernel=kernel,
                tile=ATTENTION_TILE,
            ).seconds

        v = columns.values
        columns = from_memory(columns, 2 * v["requests"] * v["context"] * v["kv_heads"] * v["head_dim"] * element, chip)
        found = fit(model, ATTENTION_START, columns, tile=ATTENTION_TILE)
        if not found:
            continue
        cut = windows.get(dtype)
        if cut is not None and cut.fit.sum() > 50:
            ratio = cut.seconds / model({name: found[name] for name in ATTENTION_START}, cut.values)
            factor = max(1.0, float(np.median(ratio[cut.fit])))
            error = float(np.median(np.abs(factor / ratio[~cut.fit] - 1.0)))
            if error < WORST_WINDOW:
                found |= {"window_factor": round(factor, 3), "window_heldout_median_error": round(error, 4)}
        fits[dtype] = found
    return fits


def fit_mla(tables: Path, chip: Chip, engine: str) -> dict[str, Any]:
    fits = {}
    for dtype, columns in mla_tables(tables, chip, engine):
        element = KV_BYTES[dtype]

        def model(c: Constants, v: dict[str, Floats], element: float = element) -> Floats:
            return roofline.mla_seconds(
                v["requests"],
                v["heads"],
                v["context"],
                latent_dim=512,
                rope_dim=64,
                kv_element_bytes=element,
                peak=chip.peak["bf16"],
                bandwidth=chip.bandwidth,
                kernel=MlaKernel(**c),
            ).seconds

        columns = from_memory(columns, columns.values["requests"] * columns.values["context"] * 576 * element, chip)
        fits[dtype] = fit(model, MLA_START, columns)
    return {dtype: found for dtype, found in fits.items() if found}


def touched_tokens(distinct: Floats, experts: Floats, top_k: Floats) -> Floats:
    """Uniformly routed tokens that would touch this many experts."""
    share = np.minimum(1.0 - 1e-12, distinct / experts)
    return np.log1p(-share) / np.log1p(-top_k / experts)


DECODE_TOKENS = 1024


def in_memory(columns: Columns, peak: float, weight: float, chip: Chip) -> Columns:
    """Rows of experts that are not faster than the datasheet."""
    v = columns.values
    matrix = 3 * v["hidden"] * v["intermediate"]
    flops = 2 * v["tokens"] * v["top_k"] * matrix
    return possible(columns, flops, peak, v["distinct"] * matrix * weight, chip.bandwidth)


def fit_moe(tables: Path, chip: Chip, engine: str) -> dict[str, Any]:
    fits = {}
    skewed = dict(moe_tables(tables, chip, engine, skewed=True))
    for dtype, columns in moe_tables(tables, chip, engine):
        compute = compute_dtype(chip, dtype)
        peak, weight = chip.peak[compute], weight_bytes(dtype)

        def model(
            c: Constants, v: dict[str, Floats], compute: Any = compute, peak: float = peak, weight: float = weight
        ) -> Floats:
            kernel = MoeKernel(compute=compute, **c)
            seconds = np.empty_like(v["tokens"])
            touched = touched_tokens(v["distinct"], v["experts"], v["top_k"])
            pairs, group = np.unique(np.stack([v["experts"], v["top_k"]], axis=1), axis=0, return_inverse=True)
            for i, (experts, top_k) in enumerate(pairs):
                rows = np.flatnonzero(group.reshape(-1) == i)
                seconds[rows] = roofline.moe_seconds(
                    v["tokens"][rows],
                    touched[rows],
                    experts=experts,
                    top_k=top_k,
                    hidden=v["hidden"][rows],  # type: ignore[arg-type]
                    intermediate=v["intermediate"][rows],  # type: ignore[arg-type]
                    matrices=3,
                    weight_bytes=weight,
                    expert_parallel=1,  # experts and top_k are this rank's already; balanced: no imbalance
                    peak=peak,
                    bandwidth=chip.bandwidth,
                    kernel=kernel,
                ).seconds
            return seconds

        columns = in_memory(columns, peak, weight, chip)
        # Up to 1024 tokens most tables never leave the memory's side: eta_c needs the larger counts, which a prefill
        # has and a decode step does not. The errors are those of decode.
        decode = columns.values["tokens"] <= DECODE_TOKENS
        found = fit(model, MOE_START, columns, decode, compute=compute)
        if found and dtype in skewed:
            rows = in_memory(skewed[dtype], peak, weight, chip)
            rows = rows.part(rows.values["tokens"] <= DECODE_TOKENS)
            constants = {name: found[name] for name in MOE_START}
            found |= {f"power_law_{key}": value for key, value in errors(model, constants, rows).items()}
        fits[dtype] = found
    return {dtype: found for dtype, found in fits.items() if found}


def fit_all_reduce(tables: Path, chip: Chip, engine: str) -> dict[str, Any]:
    fits = {}
    for gpus, columns in all_reduce_tables(tables, chip, engine):

        def model(c: Constants, v: dict[str, Floats], gpus: int = gpus) -> Floats:
            return roofline.all_reduce_seconds(
                v["message"], gpus, link_bandwidth=chip.link, figures=AllReduce(**c), skew_us_per_peer=0.0
            ).seconds

        # Two constants and 16 sizes: too few to hold shapes out of the fit by a hash; every second size is fitted.
        order = np.argsort(np.argsort(columns.values["message"]))
        columns = Columns(columns.label, columns.values, columns.seconds, order % 2 == 0)
        fits[str(gpus)] = fit(model, ALL_REDUCE_START, columns)
    return {gpus: found for gpus, found in fits.items() if found}


def fit_collective_library(tables: Path, chip: Chip, engine: str) -> dict[str, Any]:
    """NCCL, which every engine calls: fitted once, among vLLM's kernels."""
    fits = {}
    for gpus, columns in library_tables(tables, chip) if engine == "vllm" else ():

        def model(c: Constants, v: dict[str, Floats], gpus: int = gpus) -> Floats:
            return roofline.all_reduce_seconds(
                v["message"], gpus, link_bandwidth=chip.link, figures=AllReduce(**c), skew_us_per_peer=0.0
            ).seconds

        fits[str(gpus)] = fit(model, ALL_REDUCE_START, columns)
    return {gpus: found for gpus, found in fits.items() if found}


def fit_gated_delta(tables: Path, chip: Chip, engine: str) -> dict[str, Any]:
    both = gated_delta_tables(tables, chip, engine)
    if both is None:
        return {}
    recurrent, conv = both

    def model(c: Constants, v: dict[str, Floats]) -> Floats:
        return roofline.state_seconds(
            v["requests"],
            1.0,
            state_bytes=v["state"],  # type: ignore[arg-type]
            bandwidth=chip.bandwidth,
            saves_each_position=False,
            **c,
        ).seconds

    recurrent = from_memory(recurrent, recurrent.values["requests"] * recurrent.values["state"], chip)
    few = conv.values["requests"] <= 32
    conv_us = round(float(np.median(conv.seconds[few])) * 1e6, 2)
    return fit(model, STATE_START, recurrent, conv_us=conv_us)


FAMILIES: dict[str, Callable[[Path, Chip, str], dict[str, Any]]] = {
    "gemm": fit_gemm,
    "attention": fit_attention,
    "mla": fit_mla,
    "moe": fit_moe,
    "all_reduce": fit_all_reduce,
    "collective_library": fit_collective_library,
    "gated_delta": fit_gated_delta,
}


SINGLE = ("gated_delta", "indexer")  # families with one set of constants, whatever the dtype
OPEN = ("vllm", "sglang")


def fit_chip(tables: Path, chip: Chip, families: list[str]) -> dict[str, Any]:
    """{engine: {family: {dtype: constants and errors}}} of one chip."""
    answer: dict[str, Any] = {}
    for engine in ENGINES:
        found = {family: FAMILIES[family](tables, chip, engine) for family in families}
        if "bf16" in found.get("gemm", {}):
            found["indexer"] = fit_indexer(tables, chip, engine, found["gemm"]["bf16"])
        found = {family: constants for family, constants in found.items() if constants}
        for family in ("gemm", "attention", "mla", "moe", "all_reduce", "collective_library"):
            found[family] = kept(found.get(family, {}), f"{chip.name} {engine} {family}")
        found = {family: constants for family, constants in found.items() if constants}
        if found:
            answer[engine] = found
    return answer


def summary(fits: dict[str, Any]) -> list[str]:
    """Held-out errors by family and dtype: of each chip the best engine, the better of vLLM and SGLang (medians over
    chips), and over all sets. Experts twice: balanced routing, which was fitted, and power-law routing, which was not.
    """
    rows: dict[tuple[str, str], dict[str, dict[str, tuple[float, float]]]] = {}
    for chip, engines in fits.items():
        for engine, families in engines.items():
            for family, by_dtype in families.items():
                for dtype, found in ({"": by_dtype} if family in SINGLE else by_dtype).items():
                    for prefix, label in (("", family), ("power_law_", f"{family}, power law")):
                        if f"{prefix}heldout_median_error" in found:
                            pair = found[f"{prefix}heldout_median_error"], found[f"{prefix}heldout_p90_error"]
                            rows.setdefault((label, dtype), {}).setdefault(chip, {})[engine] = pair
    heads = ("chips", "sets", "best engine", "vLLM/SGLang", "all sets")
    lines = [f"{'family':18} {'dtype':11} {' '.join(heads)}    p90"]
    for (family, dtype), chips in sorted(rows.items()):
        every = [pair for by_engine in chips.values() for pair in by_engine.values()]
        best = np.median([min(by_engine.values())[0] for by_engine in chips.values()])
        free = [[pair[0] for name, pair in by_engine.items() if name in OPEN] for by_engine in chips.values()]
        least = [min(medians) for medians in free if medians]
        open_best = f"{np.median(least):11.1%}" if least else " " * 11
        middle, p90 = (np.median([pair[i] for pair in every]) for i in (0, 1))
        lines.append(
            f"{family:18} {dtype:11} {len(chips):5} {len(every):4} {best:11.1%} {open_best} {middle:8.1%} {p90:6.1%}"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, help="folder of <chip>/<operation>/<framework>/<version>/*.parquet")
    parser.add_argument("--chip", choices=list(CHIPS), help="only this one")
    parser.add_argument("--family", choices=list(FAMILIES), help="only this one")
    parser.add_argument("-o", "--output", type=Path, help="JSON of constants and held-out errors")
    options = parser.parse_args()
    tables = options.tables or packaged_tables()
    families = [options.family] if options.family else list(FAMILIES)
    fits = {}
    for name in [options.chip] if options.chip else CHIPS:
        fits[name] = fit_chip(tables, datasheet(name), families)
        print(f"{name}: done", file=sys.stderr)
    if options.output:
        options.output.write_text(json.dumps(fits, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    print("\n".join(summary(fits)))


if __name__ == "__main__":
    main()
