"""The one record of an answer, plain dicts and lists in the contract's order; every format is made from it.

Units stand in the key names. A number that is not finite becomes null, and a warning says where.
Within a schema's /1 keys are only ever added.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from specdec_cli import __version__
from specdec_cli.explore.frontier import Uplift
from specdec_cli.explore.guideline_records import Guideline
from specdec_cli.explore.recommend import Recommendation, Users
from specdec_cli.explore.refusals import Infeasible
from specdec_cli.explore.scenario import NO_DRAFTER, Input, Note, Scenario
from specdec_cli.explore.schedules import ContextSchedule, ScheduleEntry
from specdec_cli.explore.sweep import Sweep
from specdec_cli.explore.uncertainty import CalibratedBand
from specdec_cli.profiles.schema import MoeFfn
from specdec_cli.report.points import point_records
from specdec_cli.units import GIGA, MEGA, MS

if TYPE_CHECKING:
    from specdec_cli.report.contract import answers as answers
    from specdec_cli.report.contract import common as common

Record = dict[str, Any]

SWEEP: Final = "specdec.sweep/1"
RECOMMEND: Final = "specdec.recommend/1"


def sweep_record(sweep: Sweep, *, frontier_only: bool = False) -> Record:
    """`specdec.sweep/1`: points, both frontiers as indices into them, infeasible points, the gain at equal speed.

    With `frontier_only` the points are those of the frontier alone; `baseline_frontier` then names those of them
    that lie on both.
    """
    kept = [int(i) for i in sweep.frontier] if frontier_only else list(range(len(sweep.points)))
    place = {index: at for at, index in enumerate(kept)}
    answer: answers.SweepAnswer = {
        "schema": SWEEP,
        "specdec_version": __version__,
        "inputs": inputs_record(sweep.question.inputs),
        "points": point_records(sweep, kept),
        "frontier": [place[int(i)] for i in sweep.frontier],
        "baseline_frontier": [place[int(i)] for i in sweep.baseline_frontier if int(i) in place],
        "infeasible": infeasible_records(sweep),
        "warnings": warning_records(sweep.notes),
        "points_left_out": len(sweep.points) - len(kept),
        "uplift": [_uplift(row) for row in sweep.uplift()],
        "scenarios": [scenario_record(grid.scenario) for grid in sweep.grids],
    }
    return finite(answer)


def recommend_record(
    found: Recommendation,
    *,
    asked: Mapping[str, Input],
    engine_settings: Mapping[str, Mapping[str, Any]],
    by_context: Sequence[ContextSchedule] | None = None,
) -> Record:
    """`specdec.recommend/1`.

    Args:
        found: the answer. asked: the limits and tolerances with their origins, which join the inputs.
        engine_settings: by engine, what to paste there. by_context: schedules by context length, where asked for.
    """
    sweep = found.sweep
    others = point_records(sweep, found.alternatives)
    contexts: answers.ByContext = {} if by_context is None else {"schedule_by_context": _by_context(by_context)}
    answer: answers.RecommendAnswer = {
        "schema": RECOMMEND,
        "specdec_version": __version__,
        "inputs": inputs_record({**sweep.question.inputs, **asked}),
        "choice": _choice(found),
        "plateau": list(found.plateau),
        "alternatives": others,
        "guidelines": [_guideline(rule) for rule in found.guidelines],
        "pays_from_batch": found.pays_from_batch,
        "pays_to_batch": found.pays_to_batch,
        "schedule": _schedule(found.schedule),
        "engine_settings": cast(Any, {engine: dict(settings) for engine, settings in engine_settings.items()}),
        "warnings": warning_records(found.notes),
        "off_because": found.off_because,
        "split": _split(found),
        "runner_up": _runner_up(found, others),
        "swept_batches": [min(found.scenario.batches), max(found.scenario.batches)],
        "scenarios": [scenario_record(found.scenario)],
        **_users(found.users, found.scenario.layout.gpus),
        **contexts,
    }
    return finite(answer)


def _guideline(rule: Guideline) -> answers.Guideline:
    return {
        "id": rule.id,
        "title": rule.title,
        "applies": rule.applies,
        "why": rule.why,
        "numbers": dict(rule.numbers),
        "suggests": cast(Any, rule.suggests),
        "verdict": rule.verdict,
    }


def inputs_record(inputs: Mapping[str, Input]) -> Any:
    """Every resolved input with where its value comes from; which there are is each answer's own."""
    return {name: {"value": entry.value, "origin": entry.origin} for name, entry in inputs.items()}


def warning_records(notes: Sequence[Note]) -> list[common.Warned]:
    """Warnings with their stable codes."""
    return [{"code": note.code, "message": note.message} for note in notes]


def finite(record: Mapping[str, Any]) -> Record:
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


def infeasible_records(sweep: Sweep) -> list[common.Infeasible]:
    """Every point that cannot be, with its reason."""
    return [_infeasible(entry) for entry in sweep.infeasible]


