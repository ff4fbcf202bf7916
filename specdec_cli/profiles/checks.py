"""What one key of a profile asks of another: the checks that types cannot state.

Each function takes a record that already fits its types and yields what is wrong with it; the loader adds file and
line. `sources` is checked against the file itself, since defaults and inherited kernels carry no source of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any

from specdec_cli.errors import did_you_mean
from specdec_cli.profiles.calibration import Calibration
from specdec_cli.profiles.convert import Problem
from specdec_cli.profiles.measurement import MeasuredPoint, Measurement, Setup
from specdec_cli.profiles.schema import (
    AcceptancePoint,
    AcceptanceProfile,
    CompressedAttention,
    Drafter,
    Engine,
    GatedDelta,
    Gqa,
    Hardware,
    Mamba2,
    Model,
    MoeFfn,
    Profile,
)
from specdec_cli.profiles.yaml_reader import KeyPath, append

READS_FORMAT = 1

ROUNDING = 0.005
"""Published per-position rates are rounded to two decimals: neighbours may seem to rise by half of the last."""
AL_TOLERANCE = 0.05
"""How far 1 + sum a_i may lie from the AL printed beside it: both are rounded, one of them often to one decimal."""

HEAD_MECHANISMS = ("eagle", "eagle3", "dflash", "dspark", "p_eagle", "pard", "medusa")
BLOCK_MECHANISMS = ("dflash", "dspark")
ANY_TARGET = ("ngram", "suffix", "self")
NEEDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(HEAD_MECHANISMS, ("head",)),
    **dict.fromkeys(BLOCK_MECHANISMS, ("head", "block")),
    "draft_model": ("model",),
    "self": ("kv_window_tokens",),
}
"""Keys that a mechanism cannot be computed without."""
REFUSES: dict[str, tuple[str, ...]] = {
    "draft_model": ("head", "block"),
    "self": ("head", "model", "block"),
    "ngram": ("head", "model", "block"),
    "suffix": ("head", "model", "block"),
    **dict.fromkeys(HEAD_MECHANISMS, ("model",)),
    "mtp": ("model",),
}
"""Keys that would be read by nothing."""


def check_sources(data: Mapping[str | int, Any], profile: Profile) -> Iterator[Problem]:
    """Every number has a source, every source a key and a real date."""
    body = {key: value for key, value in data.items() if key not in ("format", "sources")}
    sources = profile.sources
    covering: set[str] = set()
    uncovered: list[str] = []
    for key, value, covered in _walk("", body, sources, "*" in sources):
        if key in sources:
            covering.add(key)
        if not covered and isinstance(value, int | float) and not isinstance(value, bool):
            uncovered.append(key)
    for name, source in sources.items():
        here = ("sources", name)
        if name != "*" and name not in covering:
            known = [key for key, _, _ in _walk("", body, sources, True)]
            hint = did_you_mean(name, known) or "a source names a key of this file, a prefix of keys, or *"
            yield Problem(here, f"no key `{name}` in this file", hint)
        if not source.from_.strip():
            yield Problem((*here, "from"), "expected where the number comes from, found an empty text")
        if not _is_date(source.checked):
            yield Problem((*here, "checked"), f"expected a date, found `{source.checked}`", "write YYYY-MM-DD")
    for key in uncovered:
        yield Problem(("sources",), f"no source for the number `{key}`", f"add `{key}` or a prefix of it")


def _walk(here: str, value: Any, sources: Mapping[str, Any], covered: bool) -> Iterator[tuple[str, Any, bool]]:
    """(dotted key, value, whether a source covers it) of everything under `value`, itself included."""
    if here:
        covered = covered or here in sources
        yield here, value, covered
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _walk(append(here, str(name)), item, sources, covered)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(append(here, index), item, sources, covered)


def source_key(sources: Mapping[str, Any], key: str) -> str | None:
    """The entry of `sources` that covers a dotted key: itself, else its longest prefix, else `*`; None: not covered."""
    while key:
        if key in sources:
            return key
        # `points[2].draft_length` -> `points[2]` -> `points`
        key = key[: max(key.rfind("."), key.rfind("["), 0)]
    return "*" if "*" in sources else None


def _is_date(text: str, pattern: str = r"\d{4}-\d{2}-\d{2}") -> bool:
    if not re.fullmatch(pattern, text):
        return False
    try:
        date.fromisoformat(text if len(text) == 10 else f"{text}-01")
    except ValueError:
        return False
    return True


def check_hardware(profile: Hardware) -> Iterator[Problem]:
    """Kernels compute at peaks that the chip has; sizes and links make sense."""
    label_bytes = profile.memory_gb * 1e9
    # A label in GiB reads 7 % low; a system that shares its memory may hand out little over half.
    if not 0.5 <= profile.memory_bytes / label_bytes <= 1.1:
        message = f"expected about memory_gb = {profile.memory_gb:g} GB in bytes, found {profile.memory_bytes:g}"
        yield Problem(("memory_bytes",), message, f"{profile.memory_gb:g} GB is {label_bytes:.3e} bytes")
    if "bf16" not in profile.peak_tflops:
        yield Problem(("peak_tflops",), "missing key `bf16`", "attention is held against the bf16 peak")
    if profile.link.peer_gb_per_s > profile.link.gb_per_s:
        message = f"expected at most gb_per_s = {profile.link.gb_per_s:g}, found {profile.link.peer_gb_per_s:g}"
        yield Problem(("link", "peer_gb_per_s"), message)
    if (profile.price_usd_per_hour is None) != (profile.price_checked is None):
        here, other = "price_usd_per_hour", "price_checked"
        if profile.price_usd_per_hour is None:
            here, other = other, here
        yield Problem((here,), f"expected `{other}` beside it", "a price needs the day on which it was seen")
    if profile.price_checked is not None and not _is_date(profile.price_checked):
        message = f"expected a date, found `{profile.price_checked}`"
        yield Problem(("price_checked",), message, "write YYYY-MM-DD")
    if "default" not in profile.kernels:
        yield Problem(("kernels",), "missing key `default`", "every engine without an entry of its own reads it")
    for engine, kernels in profile.kernels.items():
        tables = (("gemm", kernels.gemm), ("moe", kernels.moe))
        held = [((name, dtype), kernel) for name, table in tables for dtype, kernel in table.items()]
        tiles = [(("gemm", dtype, "tile"), kernel.tile) for dtype, kernel in kernels.gemm.items() if kernel.tile]
        for place, figures in (*held, *tiles):
            if figures.compute not in profile.peak_tflops:
                yield Problem(
                    ("kernels", engine, *place, "compute"),
                    f"expected a dtype with a peak in peak_tflops ({', '.join(profile.peak_tflops)}), "
                    f"found {figures.compute}",
                    "weight-only kernels compute in bf16",
                )
        for gpus in kernels.all_reduce:
            if gpus < 2:
                yield Problem(("kernels", engine, "all_reduce", str(gpus)), f"expected 2 or more GPUs, found {gpus}")


def check_model(profile: Model) -> Iterator[Problem]:
    """Blocks name layers that exist, every layer is used, and heads divide."""
    if not profile.blocks:
        yield Problem(("blocks",), "expected at least 1 entry, found an empty list")
    users: list[tuple[KeyPath, Any]] = [(("blocks", index), block) for index, block in enumerate(profile.blocks)]
    if profile.mtp is not None:
        users.append((("mtp",), profile.mtp))
    for part, known in (("attention", list(profile.attention)), ("ffn", list(profile.ffn))):
        used = {getattr(user, part) for _, user in users}
        for here, user in users:
            name = getattr(user, part)
            if name is not None and name not in known:
                hint = did_you_mean(name, known) or f"`{part}` holds {', '.join(known) or 'nothing'}"
                yield Problem((*here, part), f"no entry `{name}` in `{part}`", hint)
        for name in known:
            if name not in used:
                yield Problem((part, name), "no block uses it", "name it in a block, or remove it")
    for name, attention in profile.attention.items():
        here = ("attention", name)
        if isinstance(attention, Gqa):
            yield from _divides(here, "kv_heads", attention.kv_heads, "heads", attention.heads)
        elif isinstance(attention, CompressedAttention):
            yield from _divides(here, "o_groups", attention.o_groups, "heads", attention.heads)
            if attention.ratio is None and (attention.indexer is not None or attention.overlap):
                part = "indexer" if attention.indexer is not None else "overlap"
                yield Problem((*here, part), "there are no entries without a `ratio`", "add `ratio`, or remove it")
        elif isinstance(attention, GatedDelta):
            yield from _divides(here, "key_heads", attention.key_heads, "value_heads", attention.value_heads)
        elif isinstance(attention, Mamba2):
            yield from _divides(here, "groups", attention.groups, "heads", attention.heads)
    for name, ffn in profile.ffn.items():
        if isinstance(ffn, MoeFfn):
            yield from _top_k(("ffn", name), ffn)


def _divides(here: KeyPath, part: str, small: int, whole: str, large: int) -> Iterator[Problem]:
    if small > large or large % small:
        message = f"expected a divisor of {whole} = {large}, found {small}"
        yield Problem((*here, part), message, f"each of the {part} serves the same number of {whole}")


def _top_k(here: KeyPath, ffn: MoeFfn) -> Iterator[Problem]:
    if ffn.top_k > ffn.experts:
        yield Problem((*here, "top_k"), f"expected at most experts = {ffn.experts}, found {ffn.top_k}")


def check_drafter(profile: Drafter) -> Iterator[Problem]:
    """The mechanism has the keys that it needs and none that nothing reads."""
    mechanism = profile.mechanism
    for name in NEEDS.get(mechanism, ()):
        if getattr(profile, name) is None:
            yield Problem((), f"missing key `{name}`", f"mechanism {mechanism} needs {', '.join(NEEDS[mechanism])}")
    for name in REFUSES.get(mechanism, ()):
        if getattr(profile, name) is not None:
            yield Problem((name,), f"mechanism {mechanism} does not read `{name}`", "remove it")
    if not profile.targets and mechanism not in ANY_TARGET:
        hint = f"only {', '.join(ANY_TARGET)} draft for any model"
        yield Problem(("targets",), f"expected the models that this {mechanism} drafts for, found none", hint)
    head = profile.head
    if head is None:
        return
    if head.heads or head.kv_heads:
        if head.kv_heads:
            yield from _divides(("head",), "kv_heads", head.kv_heads, "heads", head.heads)
        else:
            yield Problem(("head", "kv_heads"), f"expected a divisor of heads = {head.heads}, found 0")
        if not head.head_dim:
            yield Problem(("head", "head_dim"), f"expected the width of each of {head.heads} heads, found 0")
    if mechanism == "medusa" and not head.parallel_heads:
        yield Problem(("head",), "missing key `parallel_heads`", "medusa drafts one token with each parallel head")
    if head.ffn is not None:
        yield from _top_k(("head", "ffn"), head.ffn)


def check_acceptance(profile: AcceptanceProfile) -> Iterator[Problem]:
    """1 <= AL <= 1 + D, rates that fall and add up, no point twice."""
    seen: dict[tuple[int, int | None, int | None], int] = {}
    for index, point in enumerate(profile.points):
        yield from _check_point(("points", index), point)
        identity = (point.draft_length, point.context_tokens, point.verify_width)
        first = seen.setdefault(identity, index)
        if first != index:
            yield Problem(
                ("points", index),
                f"draft length {point.draft_length} is given twice at the same context and verify width "
                f"(points[{first}] too)",
                "give each workload a profile of its own",
            )


def _check_point(here: KeyPath, point: AcceptancePoint) -> Iterator[Problem]:
    length, rates, drafted = point.acceptance_length, point.per_position, point.draft_length
    if length is None and rates is None:
        yield Problem(here, "missing key `acceptance_length`", "a point holds acceptance_length, per_position or both")
    if length is not None and length > 1 + drafted:
        message = f"expected an acceptance length of at most 1 + D = {1 + drafted}, found {length:g}"
        yield Problem((*here, "acceptance_length"), message, "AL counts D accepted tokens at most, and the bonus token")
    if point.verify_width is not None and point.verify_width < 1 + drafted:
        message = f"expected at least 1 + D = {1 + drafted} nodes, found {point.verify_width}"
        yield Problem((*here, "verify_width"), message)
    if rates is None:
        return
    place = (*here, "per_position")
    if point.per_position_kind is None:
        yield Problem(here, "missing key `per_position_kind`", "per_position is measured or derived")
    if len(rates) != drafted:
        yield Problem(place, f"expected draft_length = {drafted} rates, found {len(rates)}")
    # Rates derived from the AL of separate runs carry the noise of both; only counted ones must fall and add up.
    if point.per_position_kind != "measured":
        return
    for index in range(1, len(rates)):
        if rates[index] > rates[index - 1] + ROUNDING:
            message = f"expected at most the rate before it, {rates[index - 1]:g}, found {rates[index]:g}"
            hint = "per_position is unconditional: the share of steps in which positions 1..i were all accepted"
            yield Problem((*place, index), message, hint)
    total = 1 + sum(rates)
    if length is not None and len(rates) == drafted and abs(total - length) > AL_TOLERANCE:
        message = f"expected rates that add up to the acceptance length: 1 + sum = {total:.3f}, found {length:g}"
        yield Problem(place, message, "per_position is unconditional; derived rates say per_position_kind: derived")


def check_engine(profile: Engine) -> Iterator[Problem]:
    """The date is one."""
    if not _is_date(profile.date, r"\d{4}-\d{2}(-\d{2})?"):
        yield Problem(("date",), f"expected a month, found `{profile.date}`", "write YYYY-MM")


def check_measurement(profile: Measurement) -> Iterator[Problem]:
    """Setups have names of their own, points say what their ratios are made of, and 1 <= AL <= 1 + D."""
    if not re.fullmatch(r"\d{4}", profile.published) and not _is_date(profile.published, r"\d{4}-\d{2}(-\d{2})?"):
        yield Problem(("published",), f"expected a year, month or day, found `{profile.published}`", "write YYYY-MM")
    seen: dict[str, int] = {}
    for index, setup in enumerate(profile.setups):
        here: KeyPath = ("setups", index)
        first = seen.setdefault(setup.id, index)
        if first != index:
            yield Problem((*here, "id"), f"`{setup.id}` is the id of setups[{first}] too", "ids are unique in a file")
        yield from _check_setup(here, setup)


def _check_setup(here: KeyPath, setup: Setup) -> Iterator[Problem]:
    for part, size in (("tp", setup.tp), ("ep", setup.ep)):
        yield from _divides(here, part, size, "gpus", setup.gpus)
    if (setup.input_tokens is None) != (setup.output_tokens is None):
        said, other = ("input_tokens", "output_tokens")[:: 1 if setup.output_tokens is None else -1]
        yield Problem((*here, said), f"expected `{other}` beside it", "a serving run has both")
    known = (*setup.__struct_fields__, *MeasuredPoint.__struct_fields__)
    for name in setup.assumptions:
        if name not in known:
            yield Problem(
                (*here, "assumptions", name), f"no field `{name}` in a setup or a point", did_you_mean(name, known)
            )
    for index, point in enumerate(setup.points):
        yield from _check_measured((*here, "points", index), point, setup)


def _check_measured(here: KeyPath, point: MeasuredPoint, setup: Setup) -> Iterator[Problem]:
    if (point.speedup is None) != (point.speedup_kind is None):
        said, other = ("speedup", "speedup_kind")[:: 1 if point.speedup_kind is None else -1]
        yield Problem((*here, said), f"expected `{other}` beside it", "a ratio of steps, of TPOT or of throughputs")
    if point.draft_length and setup.drafter is None and point.verify_ms is None:
        message = f"expected a drafter in the setup, for draft length {point.draft_length}"
        yield Problem((*here, "draft_length"), message, "only verify times can stand without one")
    length = point.acceptance_length
    if length is not None and length > 1 + point.draft_length:
        message = f"expected an acceptance length of at most 1 + D = {1 + point.draft_length}, found {length:g}"
        yield Problem((*here, "acceptance_length"), message)
    known = [name for name in point.__struct_fields__ if name not in ("derived", "note")]
    for index, name in enumerate(point.derived):
        if name not in known:
            yield Problem((*here, "derived", index), f"no field `{name}` in a point", did_you_mean(name, known))
        elif getattr(point, name) is None:
            yield Problem((*here, "derived", index), f"`{name}` is not given", "name a field that this point holds")


def check_calibration(profile: Calibration) -> Iterator[Problem]:
    """Ranges rise, the method has what it needs, and a batch's correction starts at D = 0 without a gap."""
    for name in ("batch", "draft_length", "context_tokens"):
        low, high = getattr(profile.valid, name)
        if low > high:
            yield Problem(("valid", name), f"expected smallest, largest, found {low:g}, {high:g}")
    needs = {"line": "correction", "curve": "verify_curve"}.get(profile.method)
    if needs is not None and not getattr(profile, needs):
        yield Problem(("method",), f"expected `{needs}` beside method `{profile.method}`")
    widths = [point.tokens for point in profile.verify_curve]
    if widths != sorted(set(widths)):
        yield Problem(("verify_curve",), "expected rising numbers of tokens, each once")
    by_batch: dict[float, list[int]] = {}
    for point in profile.correction:
        by_batch.setdefault(point.batch, []).append(point.draft_length)
    for batch, lengths in by_batch.items():
        if lengths != list(range(len(lengths))):
            yield Problem(("correction",), f"expected draft lengths 0, 1, 2, ... at batch {batch:g}, found {lengths}")
    for index, row in enumerate(profile.rows):
        length = row.acceptance_length
        if length is not None and length > 1 + row.draft_length:
            message = f"expected an acceptance length of at most 1 + D = {1 + row.draft_length}, found {length:g}"
            yield Problem(("rows", index, "acceptance_length"), message)


CHECKS: dict[str, Callable[[Any], Iterator[Problem]]] = {
    "hardware": check_hardware,
    "model": check_model,
    "drafter": check_drafter,
    "acceptance": check_acceptance,
    "engine": check_engine,
    "measurement": check_measurement,
    "calibration": check_calibration,
}
