"""Short texts: vLLM's offline example and llama-speculative.

vLLM examples/offline_inference/spec_decode.py prints its counters and `acceptance at token i`, unconditional.
llama-speculative (examples/speculative) prints n_draft, n_drafted, n_accept and its decoding time.
"""

from __future__ import annotations

import re

from specdec_cli.errors import ProfileError
from specdec_cli.profiles.measured_run import MeasuredRun

OFFLINE, SPECULATIVE = "vllm-offline", "llama-speculative"

_POSITION = re.compile(r"acceptance at token (\d{1,15}):\s*(\d{1,15}(?:\.\d*)?)(?!\d)")
_COUNTER = re.compile(
    r"^[ \t]*(num_drafts|num_draft_tokens|num_accepted_tokens|mean acceptance length)\s*:\s*(\d{1,15}(?:\.\d*)?)(?!\d)",
    re.M,
)
_PAIR = re.compile(r"^[ \t]*(n_draft|n_predict|n_drafted|n_accept)\s*=\s*(\d{1,15})(?!\d)", re.M)
_DECODED = re.compile(r"decoded\s+(\d{1,15}) tokens in\s+(\d{1,15}(?:\.\d*)?) seconds")


def read_offline(file: str, text: str) -> list[MeasuredRun]:
    """The example's last printout. Raises ProfileError without its counters."""
    counters = {name: float(value) for name, value in _COUNTER.findall(text)}
    rates = {int(index): float(value) for index, value in _POSITION.findall(text)}
    ordered = tuple(rates[index] for index in range(len(rates)) if index in rates) or None
    drafts, accepted = counters.get("num_drafts"), counters.get("num_accepted_tokens")
    length = counters.get("mean acceptance length")
    if drafts and accepted is not None:
        length = 1 + accepted / drafts
    if length is None:
        raise ProfileError("no acceptance counters", file=file, hint="num_drafts and num_accepted_tokens are needed")
    drafted = counters.get("num_draft_tokens")
    return [
        MeasuredRun(
            file=file,
            format=OFFLINE,
            engine="vllm",
            first_line=1,
            draft_length=len(ordered) if ordered else round(drafted / drafts) if drafted and drafts else None,
            acceptance_length=length,
            per_position=ordered,
            iterations=drafts,
            accepted_tokens=accepted,
            drafted_tokens=drafted,
        )
    ]


def read_llama_speculative(file: str, text: str) -> list[MeasuredRun]:
    """One prompt, one answer. Raises ProfileError without its counters."""
    values = {name: int(value) for name, value in _PAIR.findall(text)}
    if "n_drafted" not in values or "n_accept" not in values:
        raise ProfileError("n_drafted and n_accept are missing", file=file)
    predicted, accepted = values.get("n_predict"), values["n_accept"]
    steps = predicted - accepted if predicted else None
    if steps is not None and steps <= 0:
        raise ProfileError(f"{accepted} of {predicted} tokens accepted", file=file)
    if steps is None:
        raise ProfileError("n_predict is missing", file=file, hint="a bare acceptance rate is no acceptance length")
    decoded = _DECODED.search(text)
    seconds = float(decoded.group(2)) if decoded is not None else None
    return [
        MeasuredRun(
            file=file,
            format=SPECULATIVE,
            engine="llama-cpp",
            first_line=1,
            batch=1.0,
            draft_length=values.get("n_draft") or None,
            acceptance_length=1 + accepted / steps,
            iterations=float(steps),
            accepted_tokens=float(accepted),
            drafted_tokens=float(values["n_drafted"]),
            step_s=seconds / steps if seconds else None,
            step_basis="decoding time / (tokens - accepted tokens)",
            output_tokens_per_s=int(decoded.group(1)) / seconds if decoded is not None and seconds else None,
        )
    ]
