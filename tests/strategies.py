"""Random questions over every shipped profile, for property tests: most have an answer, and each prints as the command
that asks it.

`HYPOTHESIS_PROFILE=long` looks far further than an ordinary run, and not at the same examples each time.
"""

from __future__ import annotations

import io
import math
import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, reject, settings
from hypothesis import strategies as st

from specdec_cli.cli.app import run
from specdec_cli.errors import InfeasibleError, SpecdecError
from specdec_cli.explore.grid import evaluate
from specdec_cli.explore.question import Options, Question
from specdec_cli.explore.scenario import resolve
from specdec_cli.explore.sweep import Points, Sweep, run_sweep
from specdec_cli.physics.trees import DRAW_TREES
from specdec_cli.profiles.calibration import Calibration
from specdec_cli.profiles.library import Library, Loaded, shipped_profiles_dir
from specdec_cli.profiles.schema import Drafter, Engine, Hardware, Model, MoeFfn
from specdec_cli.report.points import point_records
from specdec_cli.report.records import sweep_record

LIBRARY = Library()
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
LONG_FACTOR = 20
"""How many times as many examples a long run looks at."""

ROUNDING = 1e-11
"""Relative: what floating point may move one figure by when it is computed among others."""


def searched(examples: int) -> settings:
    """So many examples, always the same; many more and others each time in a long run."""
    return settings(
        max_examples=examples * (LONG_FACTOR if LONG else 1),
        derandomize=not LONG,
        database=None,
        deadline=None,
        print_blob=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.too_slow],
    )


# ------------------------------------------------------------------------------------------------ a question


@dataclass(frozen=True, repr=False)
class Case:
    """A question; its `repr` is the command that asks it."""

    options: Options

    def __repr__(self) -> str:
        return shlex.join(("specdec", "sweep", *self.arguments()))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """As hypothesis prints it."""
        printer.text(repr(self))

    def arguments(self) -> list[str]:
        """The options as they are written on the command line."""
        said = [(field.name, getattr(self.options, field.name)) for field in fields(self.options)]
        given = [(f"--{name.replace('_', '-')}", value) for name, value in said if value is not None]
        return [
            part
            for option, value in given
            if value is not False
            for part in (option, *([] if value is True else [str(value)]))
        ]

    def but(self, **changes: Any) -> Case:
        """The same question with other options."""
        return replace(self, options=replace(self.options, **changes))

    def question(self, library: Library = LIBRARY) -> Question:
        """As the command line resolves it."""
        return resolve(library, self.options)

    def answer(self, library: Library = LIBRARY) -> Sweep:
        """Its sweep; an example without a feasible point is discarded."""
        try:
            return run_sweep(self.question(library))
        except InfeasibleError:
            reject()


class Altered(Library):
    """The shipped library, some of whose profiles are changed on their way out."""

    def __init__(
        self,
        *,
        hardware: Callable[[Hardware], Hardware] | None = None,
        engine: Callable[[Engine], Engine] | None = None,
        model: Callable[[Model], Model] | None = None,
        calibration: Calibration | None = None,
    ) -> None:
        self.__dict__.update(LIBRARY.__dict__)  # its caches too: nothing is read twice
        self._changes = {"hardware": hardware, "engine": engine, "model": model}
        self._own_calibration = calibration

    def hardware(self, name_or_file: str) -> Loaded[Hardware]:
        return self._changed("hardware", super().hardware(name_or_file))

    def engine(self, name_or_file: str) -> Loaded[Engine]:
        return self._changed("engine", super().engine(name_or_file))

    def model(self, name_or_file: str, **how: Any) -> Loaded[Model]:
        return self._changed("model", super().model(name_or_file, **how))

    def calibration(self, name_or_file: str) -> Loaded[Calibration]:
        if self._own_calibration is None:
            return super().calibration(name_or_file)
        return replace(LIBRARY.calibration(LIBRARY.names("calibration")[0]), record=self._own_calibration)

    def _changed(self, kind: str, loaded: Loaded[Any]) -> Loaded[Any]:
        change = self._changes[kind]
        return loaded if change is None else replace(loaded, record=change(loaded.record))


# ------------------------------------------------------------------------------------- what goes with what


