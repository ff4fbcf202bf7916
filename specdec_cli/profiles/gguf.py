"""GGUF copies: a file mixes quantised formats, so its mean bits per weight picks the format that prices it."""

from __future__ import annotations

import msgspec

from specdec_cli.errors import UsageError
from specdec_cli.profiles.schema import Model, PartDtypes, WeightDtype
from specdec_cli.units import BITS_PER_BYTE, WEIGHT_BYTES

# Formats that llama.cpp stores and that the physics prices, the more common first where two are as wide.
FORMATS: tuple[WeightDtype, ...] = ("q4_k", "q5_k", "q6_k", "q8_0", "fp16", "fp32")
LEAST_BITS, MOST_BITS = 1.5, 34.0  # narrower than IQ1_S or wider than fp32 is a mistake, bytes for bits perhaps


def nearest_format(bits_per_weight: float) -> tuple[WeightDtype, float]:
    """The format whose stored width is nearest to a file's mean, and that width in bits.

    Nearest by ratio: a pass takes the time of its bytes. Raises UsageError for what cannot be a width.
    """
    if not LEAST_BITS <= bits_per_weight <= MOST_BITS:
        raise UsageError(
            f"{bits_per_weight:g} bits per weight is not a width of GGUF files ({LEAST_BITS:g} to {MOST_BITS:g}); "
            "it is 8 x the file's bytes / its parameters"
        )
    widths = {name: WEIGHT_BYTES[name] * BITS_PER_BYTE for name in FORMATS}
    nearest = min(FORMATS, key=lambda name: max(widths[name] / bits_per_weight, bits_per_weight / widths[name]))
    return nearest, widths[nearest]


def as_gguf(model: Model, bits_per_weight: float, said_by: str) -> Model:
    """The model with every part in the GGUF format nearest to a file's mean width; the assumption says how near.

    said_by: where the width comes from. llama.cpp keeps the KV cache in 16 bits unless told otherwise.
    """
    nearest, width = nearest_format(bits_per_weight)
    off = width / bits_per_weight - 1
    assumption = (
        f"GGUF of {bits_per_weight:.2f} bits per weight ({said_by}): every part taken as {nearest}, {width:g} bits, "
        f"{abs(off):.0%} {'more' if off >= 0 else 'fewer'} bytes than the file has."
    )
    return msgspec.structs.replace(
        model,
        dtypes=PartDtypes(weights=nearest, kv=model.dtypes.kv),
        assumptions=[text for text in model.assumptions if not text.startswith("lm_head is")] + [assumption],
    )
