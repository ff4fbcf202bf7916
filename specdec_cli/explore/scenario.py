"""What is asked -> what is computed: options resolved against the library into scenarios, every default named."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeVar

from specdec_cli.errors import UsageError, did_you_mean
from specdec_cli.explore.acceptance_source import parse_acceptance_lengths, resolve_acceptance, resolve_draft_lengths
from specdec_cli.explore.axes import check_points, parse_axis
from specdec_cli.explore.layout_checks import check_layout
from specdec_cli.explore.question import (
    DEFAULTS,
    NO_DRAFTER,
    TYPICAL,
    Defaults,
    Input,
    Note,
    Options,
    Origin,
    Question,
    Resolver,
    Scenario,
)
from specdec_cli.explore.shapes import check_tree_options, remember_reach, resolve_tree
from specdec_cli.explore.uncertainty import time_band
from specdec_cli.physics.chip import check_domain, resolve_chip
from specdec_cli.physics.drafting import draft_plan
from specdec_cli.physics.layers import Layout, resolve_dtypes, target_operations
from specdec_cli.physics.memory import memory_bill
from specdec_cli.physics.serving import Workload
from specdec_cli.physics.step import StepModel
from specdec_cli.physics.trees import Tree
from specdec_cli.profiles.calibration import Calibration
from specdec_cli.profiles.library import IMPORTED, Library, Loaded
from specdec_cli.profiles.schema import Drafter, Engine, Hardware, KvDtype, Model, Profile, WeightDtype
from specdec_cli.profiles.search import SHIPPED
from specdec_cli.units import KV_BYTES, WEIGHT_BYTES

P = TypeVar("P", bound=Profile)

__all__ = [
    "DEFAULTS",
    "NO_DRAFTER",
    "TYPICAL",
    "Defaults",
    "Input",
    "Note",
    "Options",
    "Origin",
    "Question",
    "Scenario",
    "check_conflicts",
    "parse_acceptance_lengths",
    "resolve",
]


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
    found = Resolver(library, options)
    named = [
        library.hardware(name)
        for name in _names(found.pick("hardware", options.hardware, defaults.hardware), "--hardware")
    ]
    chips = [chip.record for chip in _distinct(named, "--hardware")]
    loaded = library.model(found.pick("model", options.model, defaults.model))
    model = loaded.record
    if loaded.origin == IMPORTED:
        found.note("model_imported", loaded.note)
    engine_read = library.engine(found.pick("engine", options.engine, _engine_of(chips) or defaults.engine))
    engine = engine_read.record
    read: list[Loaded[Any]] = [*named, loaded, engine_read]
    for profile in read:
        _say_where_from(found, profile)
    workload = _workload(found)
    if workload is None:
        context = found.pick("context", options.context, defaults.context)
    else:
        context = round(workload.context)
        found.inputs["context"] = Input(context, "option")
        _check_length(model, workload)
    _check_context(model, context)
    weight_dtype = _dtype("--weight-dtype", options.weight_dtype, WEIGHT_BYTES)
    kv_dtype = _dtype("--kv-dtype", options.kv_dtype, KV_BYTES)
    found.pick("weight_dtype", weight_dtype, model.dtypes.weights, "profile")
    found.pick("kv_dtype", kv_dtype, model.dtypes.kv, "profile")
    drafters = _drafters(found, model, context)
    tree = resolve_tree(found, drafters)
    layouts = _layouts(found)
    batches = parse_axis(found.pick("batches", options.batches, defaults.batches), "--batches", minimum=1)
    scenarios = [
        _scenario(
            found,
            hardware,
            engine,
            model,
            drafter,
            tree if drafter is not None else None,
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
    check_tree_options(options)
    if options.acceptance is not None and options.drafter is not None and "," in options.drafter:
        raise UsageError("--acceptance names one pair's measurements and conflicts with a list of drafters")


def _names(text: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UsageError(f"{option} holds an empty name: {text!r}")
    return list(dict.fromkeys(names))


def _distinct(named: Sequence[Loaded[P]], option: str) -> list[Loaded[P]]:
    """Each profile once, however it was spelled.

    Raises:
        UsageError: two files whose profiles have one name, so that the answer could not tell them apart.
    """
    by_name: dict[str, Loaded[P]] = {}
    for loaded in named:
        held = by_name.setdefault(loaded.record.name, loaded)
        if held.path != loaded.path:
            raise UsageError(
                f"{option}: two profiles are named `{loaded.record.name}` ({held.path} and {loaded.path}); rename one"
            )
    return list(by_name.values())


def _engine_of(chips: Sequence[Hardware]) -> str | None:
    """The engine that these chips are usually driven by, where it is not the default of all."""
    engines = {chip.default_engine for chip in chips}
    return engines.pop() if len(engines) == 1 else None


def _say_where_from(found: Resolver, loaded: Loaded[Any]) -> None:
    """A profile of the user's own is named with its file, and what cannot be right in it is said."""
    if loaded.origin in (SHIPPED, IMPORTED):
        return
    found.note("profile_from", f"{loaded.record.name} is read from {loaded.path}")
    from specdec_cli.profiles.plausible import doubts  # asked of the user's own profiles alone

    for doubt in doubts(loaded):
        found.note("implausible", str(doubt))


