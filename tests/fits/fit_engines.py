"""Fit the host constants of the engine profiles to the published decode runs that used them, kernels frozen.

    python tests/fits/fit_engines.py [NAME...]    fit, report, write profiles/engines/NAME.yaml
    python tests/fits/fit_engines.py --report     fit and report, write nothing
    python tests/fits/fit_engines.py --check      write nothing; exit 1 where a profile is not what the fit makes of it

    T_step = kernels + step + per_request B + layers small_kernels + [D >= 1] speculation + passes draft_pass
             + passes over the draft's logits; trees with an entry fee and a pass of their own

which is linear in the constants, so that the columns are differences of the model's own predictions. The constants are
found by non-negative least squares on the relative residuals of base steps and speculative steps. Every source weighs
the same whatever its number of points; one that the kernels miss weighs less (a host cannot make good for kernels that
are not the source's); a ridge pulls towards the study's values (`PLANS`) with the spread that it saw.
A source's error is reported twice: in the fit of all, and left out of the fit. Setups with a fault, serving runs (their
steps also hold prefill) and sources of tier C are no part of it. Setups on chips without measured kernel tables are
reported alone, for there kernels and host cannot be told apart; so are a source's others where a plan names the one
setup to fit on.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from specdec_cli.explore.validate_points import FITTED_ON, PointResult, recreate
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.measurement import Measurement, Setup
from specdec_cli.profiles.schema import Engine, Overheads

ENGINES = Path(__file__).parents[2] / "profiles" / "engines"
CHECKED = "2026-09-30"
LAYER = "small_kernels_us_per_layer"

RESIDUAL = 0.05
"""Relative error that kernels and constants together are expected to leave: the unit of residuals and of the ridge."""
FAR = 3.0
"""A residual of this many units weighs half, one far beyond it next to nothing."""
ROUNDS = 30  # of reweighting; the constants stand still after ten
TOLERANCE = 0.011
"""How far a profile's constant may lie from the fit: its last digit (0.01 ms; us in whole numbers)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is fitted for one engine: constant -> (the study's value, how far it may reasonably lie from there)."""

    constants: Mapping[str, tuple[float, float]]
    only: Mapping[str, str] = field(default_factory=dict)
    """Source -> its one setup that is fitted on."""


def _plan(step: float, request: float, entry: float, each: float, **more: tuple[float, float]) -> Plan:
    """Values of the study (ms, us), each with the spread that it saw."""
    constants = {
        "step_ms": (step, 0.3),
        "per_request_us": (request, 10.0),
        "speculation_ms": (entry, 0.3),
        "draft_pass_ms": (each, 0.08),
    }
    return Plan(constants | more)


PLANS: dict[str, Plan] = {
    "vllm": _plan(0.6, 20.0, 0.6, 0.22),
    "vllm-2025-11": _plan(0.6, 20.0, 0.6, 0.22),
    "vllm-2025-07": _plan(0.6, 20.0, 0.6, 0.22, **{"draft_pass_ms_by_mechanism.eagle3": (0.74, 0.1)}),
    "sglang": _plan(0.45, 30.0, 0.25, 0.05),
    "sglang-2025": _plan(0.45, 30.0, 0.85, 0.14, tree_speculation_ms=(1.7, 0.4), tree_draft_pass_ms=(0.33, 0.12)),
    "tensorrt-llm-2025": _plan(0.2, 20.0, 0.15, 0.13, **{LAYER: (8.0, 30.0)}),
    "magicdec-2024": Plan(
        {
            "step_ms": (0.6, 1.0),
            "per_request_us": (0.0, 10.0),
            "speculation_ms": (0.6, 1.0),
            "draft_pass_ms": (0.22, 1.0),
            "draft_logit_passes": (3.5, 100.0),
        },
        only={"magicdec": "llama-3.1-8b-self"},
    ),
}
"""Engines that are not here keep what their file says and whence: llama.cpp's pass is a share of the target's step, and
its figures rest on the block-format kernels of the chips; gpt-fast has no host; the others have no decode run."""


# ------------------------------------------------------------------------------------------------- engines


class _WithEngine:
    """A library in which one engine profile is another."""

    def __init__(self, library: Library, engine: Engine) -> None:
        self._library, self._engine = library, engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def engine(self, name: str) -> Any:
        """The changed profile under its own name."""
        loaded = self._library.engine(name)
        return loaded if loaded.record.name != self._engine.name else _Found(self._engine)


@dataclass(frozen=True, slots=True)
class _Found:
    record: Engine
    origin: str = "shipped"


def with_constants(engine: Engine, constants: Mapping[str, float]) -> Engine:
    """The engine with these constants, keys as in `Plan`."""
    by_mechanism = {k.partition(".")[2]: v for k, v in constants.items() if "." in k}
    plain = {k: v for k, v in constants.items() if "." not in k and k != LAYER}
    overheads: Overheads = msgspec.structs.replace(
        engine.overheads,
        **plain,
        draft_pass_ms_by_mechanism={**engine.overheads.draft_pass_ms_by_mechanism, **by_mechanism},
    )
    layer = constants.get(LAYER, engine.small_kernels_us_per_layer)
    return msgspec.structs.replace(engine, overheads=overheads, small_kernels_us_per_layer=layer)


def constants_of(engine: Engine, names: Sequence[str]) -> dict[str, float | None]:
    """What the profile says of these constants; None: nothing."""
    found: dict[str, float | None] = {}
    for name in names:
        if name == LAYER:
            found[name] = engine.small_kernels_us_per_layer
        elif "." in name:
            found[name] = engine.overheads.draft_pass_ms_by_mechanism.get(name.partition(".")[2])  # type: ignore[call-overload]
        else:
            found[name] = getattr(engine.overheads, name)
    return found


# ---------------------------------------------------------------------------------------------------- rows


@dataclass(frozen=True, slots=True)
class Rows:
    """Measured steps of one source, with what the model says of them at no constants and for a unit of each."""

    source: str
    fitted: bool
    """False: rows that are kept to report on."""
    setups: tuple[str, ...]
    """Of these rows, where the source has others; empty: they are all."""
    speculates: bool
    """Whether any of them is a speculative step."""
    measured_s: np.ndarray
    kernels_s: np.ndarray
    columns_s: np.ndarray
    """(rows, constants)."""

    def predicted_s(self, constants: np.ndarray) -> np.ndarray:
        """The model's steps at these constants."""
        return self.kernels_s + self.columns_s @ constants

    def errors(self, constants: np.ndarray) -> np.ndarray:
        """Predicted over measured, less 1."""
        return np.asarray(self.predicted_s(constants) / self.measured_s - 1.0)


