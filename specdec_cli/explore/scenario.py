"""What is asked -> what is computed: options resolved against the library into scenarios, every default named."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from specdec_cli.errors import UsageError, did_you_mean
from specdec_cli.explore.axes import check_points, parse_axis
from specdec_cli.explore.uncertainty import TimeBand, time_band
from specdec_cli.physics.acceptance import (
    Acceptance,
    AcceptanceCurve,
    AssumedLengths,
    ConstantRate,
    curve_at_context,
    widened,
)
from specdec_cli.physics.chip import check_domain, resolve_chip
from specdec_cli.physics.drafting import DraftPlan, draft_plan
from specdec_cli.physics.layers import Dtypes, Layout, resolve_dtypes, target_operations
from specdec_cli.physics.memory import MemoryBill, memory_bill
from specdec_cli.physics.serving import Workload
from specdec_cli.physics.step import StepModel
from specdec_cli.profiles.calibration import Calibration
from specdec_cli.profiles.library import IMPORTED, Library
from specdec_cli.profiles.schema import AcceptanceProfile, Drafter, Engine, Hardware, KvDtype, Model, WeightDtype
from specdec_cli.units import KV_BYTES, WEIGHT_BYTES

Origin = Literal["default", "option", "profile", "calibration"]

NO_DRAFTER = "none"
TYPICAL = "typical"


@dataclass(frozen=True, slots=True)
class Defaults:
    """What every command assumes where nothing is said."""

    hardware: str = "h100-sxm"
    model: str = "llama-3.1-8b"
    engine: str = "vllm"
    context: int = 2048
    batches: str = "1..256:x2"
    assumed_draft_lengths: int = 8
    """Largest draft length swept where acceptance is assumed rather than measured."""
    tie: float = 0.03
    min_gain: float = 0.02
    compared_batches: str = "1,8,32,128"
    """Instead of `batches` where mechanisms stand side by side."""
    explained_batch: int = 8


DEFAULTS = Defaults()


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A question as it was put; None: not said. Lists (`a,b`) are swept."""

    hardware: str | None = None
    tp: str | None = None
    gpus: int | None = None
    ep: int | None = None
    model: str | None = None
    drafter: str | None = None
    engine: str | None = None
    context: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    """Both: a replica that also prefills; `batches` then means concurrency."""
    weight_dtype: str | None = None
    kv_dtype: str | None = None
    acceptance: str | None = None
    acceptance_rate: float | None = None
    acceptance_length: str | None = None
    assume_acceptance: str | None = None
    """`typical`: the median of the measured pairs of the drafter's mechanism."""
    batches: str | None = None
    draft_lengths: str | None = None
    assume: bool = False
    """Use acceptance past the context that the drafter was trained on."""
    calibration: str | None = None
    """The user's own measurements (`specdec calibrate`); its scenario fills in what is not said here."""


@dataclass(frozen=True, slots=True)
class Input:
    """A resolved input and where its value comes from."""

    value: Any
    origin: Origin


@dataclass(frozen=True, slots=True)
class Note:
    """A warning with a stable code; it says why and what to do."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Scenario:
    """One target on one layout of one chip, with one drafter or none."""

    hardware: Hardware
    engine: Engine
    model: Model
    drafter: Drafter | None
    layout: Layout
    dtypes: Dtypes
    step: StepModel
    memory: MemoryBill
    acceptance: Acceptance | None
    """None: no drafter, or no acceptance at this context."""
    acceptance_profile: AcceptanceProfile | None
    context: int
    workload: Workload | None
    """Prompt and answer lengths of a serving question."""
    batches: tuple[int, ...]
    draft_lengths: tuple[int, ...]
    beyond_window: bool
    """Whether the context passes the drafter's trained window and nobody vouched for it."""
    band: TimeBand
    calibration: Calibration | None = None
    """What its step model was calibrated with."""

    @property
    def drafter_name(self) -> str:
        """The drafter's name, or `none`."""
        return self.drafter.name if self.drafter is not None else NO_DRAFTER

    @property
    def plan(self) -> DraftPlan | None:
        """The passes of the draft."""
        return self.step.plan


