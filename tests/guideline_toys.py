"""A toy chip, operations and choices whose guidelines are worked out by hand."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from specdec_cli.explore.guideline_mechanisms import MechanismOption
from specdec_cli.explore.guideline_records import AttentionGroup, Choice, Guideline, LinearGroup

# Toy chip: 1e12 FLOP/s, 1e11 B/s: ridge 10 FLOP per byte.
P, BETA = 1e12, 1e11
LINEAR = LinearGroup("qkv", 0.6, 1.0, 4096, 4096, 2.0, 2.0, P, BETA)
GQA = AttentionGroup("attention", 0.6, 8, 128, 2.0, 70.0)
MLA = AttentionGroup("mla", 0.7, 128, 128, 2.0, 107.0, is_mla=True)


def make_choice(
    draft_length: int = 3,
    *,
    batch: int = 1,
    al: Sequence[float] = (1.0, 1.7, 2.2, 2.5, 2.6, 2.65, 2.68, 2.69, 2.695),
    verify_ms: Callable[[int], float] = lambda d: 10.0 + (1.0 + 0.2 * d if d else 0.0),
    draft_ms: Callable[[int], float] = lambda d: 0.5 * d,
    **changes: Any,
) -> Choice:
    """Target step 10 ms; verify 11 ms + 0.2 ms per D; 0.5 ms a draft pass: speedups 1.45, 1.77, 1.91, 1.88, ..."""
    lengths = range(len(al))
    fields: dict[str, Any] = {
        "batch": batch,
        "draft_length": draft_length,
        "acceptance_length": al,
        "verify_s": [verify_ms(d) * 1e-3 for d in lengths],
        "draft_s": [draft_ms(d) * 1e-3 for d in lengths],
        "target_s": 10e-3,
        "launch_share": 0.3,
        "draft_layers": 1,
        "target_layers": 32,
        "sequential": True,
    }
    return Choice(**{**fields, **changes})


def growing(last: int, rate: float = 0.999) -> list[float]:
    """AL by D at a constant conditional acceptance rate."""
    return [math.fsum(rate**i for i in range(d + 1)) for d in range(last + 1)]


def flat(value: Any) -> Iterable[Any]:
    if isinstance(value, list):
        for item in value:
            yield from flat(item)
    else:
        yield value


def assert_numbers_back_the_sentence(guideline: Guideline) -> None:
    """Read the sentence as a person does: each number in it is one of `numbers`, as printed there or in percent."""
    values = list(flat(list(guideline.numbers.values())))
    text = guideline.why
    for name in sorted((v for v in values if isinstance(v, str)), key=len, reverse=True):
        text = text.replace(name, " ") if name else text
    known = [float(v) for v in values if isinstance(v, int | float)]
    found = re.findall(r"(?<![\w.])([-+]?\d+(?:\.(\d+))?)( %)?", text)
    assert found, guideline.why
    for token, decimals, percent in found:
        printed = float(token) / (100 if percent else 1)
        slack = 0.5 * 10.0 ** -len(decimals) / (100 if percent else 1) * (1 + 1e-6)
        assert any(abs(value - printed) <= slack for value in known), f"{token}{percent} in: {guideline.why}"


def assert_sound(guideline: Guideline) -> None:
    assert_numbers_back_the_sentence(guideline)
    json.dumps(guideline.numbers, allow_nan=False)
    json.dumps(guideline.suggests, allow_nan=False)
    assert guideline.applies == (guideline.verdict != "not_applicable")
    if not guideline.applies:
        assert guideline.suggests is None


def option(
    drafter: str, mechanism: str, al: float, verify_ms: float, draft_ms: float, **changes: Any
) -> MechanismOption:
    """At a target step of 10 ms."""
    fields: dict[str, Any] = {
        "drafter": drafter,
        "mechanism": mechanism,
        "best_draft_length": 3,
        "acceptance_length": al,
        "draft_s": draft_ms * 1e-3,
        "verify_s": verify_ms * 1e-3,
        "speedup": al * 10 / (verify_ms + draft_ms),
        "memory_bytes": 2e9,
        "training": "",
    }
    return MechanismOption(**{**fields, **changes})


EAGLE3 = option("head", "eagle3", 2.44, 11.9, 0.942)
DRAFT_MODEL = option("small", "draft_model", 2.44, 11.9, 3.35)