def decode_setups(source: Measurement, engine: str) -> list[Setup]:
    """The setups of a source that tell of this engine's host: no faults, no prompts between the steps."""
    if source.tier == "C":
        return []
    return [s for s in source.setups if s.engine == engine and not s.fault and s.input_tokens is None]


def rows_of(library: Library, sources: Sequence[Measurement], engine: Engine, plan: Plan) -> list[Rows]:
    """The rows of every source that used the engine."""
    found = []
    for source in sources:
        setups = decode_setups(source, engine.name)
        kept = plan.only.get(source.name)
        use = [s for s in setups if kept in (None, s.id) and library.hardware(s.hardware).record.fitted]
        for fitted, own in ((True, use), (False, [s for s in setups if s not in use])):
            part = msgspec.structs.replace(source, setups=own)
            named = () if len(own) == len(source.setups) else tuple(setup.id for setup in own)
            rows = _rows(library, part, engine, plan, fitted, named) if own else None
            if rows is not None:
                found.append(rows)
    return found


def _rows(
    library: Library, source: Measurement, engine: Engine, plan: Plan, fitted: bool, named: tuple[str, ...]
) -> Rows | None:
    names = list(plan.constants)
    nothing = dict.fromkeys(names, 0.0)
    measured, kernels = _steps(library, source, with_constants(engine, nothing))
    known = np.isfinite(measured)
    if not known.any():
        return None
    columns = [_steps(library, source, with_constants(engine, nothing | {n: 1.0}))[1] - kernels for n in names]
    steps = [p for s in source.setups for p in s.points if p.draft_length]
    speculates = any(p.step_ms or (p.speedup and p.acceptance_length) for p in steps)
    return Rows(
        source.name, fitted, named, speculates, measured[known], kernels[known], np.column_stack(columns)[known]
    )