@dataclass(frozen=True, slots=True)
class Question:
    """Every scenario of a sweep, the inputs behind them, and what to warn about."""

    scenarios: tuple[Scenario, ...]
    inputs: dict[str, Input]
    notes: tuple[Note, ...]


@dataclass(slots=True)
class _Resolver:
    """Collects inputs and notes while names become profiles."""

    library: Library
    options: Options
    inputs: dict[str, Input] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def pick(self, name: str, said: Any, default: Any, origin: Origin = "default") -> Any:
        """The value said, else the default; remembered with its origin."""
        value, where = (default, origin) if said is None else (said, "option")
        self.inputs[name] = Input(value, where)
        return value

    def note(self, code: str, message: str) -> None:
        """Remember a warning once."""
        found = Note(code, message)
        if found not in self.notes:
            self.notes.append(found)


def resolve(library: Library, options: Options, *, defaults: Defaults = DEFAULTS) -> Question:
    """Find every profile, fill in every default, and build the scenarios of all lists given.

    Raises:
        UsageError: options that contradict each other. ProfileError: a profile that is missing or invalid.
    """
    check_conflicts(options)
    calibration: Calibration | None = None
    filled: tuple[str, ...] = ()
    if options.calibration is not None:
        from specdec_cli.explore.calibration_use import filled_in  # loaded where a calibration is given alone

        calibration = library.calibration(options.calibration).record
        options, filled = filled_in(options, calibration)
    found = _Resolver(library, options)
    chips = [
        library.hardware(name).record
        for name in _names(found.pick("hardware", options.hardware, defaults.hardware), "--hardware")
    ]
    loaded = library.model(found.pick("model", options.model, defaults.model))
    model = loaded.record
    if loaded.origin == IMPORTED:
        found.note("model_imported", loaded.note)
    engine = library.engine(found.pick("engine", options.engine, defaults.engine)).record
    workload = _workload(found)
    if workload is None:
        context = found.pick("context", options.context, defaults.context)
    else:
        context = round(workload.context)
        found.inputs["context"] = Input(context, "option")
    _check_context(model, context)
    weight_dtype = _dtype("--weight-dtype", options.weight_dtype, WEIGHT_BYTES)
    kv_dtype = _dtype("--kv-dtype", options.kv_dtype, KV_BYTES)
    found.pick("weight_dtype", weight_dtype, model.dtypes.weights, "profile")
    found.pick("kv_dtype", kv_dtype, model.dtypes.kv, "profile")
    drafters = _drafters(found, model)
    layouts = _layouts(found)
    batches = parse_axis(found.pick("batches", options.batches, defaults.batches), "--batches", minimum=1)
    scenarios = [
        _scenario(
            found,
            hardware,
            engine,
            model,
            drafter,
            layout,
            context,
            workload,
            batches,
            weight_dtype,
            kv_dtype,
            defaults,
        )
        for hardware, layout, drafter in itertools.product(chips, layouts, drafters)
    ]
    check_points(sum(len(s.batches) * len(s.draft_lengths) for s in scenarios), "the sweep")
    if calibration is not None:
        from specdec_cli.explore.calibration_use import apply_all

        scenarios = apply_all(calibration, scenarios, found.note)
        found.inputs["calibration"] = Input(calibration.name, "option")
    _remember(found, chips, model, engine, scenarios)
    for name in filled:
        found.inputs[name] = Input(found.inputs[name].value, "calibration")
    return Question(tuple(scenarios), found.inputs, tuple(found.notes))


def check_conflicts(options: Options) -> None:
    """Refuse options that say the same thing twice, or speak of a drafter that is off."""
    said = [
        name
        for name, value in (
            ("--acceptance", options.acceptance),
            ("--acceptance-rate", options.acceptance_rate),
            ("--acceptance-length", options.acceptance_length),
            ("--assume-acceptance", options.assume_acceptance),
        )
        if value is not None
    ]
    if len(said) > 1:
        raise UsageError(f"{' and '.join(said)} conflict: each states the acceptance; give one")
    if options.assume_acceptance not in (None, TYPICAL):
        raise UsageError(f"--assume-acceptance knows `{TYPICAL}` alone, got {options.assume_acceptance!r}")
    if said and options.drafter == NO_DRAFTER:
        raise UsageError(f"{said[0]} conflicts with --drafter none: without a drafter nothing is accepted")
    if options.context is not None and (options.input_tokens is not None or options.output_tokens is not None):
        raise UsageError("--context conflicts with --input-tokens and --output-tokens: the context is I + O/2")
    if options.acceptance is not None and options.drafter is not None and "," in options.drafter:
        raise UsageError("--acceptance names one pair's measurements and conflicts with a list of drafters")


