"""The one record of an answer, plain dicts and lists in the contract's order; every format is made from it.

Units stand in the key names. A number that is not finite becomes null, and a warning says where.
Within a schema's /1 keys are only ever added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from specdec_cli import __version__
from specdec_cli.explore.frontier import Uplift
from specdec_cli.explore.recommend import Recommendation
from specdec_cli.explore.scenario import NO_DRAFTER, Input, Note, Scenario
from specdec_cli.explore.sweep import Infeasible, Sweep
from specdec_cli.units import GIGA, MEGA, MS

Record = dict[str, Any]

SWEEP, RECOMMEND = "specdec.sweep/1", "specdec.recommend/1"


def sweep_record(sweep: Sweep, *, frontier_only: bool = False) -> Record:
    """`specdec.sweep/1`: points, both frontiers as indices into them, infeasible points, the gain at equal speed.

    With `frontier_only` the points are those of the frontier alone; `baseline_frontier` then names those of them
    that lie on both.
    """
    kept = [int(i) for i in sweep.frontier] if frontier_only else list(range(len(sweep.points)))
    place = {index: at for at, index in enumerate(kept)}
    return finite(
        {
            "schema": SWEEP,
            "specdec_version": __version__,
            "inputs": inputs_record(sweep.question.inputs),
            "points": point_records(sweep, kept),
            "frontier": [place[int(i)] for i in sweep.frontier],
            "baseline_frontier": [place[int(i)] for i in sweep.baseline_frontier if int(i) in place],
            "infeasible": [_infeasible(entry) for entry in sweep.infeasible],
            "warnings": warning_records(sweep.notes),
            "points_left_out": len(sweep.points) - len(kept),
            "uplift": [_uplift(row) for row in sweep.uplift()],
            "scenarios": [_scenario(grid.scenario) for grid in sweep.grids],
        }
    )


def recommend_record(
    found: Recommendation, *, asked: Mapping[str, Input], engine_settings: Mapping[str, Record]
) -> Record:
    """`specdec.recommend/1`.

    Args:
        found: the answer. asked: the limits and tolerances with their origins, which join the inputs.
        engine_settings: by engine, what to paste there.
    """
    sweep = found.sweep
    others = point_records(sweep, found.alternatives)
    return finite(
        {
            "schema": RECOMMEND,
            "specdec_version": __version__,
            "inputs": inputs_record({**sweep.question.inputs, **asked}),
            "choice": _choice(found),
            "plateau": list(found.plateau),
            "alternatives": others,
            "guidelines": [
                {
                    "id": rule.id,
                    "title": rule.title,
                    "applies": rule.applies,
                    "why": rule.why,
                    "numbers": dict(rule.numbers),
                    "suggests": rule.suggests,
                    "verdict": rule.verdict,
                }
                for rule in found.guidelines
            ],
            "pays_from_batch": found.pays_from_batch,
            "pays_to_batch": found.pays_to_batch,
            "schedule": [
                {"batch_from": e.batch_from, "batch_to": e.batch_to, "draft_length": e.draft_length}
                for e in found.schedule
            ],
            "engine_settings": {engine: dict(settings) for engine, settings in engine_settings.items()},
            "warnings": warning_records(found.notes),
            "split": _split(found),
            "runner_up": _runner_up(found, others),
            "swept_batches": [min(found.scenario.batches), max(found.scenario.batches)],
            "scenarios": [_scenario(found.scenario)],
        }
    )


def inputs_record(inputs: Mapping[str, Input]) -> Record:
    """Every resolved input with where its value comes from."""
    return {name: {"value": entry.value, "origin": entry.origin} for name, entry in inputs.items()}


def warning_records(notes: Sequence[Note]) -> list[Record]:
    """Warnings with their stable codes."""
    return [{"code": note.code, "message": note.message} for note in notes]


def point_records(sweep: Sweep, indices: Sequence[int]) -> list[Record]:
    """These points of the sweep, keys in the contract's order, ms and tokens/s."""
    points = sweep.points
    scenarios = [grid.scenario for grid in sweep.grids]
    bases = [grid.basis for grid in sweep.grids]
    widths = [grid.verify_width.tolist() for grid in sweep.grids]
    columns = {
        name: getattr(points, name)[list(indices)].tolist()
        for name in (
            *("scenario", "column", "batch", "draft_length", "acceptance_length", "target_s", "verify_s", "draft_s"),
            *("speedup", "speedup_low", "speedup_high", "interactivity", "throughput", "bound", "on_frontier"),
        )
    }
    records = []
    for row in range(len(indices)):
        at = {name: column[row] for name, column in columns.items()}
        scenario = scenarios[at["scenario"]]
        length = at["draft_length"]
        records.append(
            {
                "batch": at["batch"],
                "draft_length": length,
                "verify_width": widths[at["scenario"]][at["column"]],
                "acceptance_length": at["acceptance_length"],
                "acceptance_basis": bases[at["scenario"]][at["column"]],
                "target_ms": at["target_s"] / MS,
                "verify_ms": at["verify_s"] / MS,
                "draft_ms": at["draft_s"] / MS,
                "step_ms": (at["verify_s"] + at["draft_s"]) / MS,
                "speedup": at["speedup"],
                "speedup_low": at["speedup_low"],
                "speedup_high": at["speedup_high"],
                "interactivity_tokens_per_s_per_user": at["interactivity"],
                "throughput_tokens_per_s_per_gpu": at["throughput"],
                "bound": at["bound"],
                "on_frontier": at["on_frontier"],
                "drafter": scenario.drafter_name if length else NO_DRAFTER,
                "hardware": scenario.hardware.name,
                "tp": scenario.layout.tp,
                "gpus": scenario.layout.gpus,
            }
        )
    return records