def _steps(library: Library, source: Measurement, engine: Engine) -> tuple[np.ndarray, np.ndarray]:
    """(measured, predicted) base steps, each condition's once, and speculative steps, s; NaN where not measured."""
    points = recreate(_WithEngine(library, engine), source)  # type: ignore[arg-type]
    pairs, seen = [], set()
    for point in points:
        base = point.measured.base_step
        if base is not None and (key := (point.condition, base)) not in seen:
            seen.add(key)
            pairs.append((base, point.predicted["model"].base_step))
        if point.draft_length:
            pairs.append((_speculative_step(point, points), point.predicted["model"].step))
    measured, predicted = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array([np.nan if m is None else m for m in measured], float), np.array(predicted, float)


def _speculative_step(point: PointResult, points: Sequence[PointResult]) -> float | None:
    """As measured, or rho times the base step beside it."""
    if point.measured.step is not None or point.measured.rho is None:
        return point.measured.step
    bases = [p.measured.base_step for p in points if p.condition == point.condition and p.measured.base_step]
    return point.measured.rho * bases[0] if bases else None


# ----------------------------------------------------------------------------------------------------- fit


def solve(rows: Sequence[Rows], plan: Plan) -> np.ndarray:
    """The constants, in the order of the plan."""
    mean, spread = (np.array(values) for values in zip(*plan.constants.values(), strict=True))
    found = mean.copy()
    for _ in range(ROUNDS):
        blocks, wanted = [np.diag(1.0 / spread)], [mean / spread]
        for one in rows:
            units = np.abs(one.errors(found)) / RESIDUAL
            weight = 1.0 / (RESIDUAL * np.sqrt(len(units) * (1.0 + (units / FAR) ** 2)))
            blocks.append(one.columns_s / one.measured_s[:, None] * weight[:, None])
            wanted.append((1.0 - one.kernels_s / one.measured_s) * weight)
        found = non_negative(np.vstack(blocks), np.concatenate(wanted))
    return found