def _names(text: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"{option} holds an empty name: {text!r}")
    return list(dict.fromkeys(names))


def _dtype(option: str, value: str | None, known: dict[str, float]) -> Any:
    if value is None or value in known:
        return value
    hint = did_you_mean(value, known)
    raise UsageError(f"{option} {value!r} is not known; {hint or 'known: ' + ', '.join(known)}")


def _workload(found: _Resolver) -> Workload | None:
    prompt, answer = found.options.input_tokens, found.options.output_tokens
    if prompt is None and answer is None:
        return None
    if prompt is None or answer is None:
        missing = "--input-tokens" if prompt is None else "--output-tokens"
        raise UsageError(f"a serving question needs both lengths: {missing} is missing")
    for option, value in (("--input-tokens", prompt), ("--output-tokens", answer)):
        if value < 1:
            raise UsageError(f"{option} must be at least 1 token, got {value}")
    found.inputs["input_tokens"] = Input(prompt, "option")
    found.inputs["output_tokens"] = Input(answer, "option")
    return Workload(prompt, answer)


def _check_context(model: Model, context: int) -> None:
    if context < 1:
        raise UsageError(f"--context must be at least 1 token, got {context}")
    if context > model.max_context:
        raise UsageError(f"--context {context} exceeds what {model.name} can hold ({model.max_context} tokens)")


def _drafters(found: _Resolver, model: Model) -> list[Drafter | None]:
    library, said = found.library, found.options.drafter
    if said is not None:
        drafters = []
        for name in _names(said, "--drafter"):
            known = library.drafter(name, target=model.name) if name != NO_DRAFTER else None
            if known is not None and known.origin == IMPORTED:
                found.note("drafter_imported", known.note)
            drafters.append(known.record if known is not None else None)
        found.inputs["drafter"] = Input([d.name if d else NO_DRAFTER for d in drafters], "option")
    else:
        loaded = library.default_drafter(model.name)
        drafters = [loaded.record]
        others = [
            other.record.name for other in library.drafters_for(model.name) if other.record.name != loaded.record.name
        ]
        found.inputs["drafter"] = Input([loaded.record.name], "default")
        if found.options.model is not None and others:
            found.note(
                "drafter_chosen", f"drafter {loaded.record.name}; also known for {model.name}: {', '.join(others)}"
            )
    return drafters


def _layouts(found: _Resolver) -> list[Layout]:
    options = found.options
    gpus = options.gpus
    sizes = parse_axis(options.tp, "--tp", minimum=1) if options.tp is not None else (gpus or 1,)
    if gpus is not None and gpus < 1:
        raise UsageError(f"--gpus must be at least 1, got {gpus}")
    ep = 1 if options.ep is None else options.ep
    found.inputs["tp"] = Input(list(sizes), "default" if options.tp is None else "option")
    found.inputs["gpus"] = Input(list(sizes) if gpus is None else [gpus], "default" if gpus is None else "option")
    found.inputs["ep"] = Input(ep, "default" if options.ep is None else "option")
    return [Layout(tp=tp, gpus=gpus or tp, ep=ep) for tp in sizes]


