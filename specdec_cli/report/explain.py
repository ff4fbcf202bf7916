"""`specdec.explain/1`: one point taken apart, as a record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from specdec_cli import __version__
from specdec_cli.explore.explain import Explanation, Line
from specdec_cli.explore.scenario import Input
from specdec_cli.report.points import grid_point_record
from specdec_cli.report.records import finite, inputs_record, scenario_record, warning_records
from specdec_cli.units import GIGA, MS, TERA

Record = dict[str, Any]

EXPLAIN = "specdec.explain/1"
SPEEDUP = "speedup = AL x T_target / (T_verify + T_draft)"
ENGINE = "engine"
"""Group of what the engine's host adds beside the kernels."""
SIDES = {"memory": "memory_ms", "compute": "compute_ms", "latency": "fixed_ms"}
"""What can bound -> the part of the time that then is the largest."""
OVERHEADS = {
    "step": "scheduling and sampling of a step",
    "requests": "work for each request",
    "entry_fee": "entry fee of speculation",
    "draft_passes": "host work of drafting",
    "calibration": "what your calibration adds",
}
ROUNDING = 1e-9
"""Fraction of a pass that floating point may move its parts by."""


def explain_record(found: Explanation, *, inputs: Mapping[str, Input]) -> Record:
    """The whole answer, nothing rounded: the groups of a pass add up to it, and so do its operations and overheads.

    Without speculation there is the target pass alone.
    """
    point = grid_point_record(found.grid, 0, found.column)

    def taken_apart(name: str, lines: Sequence[Line], host: Sequence[str], width: int | None) -> Record:
        overheads = {key: found.host[key] for key in host}
        return _pass(name, lines, overheads, point[f"{name}_ms"] * MS, width)

    passes = [taken_apart("target", found.target, ("step", "requests"), 1)]
    if found.draft_length:
        passes.append(taken_apart("verify", found.verify, ("step", "requests", "entry_fee"), point["verify_width"]))
        passes.append(taken_apart("draft", found.draft, ("draft_passes",), None))
    numbers = {key: point[key] for key in ("acceptance_length", "target_ms", "verify_ms", "draft_ms")}
    return finite(
        {
            "schema": EXPLAIN,
            "specdec_version": __version__,
            "inputs": inputs_record(inputs),
            "point": point,
            "formula": SPEEDUP,
            "numbers": numbers,
            "result": point["speedup"],
            "passes": passes,
            "memory_bandwidth_gb_per_s": found.scenario.hardware.memory_bandwidth_gb_per_s,
            "warnings": warning_records(found.question.notes),
            "scenarios": [scenario_record(found.scenario)],
        }
    )


def _pass(name: str, lines: Sequence[Line], host: Mapping[str, float], whole: float, width: int | None) -> Record:
    """One pass of `whole` seconds: drafting is grouped by its phases, a target pass by the kind of its operations.

    Where a calibration moved the pass away from the sum of its parts, the difference is a part of its own.
    """
    moved = whole - math.fsum([*(line.seconds for line in lines), *host.values()])
    if abs(moved) > ROUNDING * whole:
        host = {**host, "calibration": moved}
    operations = [_operation(line, whole) for line in lines]
    overheads = [_overhead(key, seconds, whole) for key, seconds in host.items()]
    by = "phase" if name == "draft" else "group"
    names = dict.fromkeys(one[by] for one in operations)
    groups = [_group(key, [one for one in operations if one[by] == key]) for key in names]
    if overheads:
        groups.append(_group(ENGINE, overheads))
    return {
        "pass": name,
        "tokens_per_request": width,
        "time_ms": whole / MS,
        "lower_ms": math.fsum(one["lower_ms"] for one in groups),
        "upper_ms": math.fsum(one["upper_ms"] for one in groups),
        "groups": groups,
        "operations": operations,
        "overheads": overheads,
    }


def _operation(line: Line, whole: float) -> Record:
    return {
        "phase": line.phase,
        "group": line.group,
        "name": line.name,
        "count": line.count,
        "gemm_m": line.gemm_m,
        "flops": line.flops,
        "bytes": line.bytes,
        "peak_tflops_per_s": None if line.peak_flops_per_s is None else line.peak_flops_per_s / TERA,
        "achieved_tflops_per_s": line.flops / line.seconds / TERA if line.seconds else 0.0,
        "achieved_gb_per_s": line.bytes / line.seconds / GIGA if line.seconds else 0.0,
        "time_ms": line.seconds / MS,
        "share": line.seconds / whole,
        "bound": line.bound,
        "lower_ms": line.lower_s / MS,
        "upper_ms": line.upper_s / MS,
        "compute_ms": line.compute_s / MS,
        "memory_ms": line.memory_s / MS,
        "fixed_ms": line.fixed_s / MS,
        "formula": line.formula,
        "numbers": dict(line.numbers),
    }


def _overhead(name: str, seconds: float, whole: float) -> Record:
    """A host constant of the engine: no kernel, so the lower bound leaves it out."""
    return {
        "name": name,
        "what": OVERHEADS[name],
        "time_ms": seconds / MS,
        "share": seconds / whole,
        "bound": "latency",
        "lower_ms": 0.0,
        "upper_ms": seconds / MS,
    }


def _group(name: str, members: Sequence[Record]) -> Record:
    """Sums over a group; GEMM-M and peak where they are the same in all of it, else null."""

    def total(key: str) -> float:
        return math.fsum(one.get(key, 0.0) for one in members)

    def common(key: str) -> Any:
        values = {one.get(key) for one in members}
        return values.pop() if len(values) == 1 else None

    time = total("time_ms")
    sides = {side: total(part) for side, part in SIDES.items()}
    return {
        "group": name,
        "gemm_m": common("gemm_m"),
        "flops": total("flops"),
        "bytes": total("bytes"),
        "peak_tflops_per_s": common("peak_tflops_per_s"),
        "achieved_tflops_per_s": total("flops") / (time * MS) / TERA if time else 0.0,
        "achieved_gb_per_s": total("bytes") / (time * MS) / GIGA if time else 0.0,
        "time_ms": time,
        "share": total("share"),
        "bound": "latency" if name == ENGINE else max(sides, key=lambda side: sides[side]),
        "lower_ms": total("lower_ms"),
        "upper_ms": total("upper_ms"),
    }
