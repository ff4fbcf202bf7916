"""The library as records: a line for each profile, and one profile whole with the source of every number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from specdec_cli import __version__
from specdec_cli.profiles.calibration import Calibration
from specdec_cli.profiles.checks import source_key
from specdec_cli.profiles.library import Loaded
from specdec_cli.profiles.measurement import Measurement
from specdec_cli.profiles.parameters import (
    active_parameters,
    count_parameters,
    kv_bytes_per_token,
    recurrent_state_bytes,
)
from specdec_cli.profiles.schema import AcceptanceProfile, Drafter, Engine, Hardware, Model, Profile
from specdec_cli.profiles.yaml_reader import append
from specdec_cli.units import GIGA, KILO, MEGA, TERA

if TYPE_CHECKING:
    from specdec_cli.report.contract import library as contract

Record = dict[str, Any]

LISTING: Final = "specdec.profiles/1"
PROFILE: Final = "specdec.profile/1"


def listing_record(
    profiles: Sequence[Loaded[Any]], *, problems: Sequence[str], not_listed: Mapping[str, int]
) -> Record:
    """`specdec.profiles/1`: a summary of each profile, keys by kind.

    problems: what is wrong with files that do not load. not_listed: kinds left out, with their number of profiles.
    """
    answer: contract.ListingAnswer = {
        "schema": LISTING,
        "specdec_version": __version__,
        "profiles": [summary(profile) for profile in profiles],
        "not_listed": dict(not_listed),
        "problems": list(problems),
    }
    return cast(Record, answer)


def summary(loaded: Loaded[Any]) -> contract.Summary:
    """One line about a profile: its kind, name, origin, and what one chooses it by."""
    record = loaded.record
    head = {"kind": kind_of(record), "name": record.name, "origin": loaded.origin}
    facts: contract.Facts
    match record:
        case Hardware():
            facts = _hardware(record)
        case Model():
            facts = _model(record)
        case Drafter():
            facts = {
                "mechanism": record.mechanism,
                "targets": list(record.targets),
                "parameters_m": record.parameters_m,
                "window_tokens": record.window_tokens,
            }
        case AcceptanceProfile():
            facts = _acceptance(record)
        case Engine():
            facts = {
                "family": record.family,
                "version": record.version,
                "date": record.date,
                "fitted_sweeps": record.fitted_sweeps,
            }
        case Measurement():
            facts = {
                "tier": record.tier,
                "published": record.published,
                "setups": len(record.setups),
                "points": sum(len(setup.points) for setup in record.setups),
                "measured_on": sorted({setup.hardware for setup in record.setups}),
                "models": sorted({setup.model for setup in record.setups}),
            }
        case Calibration():
            facts = {
                "measured_on": record.scenario.hardware,
                "tp": record.scenario.tp,
                "model": record.scenario.model,
                "drafter": record.scenario.drafter,
                "engine": record.scenario.engine,
                "method": record.method,
                "rows": len(record.rows),
                "worst_error": record.errors.worst if record.errors is not None else None,
            }
        case _:
            raise TypeError(f"no summary for {type(record).__name__}")
    return cast("contract.Summary", {**head, **facts, **_age(record)})


def _age(record: Profile) -> contract.Age:
    """How the figures of a profile came about, the most frequent way first, and when they were last looked at."""
    kinds = Counter(source.kind for source in record.sources.values())
    return {
        "source_kinds": [kind for kind, _ in kinds.most_common()],
        "checked": max((source.checked for source in record.sources.values()), default=None),
    }


def kind_of(record: Any) -> contract.Kind:
    """The `kind:` of a profile."""
    return cast("contract.Kind", type(record).__struct_config__.tag)


def _hardware(record: Hardware) -> contract.HardwareFacts:
    peaks = record.peak_tflops
    beta = record.memory_bandwidth_gb_per_s * GIGA
    return {
        "vendor": record.vendor,
        "memory_gb": record.memory_gb,
        "memory_bandwidth_gb_per_s": record.memory_bandwidth_gb_per_s,
        "peak_bf16_tflops": peaks.get("bf16"),
        "peak_fp8_tflops": peaks.get("fp8"),
        "peak_fp4_tflops": peaks.get("fp4"),
        "ridge_bf16_flop_per_byte": peaks["bf16"] * TERA / beta if "bf16" in peaks else None,
        "link_gb_per_s": record.link.gb_per_s,
        "link_gpus": record.link.domain_gpus,
        "kernels_fitted": record.fitted,
        "confidence": record.confidence,
    }


def _model(record: Model) -> contract.ModelFacts:
    return {
        "maker": record.maker,
        "parameters_b": count_parameters(record).total / GIGA,
        "active_parameters_b": active_parameters(record) / GIGA,
        "layers": sum(block.repeat for block in record.blocks),
        "kv_kb_per_token": kv_bytes_per_token(record) / KILO,
        "state_mb_per_request": recurrent_state_bytes(record) / MEGA,
        "weight_dtype": record.dtypes.weights,
        "mtp_layers": record.mtp.layers if record.mtp is not None else 0,
        "max_context_tokens": record.max_context,
    }


def _acceptance(record: AcceptanceProfile) -> contract.AcceptanceFacts:
    lengths = [p.acceptance_length for p in record.points if p.acceptance_length is not None]
    return {
        "target": record.target,
        "drafter": record.drafter,
        "data_set": record.data_set,
        "draft_lengths": sorted({p.draft_length for p in record.points}),
        "acceptance_length_min": min(lengths, default=None),
        "acceptance_length_max": max(lengths, default=None),
        "temperature": record.temperature,
        "measured_by": record.measured_by,
        "default": record.default,
    }


def profile_record(loaded: Loaded[Any], *, also_kinds: Sequence[str] = ()) -> Record:
    """`specdec.profile/1`: the facts as the file states them, what follows from them, every source.

    also_kinds: further kinds that have a profile of this name.
    """
    data = {str(key): value for key, value in loaded.document.data.items() if key != "sources"}
    computed = {
        key: value for key, value in summary(loaded).items() if key not in data and key not in ("origin", "kind")
    }
    answer: contract.ProfileAnswer = {
        "schema": PROFILE,
        "specdec_version": __version__,
        "kind": kind_of(loaded.record),
        "name": loaded.record.name,
        "origin": loaded.origin,
        "file": str(loaded.path),
        "also_kinds": cast("list[contract.Kind]", list(also_kinds)),
        "profile": data,
        "computed": computed,
        "sources": source_records(loaded),
    }
    return cast(Record, answer)


def source_records(loaded: Loaded[Any]) -> list[contract.SourceRecord]:
    """Every entry of `sources`, with the keys whose values it covers; a number without one stands under null."""
    sources = loaded.record.sources
    covered: dict[str | None, list[str]] = {name: [] for name in sources}
    for key, value in _leaves(loaded.document.data):
        name = source_key(sources, key)
        if name is not None or (isinstance(value, int | float) and not isinstance(value, bool)):
            covered.setdefault(name, []).append(key)
    records: list[contract.SourceRecord] = []
    for name, keys in covered.items():
        source = sources[name] if name is not None else None
        records.append(
            {
                "entry": name,
                "keys": keys,
                "from": source.from_ if source else None,
                "checked": source.checked if source else None,
                "kind": source.kind if source else None,
                "note": source.note if source else None,
            }
        )
    return records


UNSOURCED = ("format", "kind", "name", "sources")


def _leaves(data: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if key not in UNSOURCED:
            yield from _below(append("", key), value)


def _below(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _below(append(place, str(key)), item)
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for at, item in enumerate(value):
            yield from _below(append(place, at), item)
    else:
        yield place, value