def _scenario(
    found: _Resolver,
    hardware: Hardware,
    engine: Engine,
    model: Model,
    drafter: Drafter | None,
    layout: Layout,
    context: int,
    workload: Workload | None,
    batches: tuple[int, ...],
    weight_dtype: WeightDtype | None,
    kv_dtype: KvDtype | None,
    defaults: Defaults,
) -> Scenario:
    dtypes = resolve_dtypes(model.dtypes, weight_dtype=weight_dtype, kv_dtype=kv_dtype)
    chip = resolve_chip(hardware, engine, dtypes.kv)
    check_domain(chip, layout.gpus)
    operations = target_operations(model, layout, dtypes)
    plan = None
    if drafter is not None:
        draft = found.library.model(drafter.model).record if drafter.model is not None else None
        draft_dtypes = resolve_dtypes(draft.dtypes, kv_dtype=dtypes.kv) if draft is not None else None
        plan = draft_plan(
            drafter,
            model,
            dtypes,
            layout,
            draft_model=draft,
            draft_model_dtypes=draft_dtypes,
            logit_passes=engine.overheads.draft_logit_passes,
        )
    acceptance, profile = _acceptance(found, model, drafter, context)
    beyond = drafter is not None and drafter.window_tokens is not None and context > drafter.window_tokens
    if beyond and drafter is not None:
        found.note(
            "beyond_draft_window",
            f"{drafter.name} was trained on {drafter.window_tokens} tokens of context; at {context} its acceptance "
            + ("is taken over as you asked" if found.options.assume else "is unknown: --assume takes it over"),
        )
    return Scenario(
        hardware=hardware,
        engine=engine,
        model=model,
        drafter=drafter,
        layout=layout,
        dtypes=dtypes,
        step=StepModel(chip, engine.overheads, tuple(operations), plan, layout.ranks),
        memory=memory_bill(
            hardware, engine, model, operations, dtypes.lm_head, layout, plan, float(context), dtypes.kv
        ),
        acceptance=acceptance,
        acceptance_profile=profile,
        context=context,
        workload=workload,
        batches=batches,
        draft_lengths=_draft_lengths(found, drafter, acceptance, profile, defaults),
        beyond_window=beyond and not found.options.assume,
        band=time_band(hardware, engine),
    )


def _acceptance(
    found: _Resolver, model: Model, drafter: Drafter | None, context: int
) -> tuple[Acceptance | None, AcceptanceProfile | None]:
    options = found.options
    if drafter is None:
        return None, None
    if options.acceptance_rate is not None:
        found.inputs["acceptance"] = Input({"constant_conditional_rate": options.acceptance_rate}, "option")
        return ConstantRate(options.acceptance_rate), None
    if options.acceptance_length is not None:
        lengths = parse_acceptance_lengths(options.acceptance_length)
        found.inputs["acceptance"] = Input({"acceptance_length": {str(d): al for d, al in lengths.items()}}, "option")
        return AssumedLengths(lengths), None
    if options.assume_acceptance is not None:
        return _typical(found, model, drafter), None
    if options.acceptance is not None:
        profile = found.library.acceptance(options.acceptance).record
        found.inputs["acceptance"] = Input(profile.name, "option")
        _check_pair(found, profile, model, drafter)
    else:
        loaded = found.library.default_acceptance(model.name, drafter.name)
        if loaded is None:
            raise UsageError(
                f"no measured acceptance is known for {drafter.name} on {model.name}: give --acceptance-length "
                "1=1.7,3=2.4 or --acceptance-rate 0.7 (conditional), or --acceptance FILE; "
                f"--assume-acceptance {TYPICAL} takes what {drafter.mechanism} reached elsewhere"
            )
        profile = loaded.record
        if profile.target != model.name:
            found.note(
                "acceptance_of_base",
                f"acceptance measured on {profile.target}, of which {model.name} is a quantised copy",
            )
        found.inputs.setdefault("acceptance", Input(profile.name, "default"))
    curve = curve_at_context(profile.points, float(context))
    others = []
    if options.acceptance is None and curve is not None:
        others = _other_workloads(found.library, model, drafter, profile, float(context))
    source = f"{drafter.name}: acceptance as measured on {profile.data_set} ({profile.name})"
    if others and options.model is not None:
        source += f"; {len(others)} other data sets: `specdec profiles list {drafter.name} --kind acceptance`"
    found.note("acceptance_source", source)
    return (widened(curve, others) if curve is not None and others else curve), profile