def _infeasible(entry: Infeasible) -> common.Infeasible:
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


def _uplift(row: Uplift) -> answers.Uplift:
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


def _calibration(scenario: Scenario) -> common.CalibrationUsed | None:
    """What the step times were calibrated with, and where it holds."""
    own, band = scenario.calibration, scenario.band
    if own is None or not isinstance(band, CalibratedBand):
        return None
    return {
        "name": own.name,
        "method": own.method,
        "time_band": band.inside,
        "batch_from": band.batches[0],
        "batch_to": band.batches[1],
        "longest_draft": band.longest,
    }


def _dtypes(scenario: Scenario) -> common.PartDtypes:
    """The dtype of each part that the model has."""
    dtypes, ffn = scenario.dtypes, scenario.model.ffn.values()
    routed = [spec for spec in ffn if isinstance(spec, MoeFfn)]
    dense = len(routed) < len(scenario.model.ffn) or any(spec.shared_intermediate for spec in routed)
    parts: common.FeedForwardDtypes = {}
    if dense:
        parts["ffn"] = dtypes.ffn
    if routed:
        parts["experts"] = dtypes.experts
    return {"attention": dtypes.attention, **parts, "lm_head": dtypes.lm_head}


def scenario_record(scenario: Scenario) -> common.ScenarioRecord:
    """What the figures of one scenario rest on."""
    measured, memory, layout = scenario.acceptance_profile, scenario.memory, scenario.layout
    workload = scenario.workload
    longest = max(scenario.draft_lengths)
    return {
        "hardware": scenario.hardware.name,
        "tp": layout.tp,
        "gpus": layout.gpus,
        "ep": layout.ep,
        "model": scenario.model.name,
        "drafter": scenario.drafter_name,
        "mechanism": scenario.drafter.mechanism if scenario.drafter is not None else None,
        "weight_dtypes": _dtypes(scenario),
        "engine": scenario.engine.name,
        "engine_family": scenario.engine.family,
        "engine_version": scenario.engine.version,
        "context_tokens": scenario.context,
        "draft_lengths": list(scenario.draft_lengths),
        "acceptance": measured.name if measured is not None else None,
        "data_set": measured.data_set if measured is not None else None,
        "temperature": measured.temperature if measured is not None else None,
        "acceptance_measured_by": measured.measured_by if measured is not None else None,
        "kernels_fitted": scenario.hardware.fitted,
        "price_usd_per_hour": scenario.hardware.price_usd_per_hour,
        "price_checked": scenario.hardware.price_checked,
        "input_tokens": workload.input_tokens if workload is not None else None,
        "output_tokens": workload.output_tokens if workload is not None else None,
        "time_band": scenario.band.relative,
        "calibration": _calibration(scenario),
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
    each_rank = scenario.largest_batch(length)
    return math.floor(each_rank) * scenario.layout.ranks if math.isfinite(each_rank) else None


def _schedule(entries: Sequence[ScheduleEntry]) -> list[answers.ScheduleRange]:
    return [{"batch_from": e.batch_from, "batch_to": e.batch_to, "draft_length": e.draft_length} for e in entries]


def _by_context(found: Sequence[ContextSchedule]) -> list[answers.ContextRange]:
    return [
        {
            "context_from": one.context_from,
            "context_to": one.context_to,
            "acceptance_known": one.known,
            "schedule": _schedule(one.entries),
        }
        for one in found
    ]


def _users(users: Users | None, gpus: int) -> answers.UsersServed:
    """Users served at the floor interactivity; null where none was asked for."""
    served, without = (None, None) if users is None else (users.served, users.served_without)
    return {
        "users_per_replica": served,
        "users_per_gpu": None if served is None else served / gpus,
        "users_per_replica_without": without,
        "users_per_gpu_without": None if without is None else without / gpus,
        "users_floor_tokens_per_s_per_user": None if users is None else users.floor,
        "users_at_least": None if users is None else users.at_least,
    }


def _choice(found: Recommendation) -> answers.Choice | None:
    if found.choice is None:
        return None
    point = point_records(found.sweep, [found.choice])[0]
    return {**point, "speculate": point["draft_length"] > 0}


def _split(found: Recommendation) -> answers.Split | None:
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


def _runner_up(found: Recommendation, others: Sequence[common.SweptPoint]) -> answers.RunnerUp | None:
    """The best of the rest, and how much better the choice is by what was maximised."""
    if found.choice is None or not others:
        return None
    by_interactivity = found.limits.min_throughput is not None
    objective = found.sweep.points.user_speed if by_interactivity else found.sweep.points.gpu_output
    margin = float(objective[found.choice]) / float(objective[found.alternatives[0]]) - 1.0
    return {
        "drafter": others[0]["drafter"],
        "batch": others[0]["batch"],
        "draft_length": others[0]["draft_length"],
        "maximised": "interactivity" if by_interactivity else "throughput",
        "margin": margin,
        "within_tie": abs(margin) <= found.limits.tie,
    }