def _dtype(option: str, value: str | None, known: dict[str, float]) -> Any:
    if value is None or value in known:
        return value
    hint = did_you_mean(value, known)
    raise UsageError(f"{option} {value!r} is not known; {hint or 'known: ' + ', '.join(known)}")


def _workload(found: Resolver) -> Workload | None:
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


def _check_length(model: Model, workload: Workload) -> None:
    longest = workload.input_tokens + workload.output_tokens
    if longest > model.max_context:
        raise UsageError(
            f"--input-tokens {workload.input_tokens} and --output-tokens {workload.output_tokens} make {longest}, "
            f"more than {model.name} can hold ({model.max_context})"
        )


def _check_context(model: Model, context: int) -> None:
    if context < 1:
        raise UsageError(f"--context must be at least 1 token, got {context}")
    if context > model.max_context:
        raise UsageError(f"--context {context} exceeds what {model.name} can hold ({model.max_context} tokens)")


def _drafters(found: Resolver, model: Model, context: int) -> list[Drafter | None]:
    library, said = found.library, found.options.drafter
    if said is not None:
        names = _names(said, "--drafter")
        known = [library.drafter(name, target=model.name) for name in names if name != NO_DRAFTER]
        for loaded in known:
            _say_where_from(found, loaded)
            if loaded.origin == IMPORTED:
                found.note("drafter_imported", loaded.note)
        drafters: list[Drafter | None] = [loaded.record for loaded in _distinct(known, "--drafter")]
        if NO_DRAFTER in names:
            drafters.insert(names.index(NO_DRAFTER), None)
        found.inputs["drafter"] = Input([d.name if d else NO_DRAFTER for d in drafters], "option")
    else:
        loaded = _within_window(found, library.default_drafter(model.name), model, context)
        _say_where_from(found, loaded)
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


def _within_window(found: Resolver, default: Loaded[Drafter], model: Model, context: int) -> Loaded[Drafter]:
    """The default drafter, or the next with measured acceptance where the context passes the default's window."""

    def reaches(drafter: Drafter) -> bool:
        return drafter.window_tokens is None or context <= drafter.window_tokens

    if reaches(default.record) or found.options.assume:
        return default
    for other in found.library.drafters_for(model.name):
        known = found.library.default_acceptance(model.name, other.record.name) if reaches(other.record) else None
        if known is not None and other.record.targets:
            found.note(
                "drafter_within_window",
                f"{other.record.name} instead of {default.record.name}, which was trained on "
                f"{default.record.window_tokens} tokens of context; --drafter chooses, --assume trusts it further",
            )
            return other
    return default


def _layouts(found: Resolver) -> list[Layout]:
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
    found: Resolver,
    hardware: Hardware,
    engine: Engine,
    model: Model,
    drafter: Drafter | None,
    tree: Tree | None,
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
    check_layout(found, model, layout)
    plan = None
    if drafter is not None:
        draft = found.library.model(drafter.model, files=False).record if drafter.model is not None else None
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
    name = drafter.name if drafter is not None else NO_DRAFTER
    if name not in found.acceptances:
        found.acceptances[name] = resolve_acceptance(found, model, drafter, context, tree)
    acceptance, profile = found.acceptances[name]
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
        step=StepModel(
            chip, engine.overheads, tuple(operations), plan, layout.ranks, float(tree.topk) if tree is not None else 1.0
        ),
        memory=memory_bill(
            hardware, engine, model, operations, dtypes.lm_head, layout, plan, float(context), dtypes.kv
        ),
        acceptance=acceptance,
        acceptance_profile=profile,
        context=context,
        workload=workload,
        batches=batches,
        draft_lengths=resolve_draft_lengths(found, drafter, acceptance, profile, defaults, tree),
        beyond_window=beyond and not found.options.assume,
        band=time_band(hardware, engine, model),
        tree=tree,
        past_block=found.options.assume,
    )


def _remember(
    found: Resolver, chips: Sequence[Hardware], model: Model, engine: Engine, scenarios: Sequence[Scenario]
) -> None:
    """Replace what the user wrote (aliases, files) by what it resolved to, and warn of what rests on little."""
    found.inputs["hardware"] = Input([chip.name for chip in chips], found.inputs["hardware"].origin)
    found.inputs["model"] = Input(model.name, found.inputs["model"].origin)
    found.inputs["engine"] = Input(engine.name, found.inputs["engine"].origin)
    remember_reach(found, [max(one.draft_lengths) for one in scenarios])
    for chip in chips:
        if not chip.fitted:
            found.note(
                "hardware_not_fitted",
                f"{chip.name} has no measured kernel tables; its kernel figures are taken over, so bands are wider",
            )
    if engine.fitted_sweeps < 3:
        found.note(
            "engine_few_sweeps",
            f"the overheads of {engine.name} rest on few published sweeps ({engine.fitted_sweeps}); bands are wider",
        )
