"""Figures that cannot be right: a slip of units, a size that does not give the count beside it.

The limits are wide: what lies outside is a mistake, not a rare machine. Profiles that load are held against them by
`specdec profiles check`; loading alone does not ask.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from specdec_cli.errors import ProfileError
from specdec_cli.profiles.convert import Problem
from specdec_cli.profiles.draft_parameters import drafter_parameters_m
from specdec_cli.profiles.load import Loaded, check_file, load_file
from specdec_cli.profiles.parameters import count_parameters
from specdec_cli.profiles.schema import Drafter, Hardware, Model
from specdec_cli.units import GIGA, MEGA, TERA

COUNT_TOLERANCE = 0.01
"""How far a computed parameter count may lie from an exact one."""
PRINTED_TOLERANCE = 0.1
"""The same, from a count as its maker prints it, beyond that count's last digit: gpt-oss-120b has 116.8, Llama-3.2-1B
1.24."""

BANDWIDTH_GB_PER_S = (10.0, 50_000.0)
"""From what one core reads of a desktop's DDR4 to twice the announced HBM4."""
MEMORY_GB = (2.0, 4096.0)
RIDGE = (2.0, 2000.0)
"""bf16 FLOP per byte; one core of a CPU has 5; chips without tensor cores to tensor cores on a notebook's memory it
is 20 to 1000."""

_COUNTS = {"K": 1e3, "M": MEGA, "B": GIGA, "T": TERA}


def check_profile(path: Path | str) -> list[ProfileError]:
    """Everything wrong with a profile file, in the order of its lines; empty: it loads and its figures can be."""
    errors = check_file(path)
    if not errors:
        errors = doubts(load_file(path))
    return sorted(errors, key=lambda error: error.line or 0)


def doubts(loaded: Loaded[Any]) -> list[ProfileError]:
    """What cannot be right in a profile that loads."""
    kind = str(loaded.record.__struct_config__.tag)
    return [problem.error(loaded.document) for problem in _PLAUSIBLE.get(kind, _nothing)(loaded.record)]


def _nothing(_: Any) -> Iterator[Problem]:
    return iter(())


def _hardware(profile: Hardware) -> Iterator[Problem]:
    bandwidth, memory = profile.memory_bandwidth_gb_per_s, profile.memory_gb
    for key, value, limits, hint in (
        ("memory_bandwidth_gb_per_s", bandwidth, BANDWIDTH_GB_PER_S, "GB/s: 3.35 TB/s is 3350.0"),
        ("memory_gb", memory, MEMORY_GB, "GB"),
    ):
        if not limits[0] <= value <= limits[1]:
            yield Problem((key,), f"expected {limits[0]:g} to {limits[1]:g}, found {value:g}", hint)
    peak = profile.peak_tflops["bf16"]
    ridge = peak * TERA / (bandwidth * GIGA)
    if not RIDGE[0] <= ridge <= RIDGE[1]:
        message = f"expected a peak of {RIDGE[0]:g} to {RIDGE[1]:g} FLOP for each byte of bandwidth, found {ridge:.3g}"
        yield Problem(("peak_tflops", "bf16"), message, "peaks in 1e12 FLOP/s, bandwidth in GB/s")
    if profile.link.domain_gpus > 1 and profile.link.gb_per_s > bandwidth:
        message = f"expected a link slower than the memory ({bandwidth:g} GB/s), found {profile.link.gb_per_s:g}"
        yield Problem(("link", "gb_per_s"), message, "GB/s, not Gbit/s")


def _model(profile: Model) -> Iterator[Problem]:
    total = count_parameters(profile).total
    exact = profile.parameters.total_b
    if exact is not None and abs(total / GIGA / exact - 1) > COUNT_TOLERANCE:
        yield Problem(("parameters", "total_b"), *_differs(f"{total / GIGA:.3f}e9", f"{exact:g}e9", "model"))
    printed = profile.parameters.published_total
    if printed is None:
        return
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([KMBT])", printed)
    if match is None:
        yield Problem(("parameters", "published_total"), f"expected a count such as 8B, found `{printed}`")
        return
    unit = _COUNTS[match[2]]
    off = abs(total - float(match[1]) * unit)
    last_digit = unit * 10.0 ** -len(match[1].partition(".")[2])
    if off >= last_digit and off > PRINTED_TOLERANCE * float(match[1]) * unit:
        yield Problem(("parameters", "published_total"), *_differs(f"{total / GIGA:.3f}e9", printed, "model"))


def _drafter(profile: Drafter) -> Iterator[Problem]:
    stated, computed = profile.parameters_m, drafter_parameters_m(profile)
    if stated is not None and computed is not None and abs(computed / stated - 1) > COUNT_TOLERANCE:
        yield Problem(("parameters_m",), *_differs(f"{computed:.2f}e6", f"{stated:g}e6", "head"))


def _differs(computed: str, stated: str, what: str) -> tuple[str, str]:
    return (
        f"the sizes of this {what} give {computed} parameters, the file says {stated}",
        "one of the sizes is wrong, or the count is of another checkpoint",
    )


_PLAUSIBLE: dict[str, Callable[[Any], Iterator[Problem]]] = {
    "hardware": _hardware,
    "model": _model,
    "drafter": _drafter,
}