def finite(record: Record) -> Record:
    """The record with every number that JSON cannot hold made null, each named in a warning."""
    lost: list[str] = []
    cleaned: Record = _without_infinities(record, "", lost)
    if lost:
        places = ", ".join(lost[:5]) + (f" and {len(lost) - 5} more" if len(lost) > 5 else "")
        message = f"no finite number came out for {places}; null stands there: please report how you got it"
        cleaned["warnings"].append({"code": "not_finite", "message": message})
    return cleaned


def _without_infinities(value: Any, place: str, lost: list[str]) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_infinities(item, f"{place}.{key}" if place else str(key), lost) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_infinities(item, f"{place}[{at}]", lost) for at, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        lost.append(place)
        return None
    return value


def _infeasible(entry: Infeasible) -> Record:
    scenario = entry.scenario
    return {
        "batch": entry.batch,
        "draft_length": entry.draft_length,
        "reason": entry.reason,
        "detail": entry.detail,
        "drafter": scenario.drafter_name if entry.draft_length else NO_DRAFTER,
        "hardware": scenario.hardware.name,
        "tp": scenario.layout.tp,
        "gpus": scenario.layout.gpus,
    }


def _uplift(row: Uplift) -> Record:
    reason = None
    if row.throughput_with is None or row.throughput_without is None:
        slow = [
            word
            for word, reached in (("with", row.throughput_with), ("without", row.throughput_without))
            if reached is None
        ]
        reason = f"the frontier {' and '.join(slow)} speculation does not reach this interactivity"
    return {
        "interactivity_tokens_per_s_per_user": row.interactivity_tokens_per_s_per_user,
        "throughput_without_tokens_per_s_per_gpu": row.throughput_without,
        "throughput_with_tokens_per_s_per_gpu": row.throughput_with,
        "uplift": row.uplift,
        "users_per_gpu_without": row.users_per_gpu_without,
        "users_per_gpu_with": row.users_per_gpu_with,
        "reason": reason,
    }


def _scenario(scenario: Scenario) -> Record:
    """What the figures of one scenario rest on."""
    measured, memory, layout = scenario.acceptance_profile, scenario.memory, scenario.layout
    longest = max(scenario.draft_lengths)
    return {
        "hardware": scenario.hardware.name,
        "tp": layout.tp,
        "gpus": layout.gpus,
        "ep": layout.ep,
        "model": scenario.model.name,
        "drafter": scenario.drafter_name,
        "mechanism": scenario.drafter.mechanism if scenario.drafter is not None else None,
        "engine": scenario.engine.name,
        "engine_family": scenario.engine.family,
        "engine_version": scenario.engine.version,
        "context_tokens": scenario.context,
        "acceptance": measured.name if measured is not None else None,
        "data_set": measured.data_set if measured is not None else None,
        "temperature": measured.temperature if measured is not None else None,
        "acceptance_measured_by": measured.measured_by if measured is not None else None,
        "kernels_fitted": scenario.hardware.fitted,
        "time_band": scenario.band.relative,
        "memory": {
            "usable_gb_per_gpu": memory.usable / GIGA,
            "target_weights_gb_per_gpu": memory.target_weights / GIGA,
            "draft_weights_gb_per_gpu": memory.draft_weights / GIGA,
            "kv_mb_per_request": memory.kv_per_request / MEGA,
            "draft_kv_mb_per_request": memory.draft_kv_per_request / MEGA,
            "state_mb_per_request": memory.state_per_request / MEGA,
            "largest_batch_off": _largest_batch(scenario, 0),
            "largest_batch_drafting": _largest_batch(scenario, longest) if longest else None,
        },
    }


def _largest_batch(scenario: Scenario, length: int) -> int | None:
    each_rank = scenario.memory.largest_batch(length)
    return math.floor(each_rank) * scenario.layout.ranks if math.isfinite(each_rank) else None


def _choice(found: Recommendation) -> Record | None:
    if found.choice is None:
        return None
    point = point_records(found.sweep, [found.choice])[0]
    return {**point, "speculate": point["draft_length"] > 0}


def _split(found: Recommendation) -> Record | None:
    """The step of the choice taken apart: three parts that add up to it."""
    if found.choice is None:
        return None
    points, at = found.sweep.points, found.choice
    target, verify, draft = (float(column[at]) for column in (points.target_s, points.verify_s, points.draft_s))
    step = verify + draft
    return {
        "target_ms": target / MS,
        "verify_adds_ms": (verify - target) / MS,
        "draft_ms": draft / MS,
        "step_ms": step / MS,
        "target_share": target / step,
        "verify_adds_share": (verify - target) / step,
        "draft_share": draft / step,
    }


def _runner_up(found: Recommendation, others: Sequence[Record]) -> Record | None:
    """The best of the rest, and how much better the choice is by what was maximised."""
    if found.choice is None or not others:
        return None
    by_interactivity = found.limits.min_throughput is not None
    objective = found.sweep.points.interactivity if by_interactivity else found.sweep.points.throughput
    margin = float(objective[found.choice]) / float(objective[found.alternatives[0]]) - 1.0
    return {
        "drafter": others[0]["drafter"],
        "batch": others[0]["batch"],
        "draft_length": others[0]["draft_length"],
        "maximised": "interactivity" if by_interactivity else "throughput",
        "margin": margin,
        "within_tie": abs(margin) <= found.limits.tie,
    }