def _typical(found: _Resolver, model: Model, drafter: Drafter) -> Acceptance:
    from specdec_cli.explore.typical import typical_acceptance  # reads all acceptance profiles

    typical = typical_acceptance(found.library, drafter.mechanism)
    if typical is None:
        raise UsageError(
            f"--assume-acceptance {TYPICAL}: no pair was measured with {drafter.mechanism}; give --acceptance-length "
            "1=1.7,3=2.4 or --acceptance-rate 0.7"
        )
    lengths = {str(d): round(one.median, 3) for d, one in typical.lengths.items()}
    earlier = found.inputs.get("acceptance")
    by_mechanism = {**(earlier.value["typical"] if earlier is not None else {}), drafter.mechanism: lengths}
    found.inputs["acceptance"] = Input({"typical": by_mechanism}, "option")
    found.note(
        "acceptance_assumed",
        f"acceptance of {drafter.name} on {model.name} is assumed: the median of {typical.pairs} measured "
        f"{drafter.mechanism} {'pair' if typical.pairs == 1 else 'pairs'}; measure your own before you rely on it",
    )
    return typical


def _other_workloads(
    library: Library, model: Model, drafter: Drafter, chosen: AcceptanceProfile, context: float
) -> list[AcceptanceCurve]:
    """The pair's curves on other data sets: what its acceptance may be on a workload that nobody measured."""
    profiles = [loaded.record for loaded in library.acceptance_for(model.name, drafter.name)]
    curves = [curve_at_context(p.points, context) for p in profiles if p.name != chosen.name]
    return [curve for curve in curves if curve is not None]


def _check_pair(found: _Resolver, profile: AcceptanceProfile, model: Model, drafter: Drafter) -> None:
    if profile.target != model.name or profile.drafter != drafter.name:
        found.note(
            "acceptance_pair",
            f"{profile.name} was measured with {profile.drafter} on {profile.target}, "
            f"not with {drafter.name} on {model.name}",
        )


def _draft_lengths(
    found: _Resolver,
    drafter: Drafter | None,
    acceptance: Acceptance | None,
    profile: AcceptanceProfile | None,
    defaults: Defaults,
) -> tuple[int, ...]:
    said = found.options.draft_lengths
    if said is not None:
        found.inputs["draft_lengths"] = Input(said, "option")
        lengths = parse_axis(said, "--draft-lengths", minimum=0)
        return lengths if drafter is not None else tuple(d for d in lengths if d == 0) or (0,)
    if drafter is None:
        return (0,)
    if acceptance is not None:
        largest = acceptance.largest_measured or defaults.assumed_draft_lengths
    else:
        largest = max(point.draft_length for point in profile.points) if profile else defaults.assumed_draft_lengths
    found.inputs.setdefault("draft_lengths", Input(f"0..{largest}", "default"))
    return tuple(range(largest + 1))


def parse_acceptance_lengths(text: str) -> dict[int, float]:
    """`1=1.91,3=2.83` -> {1: 1.91, 3: 2.83}.

    Raises:
        UsageError: not of that form, or a draft length named twice.
    """
    lengths: dict[int, float] = {}
    for part in text.split(","):
        left, _, right = part.partition("=")
        try:
            draft_length, value = int(left), float(right)
        except ValueError:
            raise UsageError(
                f"--acceptance-length: cannot read {part.strip()!r}; write draft length = acceptance length, "
                "as in 1=1.91,3=2.83"
            ) from None
        if draft_length in lengths:
            raise UsageError(f"--acceptance-length names draft length {draft_length} twice")
        lengths[draft_length] = value
    return lengths


def _remember(
    found: _Resolver, chips: Sequence[Hardware], model: Model, engine: Engine, scenarios: Sequence[Scenario]
) -> None:
    """Replace what the user wrote (aliases, files) by what it resolved to, and warn of what rests on little."""
    found.inputs["hardware"] = Input([chip.name for chip in chips], found.inputs["hardware"].origin)
    found.inputs["model"] = Input(model.name, found.inputs["model"].origin)
    found.inputs["engine"] = Input(engine.name, found.inputs["engine"].origin)
    for chip in chips:
        if not chip.fitted:
            found.note(
                "hardware_not_fitted",
                f"{chip.name} has no measured kernel tables; its kernel figures are taken over, so bands are wider",
            )
    if engine.fitted_sweeps < 3:
        found.note(
            "engine_few_sweeps",
            f"the overheads of {engine.name} rest on {engine.fitted_sweeps} published sweeps; bands are wider",
        )
