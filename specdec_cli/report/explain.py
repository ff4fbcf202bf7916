"""`specdec.explain/1`: one point taken apart, as a record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from specdec_cli import __version__
from specdec_cli.explore.explain import Explanation, Line
from specdec_cli.explore.scenario import Input
from specdec_cli.report.points import grid_point_record
from specdec_cli.report.records import finite, inputs_record, scenario_record, warning_records
from specdec_cli.units import GIGA, MS, TERA

if TYPE_CHECKING:
    from specdec_cli.report.contract import answers as answers
    from specdec_cli.report.contract.answers import OverheadName, PassName
    from specdec_cli.report.contract.common import Bound

Record = dict[str, Any]

EXPLAIN: Final = "specdec.explain/1"
SPEEDUP = "speedup = AL x T_target / (T_verify + T_draft)"
ENGINE = "engine"
"""Group of what the engine's host adds beside the kernels."""
SIDES: dict[Bound, str] = {"memory": "memory_ms", "compute": "compute_ms", "latency": "fixed_ms"}
"""What can bound -> the part of the time that then is the largest."""
OVERHEADS: dict[OverheadName, str] = {
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

    def host(*names: OverheadName) -> dict[OverheadName, float]:
        return {name: found.host[name] for name in names}

    passes = [_pass("target", found.target, host("step", "requests"), point["target_ms"] * MS, 1)]
    if found.draft_length:
        verifying, whole, width = host("step", "requests", "entry_fee"), point["verify_ms"] * MS, point["verify_width"]
        passes.append(_pass("verify", found.verify, verifying, whole, width))
        passes.append(_pass("draft", found.draft, host("draft_passes"), point["draft_ms"] * MS, None))
    answer: answers.ExplainAnswer = {
        "schema": EXPLAIN,
        "specdec_version": __version__,
        "inputs": inputs_record(inputs),
        "point": point,
        "formula": SPEEDUP,
        "numbers": {
            "acceptance_length": point["acceptance_length"],
            "target_ms": point["target_ms"],
            "verify_ms": point["verify_ms"],
            "draft_ms": point["draft_ms"],
        },
        "result": point["speedup"],
        "passes": passes,
        "memory_bandwidth_gb_per_s": found.scenario.hardware.memory_bandwidth_gb_per_s,
        "warnings": warning_records(found.question.notes),
        "scenarios": [scenario_record(found.scenario)],
    }
    return finite(answer)


def _pass(
    name: PassName, lines: Sequence[Line], host: Mapping[OverheadName, float], whole: float, width: int | None
) -> answers.Pass:
    """One pass of `whole` seconds: drafting is grouped by its phases, a target pass by the kind of its operations.

    Where a calibration moved the pass away from the sum of its parts, the difference is a part of its own.
    """
    moved = whole - math.fsum([*(line.seconds for line in lines), *host.values()])
    if abs(moved) > ROUNDING * whole:
        host = {**host, "calibration": moved}
    operations = [_operation(line, whole) for line in lines]
    overheads = [_overhead(key, seconds, whole) for key, seconds in host.items()]
    of = [one["phase"] if name == "draft" else one["group"] for one in operations]
    groups = [
        _group(key, [one for one, its in zip(operations, of, strict=True) if its == key]) for key in dict.fromkeys(of)
    ]
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


def _share(seconds: float, whole: float) -> float:
    """Of a pass; 0 of one that takes no time: a look-up that the engine's profile prices at nothing."""
    return seconds / whole if whole else 0.0


def _operation(line: Line, whole: float) -> answers.Operation:
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
        "share": _share(line.seconds, whole),
        "bound": cast("Bound", line.bound),
        "lower_ms": line.lower_s / MS,
        "upper_ms": line.upper_s / MS,
        "compute_ms": line.compute_s / MS,
        "memory_ms": line.memory_s / MS,
        "fixed_ms": line.fixed_s / MS,
        "formula": line.formula,
        "numbers": dict(line.numbers),
    }


def _overhead(name: OverheadName, seconds: float, whole: float) -> answers.Overhead:
    """A host constant of the engine: no kernel, so the lower bound leaves it out."""
    return {
        "name": name,
        "what": OVERHEADS[name],
        "time_ms": seconds / MS,
        "share": _share(seconds, whole),
        "bound": "latency",
        "lower_ms": 0.0,
        "upper_ms": seconds / MS,
    }


def _group(name: str, members: Sequence[Mapping[str, Any]]) -> answers.Worked:
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