def first(default: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names with the default in front, which is what an example shrinks to."""
    return (default, *(name for name in names if name != default))


CHIPS = first("h100-sxm", LIBRARY.names("hardware"))
MODELS = first("llama-3.1-8b", LIBRARY.names("model"))
ENGINES = first("vllm", LIBRARY.names("engine"))
MEASURED_MODELS = tuple(
    sorted(folder.name for folder in (shipped_profiles_dir() / "acceptance").iterdir() if folder.is_dir())
)
LARGEST_CHIP = "gb300-nvl72"
"""Stands in where a drawn chip cannot hold a drawn model: 72 of it hold every shipped one."""
DRAWN_AS_TREES = tuple(
    target
    for loaded in LIBRARY.every("drafter")[0]
    if loaded.record.mechanism in DRAW_TREES
    for target in loaded.record.targets
    if target in MODELS
)
FAVOURED = MODELS + MEASURED_MODELS + DRAWN_AS_TREES
"""Every model, oftener those with measured acceptance and those with drafters that draw trees."""
GPU_COUNTS = (1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 64, 72)
DTYPES = (None, "fp8", "nvfp4", "int4", "bf16", "int8", "fp8_block", "mxfp4", "q4_k", "q8_0")
ALL_KINDS = ("rate", "measured", "lengths", "measured", "rate", "none")


def axis(values: Iterable[int]) -> str:
    """An axis as a user writes it."""
    return ",".join(str(value) for value in sorted(set(values)))


def chip(name: str) -> Hardware:
    return LIBRARY.hardware(name).record


def model(name: str) -> Model:
    return LIBRARY.model(name).record


@cache
def fitting(hardware: str, target: str, engine: str, weight_dtype: str | None) -> tuple[int, ...]:
    """Tensor-parallel sizes whose GPUs hold the weights and a request; empty: none, or no kernels for the model."""
    domain = chip(hardware).link.domain_gpus
    sizes = sorted({n for n in (*GPU_COUNTS, domain) if n <= domain})
    options = Options(hardware=hardware, model=target, engine=engine, drafter="none", weight_dtype=weight_dtype)
    try:
        question = resolve(LIBRARY, replace(options, tp=axis(sizes), context=1, batches="1"))
        held = [s for s in question.scenarios if s.memory.largest_batch(0) >= 1.0]
        for scenario in held[-1:]:
            evaluate(scenario)  # whether the chip has figures for the model's kernels
    except SpecdecError:
        return ()
    return tuple(scenario.layout.tp for scenario in held)


@cache
def drafters(target: str) -> tuple[Drafter, ...]:
    """Every drafter of a model, those for any model last."""
    return tuple(loaded.record for loaded in LIBRARY.drafters_for(target))


@cache
def measured(target: str) -> tuple[tuple[str, str], ...]:
    """(drafter, acceptance profile) of every measurement on a model, or on the model it is a copy of."""
    return tuple(
        (drafter.name, loaded.record.name)
        for drafter in drafters(target)
        for loaded in LIBRARY.acceptance_for(target, drafter.name)
    )


# ----------------------------------------------------------------------------------------------- strategies

some_batches = st.one_of(st.integers(1, 16), st.integers(17, 512), st.integers(513, 8192))
some_rates = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)


@dataclass(frozen=True)
class Within:
    """What a random question is drawn from."""

    models: Sequence[str] = FAVOURED
    chips: Sequence[str] = CHIPS
    engines: Sequence[str] = ENGINES
    weights: Sequence[str | None] = DTYPES
    kinds: Sequence[str] = ALL_KINDS
    """What acceptance rests on; `none`: no drafter."""
    mechanisms: Sequence[str] | None = None
    """None: all."""
    several_gpus: bool = False
    one_rank: bool = False
    """Tensor parallelism alone."""
    trees: bool = True


ANYTHING = Within()
DRAFTING = Within(kinds=tuple(kind for kind in ALL_KINDS if kind != "none"))


@st.composite
def setups(draw: st.DrawFn, within: Within = ANYTHING) -> Options:
    """A chip, a model that fits on it, an engine, a layout, dtypes, a context."""
    hardware, target = draw(st.sampled_from(within.chips)), draw(st.sampled_from(within.models))
    engine, weights = draw(st.sampled_from(within.engines)), draw(st.sampled_from(within.weights))
    if not fitting(hardware, target, engine, weights):
        weights = None
    if not fitting(hardware, target, engine, weights):
        hardware = LARGEST_CHIP
    sizes = fitting(hardware, target, engine, weights)
    tp = draw(st.sampled_from([n for n in sizes if n > 1] or sizes if within.several_gpus else sizes))
    domain = chip(hardware).link.domain_gpus
    gpus = tp * draw(
        st.sampled_from([n for n in (1, 2, 3, 4, 8) if n * tp <= domain and (n == 1 or not within.one_rank)])
    )
    routed = any(isinstance(ffn, MoeFfn) for ffn in model(target).ffn.values())
    ep = draw(st.sampled_from([n for n in range(1, gpus + 1) if gpus % n == 0])) if routed else 1
    return Options(
        hardware=hardware,
        model=target,
        engine=engine,
        tp=str(tp),
        gpus=gpus if gpus != tp else None,
        ep=ep if ep > 1 else None,
        weight_dtype=weights,
        kv_dtype=draw(st.sampled_from([None, "bf16", "fp8"])),
        context=draw(contexts(target)),
    )


def contexts(target: str) -> st.SearchStrategy[int]:
    """Context lengths that a model can hold, short ones as often as long ones."""
    longest = model(target).max_context
    return st.one_of(
        st.sampled_from([length for length in (2048, 1, 100, 8192, longest) if length <= longest]),
        st.floats(0.0, 1.0).map(lambda share: max(1, round(longest**share))),
    )


@st.composite
def acceptances(draw: st.DrawFn, target: str, within: Within) -> dict[str, Any]:
    """A drafter of the model, and what its acceptance rests on."""
    kind = draw(st.sampled_from(within.kinds))
    wanted = [one for one in drafters(target) if within.mechanisms is None or one.mechanism in within.mechanisms]
    if kind == "none" or not wanted:
        return {"drafter": "none"}
    known = [pair for pair in measured(target) if pair[0] in {one.name for one in wanted}] if kind == "measured" else []
    if known:
        drafter, profile = draw(st.sampled_from(known))
        return {"drafter": drafter, "acceptance": profile}
    named, for_any = [one.name for one in wanted if one.targets], [one.name for one in wanted if not one.targets]
    branching = [one.name for one in wanted if one.mechanism in DRAW_TREES]
    drafter = draw(st.sampled_from(named * 2 + branching * 2 + for_any))
    if kind == "lengths":
        gains = draw(st.lists(some_rates, min_size=1, max_size=6))
        lengths = [1.0 + math.fsum(gains[: n + 1]) for n in range(len(gains))]
        kept = draw(st.sets(st.integers(1, len(lengths)), min_size=1))
        return {"drafter": drafter, "acceptance_length": ",".join(f"{d}={lengths[d - 1]:.4g}" for d in sorted(kept))}
    return {"drafter": drafter, "acceptance_rate": draw(some_rates)}


@st.composite
def cases(draw: st.DrawFn, within: Within = ANYTHING, *, serving: bool | None = None, most_batches: int = 4) -> Case:
    """A sweep of a few batches and draft lengths.

    serving: with prompts and answers of a given length, without; None: either.
    """
    options = draw(setups(within))
    assert options.model is not None
    drafting = draw(acceptances(options.model, within))
    batches = draw(st.lists(some_batches, max_size=most_batches - 1))
    lengths = draw(st.lists(st.integers(0, 16), min_size=2, max_size=4)) if drafting["drafter"] != "none" else [0]
    options = replace(
        options,
        batches=axis([draw(st.integers(1, 8)), *batches]),
        draft_lengths=axis([*lengths, *([0] if draw(st.booleans()) else [])]),
        assume=draw(st.booleans()),
        **drafting,
    )
    if within.trees:
        options = draw(with_tree(options))
    if serving or (serving is None and draw(st.integers(0, 2)) == 0):
        longest = model(options.model).max_context
        prompt = draw(st.one_of(st.integers(1, 64), st.integers(65, min(longest - 1, 32768))))
        answer = draw(st.integers(1, min(longest - prompt, 4096)))
        options = replace(options, context=None, input_tokens=prompt, output_tokens=answer)
    return Case(options)


@st.composite
def with_tree(draw: st.DrawFn, options: Options) -> Options:
    """Half of the time, where the drafter draws trees, a tree."""
    drafter = next((one for one in drafters(options.model or "") if one.name == options.drafter), None)
    if drafter is None or drafter.mechanism not in DRAW_TREES or draw(st.booleans()):
        return options
    deepest = max(map(int, (options.draft_lengths or "0").split(",")))
    width = draw(st.one_of(st.none(), st.integers(1 + deepest, 64)))
    return replace(options, tree_topk=draw(st.integers(2, 8)), verify_width=width)


# -------------------------------------------------------------------------------------------- comparing answers


def by_point(sweep: Sweep, *, frontier: bool = True) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What leaves the core of every point, by what the point is; its place on the frontier only where asked."""
    found = {}
    for record in point_records(sweep, range(len(sweep.points))):
        if not frontier:
            del record["on_frontier"]
        for cost in ("cost_usd_per_million_tokens", "serving_cost_usd_per_million_tokens"):
            if record.get(cost) is None:
                record.pop(cost, None)  # null where another chip of the sweep has a price, absent where none has
        key = tuple(record[name] for name in ("hardware", "tp", "gpus", "drafter", "batch", "draft_length"))
        assert key not in found, f"{key} is listed twice"
        found[key] = record
    return found


def alike(one: Any, other: Any, rounding: float = ROUNDING) -> bool:
    """Equal, numbers within rounding."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key], rounding) for key in one)
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(one, other, rel_tol=rounding)
    return bool(one == other)


NUMBERS = [name for name in Points.__struct_fields__ if name not in ("bound", "on_frontier")]


def sound(sweep: Sweep) -> None:
    """Every number finite, every time above 0, AL, the band and the steps in their bounds."""
    points = sweep.points
    for name in NUMBERS:
        column = getattr(points, name)
        assert column is None or np.isfinite(column).all(), name
    for column in (points.target_s, points.speedup_low, points.interactivity, points.throughput):
        assert (column > 0.0).all()
    assert (points.draft_s >= 0.0).all()
    assert (points.verify_s >= points.target_s).all()
    assert (points.acceptance_length >= 1.0).all()
    assert (points.acceptance_length <= 1.0 + points.draft_length).all()
    assert (points.speedup_low <= points.speedup * (1 + ROUNDING)).all()
    assert (points.speedup <= points.speedup_high * (1 + ROUNDING)).all()
    assert "not_finite" not in {warning["code"] for warning in sweep_record(sweep)["warnings"]}


def told(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    return code, out.getvalue(), err.getvalue()