def non_negative(matrix: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Least squares with no constant below 0 (Lawson and Hanson's active set, on a handful of columns)."""
    active = np.zeros(matrix.shape[1], bool)
    found = np.zeros(matrix.shape[1])
    while True:
        gradient = matrix.T @ (wanted - matrix @ found)
        gradient[active] = -np.inf
        if active.all() or gradient.max() <= 1e-10:
            return found
        active[np.argmax(gradient)] = True
        while True:
            trial = np.zeros_like(found)
            trial[active] = np.linalg.lstsq(matrix[:, active], wanted, rcond=None)[0]
            if (trial[active] > 0).all():
                found = trial
                break
            falling = active & (trial <= 0)
            step = np.min(found[falling] / np.maximum(found[falling] - trial[falling], 1e-300))
            found = found + step * (trial - found)
            active &= found > 1e-12
            found[~active] = 0.0


@dataclass(frozen=True, slots=True)
class Fit:
    """The constants of one engine, and how well they do."""

    engine: str
    constants: dict[str, float]
    """Rounded, as they are written."""
    sources: dict[str, tuple[int, float, float | None]]
    """Source -> (steps, median |error| in the fit, median |error| where it is left out; None: alone)."""
    reported: dict[str, tuple[int, float]]
    """Setups kept out of the fit -> (steps, median |error|)."""
    sweeps: int
    """Sources of the fit with speculative steps."""
    named: tuple[str, ...]
    """What was fitted on, as `specdec validate` reads it from a profile's sources."""


def fit(library: Library, name: str) -> Fit:
    """Fit one engine."""
    loaded, _ = library.every("measurement")
    plan, engine = PLANS[name], library.engine(name).record
    every = rows_of(library, [one.record for one in loaded], engine, plan)
    rows, kept = [r for r in every if r.fitted], [r for r in every if not r.fitted]
    found = np.array([rounded(n, v) for n, v in zip(plan.constants, solve(rows, plan), strict=True)])
    sources = {}
    for one in rows:
        others = [other for other in rows if other is not one]
        out = _median(one.errors(solve(others, plan))) if others else None
        sources[one.source] = (len(one.measured_s), _median(one.errors(found)), out)
    reported = {one.source: (len(one.measured_s), _median(one.errors(found))) for one in kept}
    constants = {n: float(v) for n, v in zip(plan.constants, found, strict=True)}
    named = [name for one in rows for name in ([f"{one.source} (setup {s})" for s in one.setups] or [one.source])]
    return Fit(name, constants, sources, reported, sum(one.speculates for one in rows), tuple(named))


def _median(errors: np.ndarray) -> float:
    return float(np.median(np.abs(errors)))


def rounded(name: str, value: float) -> float:
    """As a profile writes it: ms to 0.01; us and passes to whole numbers, what a layer takes to 0.1 us."""
    return round(float(value), 2 if "_ms" in name else 1 if name == LAYER else 0)


# ------------------------------------------------------------------------------------------- report, profile


def sentence(found: Fit) -> str:
    """What a profile's source says of the fit."""
    parts = []
    for name, (steps, within, out) in found.sources.items():
        left = f", left out {100 * out:.1f} %" if out is not None else ""
        parts.append(f"{name} ({steps} steps, {100 * within:.1f} %{left})")
    kept = [f"{name} ({steps} steps, {100 * error:.1f} %)" for name, (steps, error) in found.reported.items()]
    tail = f"; on setups that were not fitted: {', '.join(kept)}" if kept else ""
    return f"median error of steps in the fit of all, and of the source left out: {', '.join(parts)}{tail}"


def source_line(found: Fit) -> str:
    """The profile's `sources` line."""
    return (
        f'  overheads: {{from: "tests/fits/fit_engines.py over {FITTED_ON} {", ".join(found.named)}", '
        f'checked: "{CHECKED}", kind: fitted, note: "{sentence(found)}"}}\n'
    )


def write(found: Fit, path: Path) -> bool:
    """Put the constants and their source into the profile; whether anything changed."""
    before = text = path.read_text("utf-8")
    for name, value in found.constants.items():
        key = name.partition(".")[2] or name
        pattern = re.compile(rf"^(\s*{key}: )[0-9.]+", re.MULTILINE)
        if not pattern.search(text):
            raise SystemExit(f"{path}: no line `{key}: NUMBER`")
        text = pattern.sub(lambda m, v=value: f"{m[1]}{v:g}" if v % 1 else f"{m[1]}{v:.1f}", text, count=1)
    text = re.sub(r"^fitted_sweeps: \d+", f"fitted_sweeps: {found.sweeps}", text, count=1, flags=re.MULTILINE)
    text = re.sub(r"^  overheads: \{.*\}\n", lambda _: source_line(found), text, count=1, flags=re.MULTILINE)
    if text != before:
        path.write_text(text, "utf-8")
    return text != before


def differences(found: Fit, engine: Engine) -> list[str]:
    """Where a profile is not what the fit makes of it."""
    wrong = []
    for name, now in constants_of(engine, list(found.constants)).items():
        value = found.constants[name]
        step = TOLERANCE if "_ms" in name else 100 * TOLERANCE
        if now is None or abs(now - value) > step:
            wrong.append(f"{found.engine}: {name} {now}, fitted {value:g}")
    if engine.fitted_sweeps != found.sweeps:
        wrong.append(f"{found.engine}: fitted_sweeps {engine.fitted_sweeps}, fitted on {found.sweeps}")
    text = engine.sources["overheads"].from_
    wrong += [f"{found.engine}: sources.overheads does not name {s}" for s in found.named if s not in text]
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, report, write or check; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"engines; all of {', '.join(PLANS)} where none")
    parser.add_argument("--report", action="store_true", help="write nothing")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where a profile differs")
    asked = parser.parse_args(arguments)
    library, wrong = Library(), []
    for name in asked.names or PLANS:
        found = fit(library, name)
        print(name, " ".join(f"{key}={value:g}" for key, value in found.constants.items()))
        print("   ", sentence(found))
        if asked.check:
            wrong += differences(found, library.engine(name).record)
        elif not asked.report and write(found, ENGINES / f"{name}.yaml"):
            print("    written")
    for line in wrong:
        print("DIFFERS", line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
