"""Figures that follow from others: each rule is named by the words that an entry's source begins with.

So a profile says how its figure came about, and `write_hardware.py` computes it again whenever what it follows from
changes. Rules are stated for the figures of one engine set; `taken over from` reaches another engine or chip.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from hardware_file import Key, Values

Look = Callable[[str, Key], Values]
"""(chip, key) -> that chip's figures."""

TAKEN_OVER = "taken over from "
SAME_AS = "the same figures as "
WEIGHT_ONLY = (
    "weight-only kernel: eta_m of the bf16 GEMM for 8 bits, 0.9 of it for 4 (gpt-fast README: Llama-2-7B on one A100 "
    "reaches 0.65-0.70 of the bandwidth in int8 and 0.45-0.50 in int4, about 1.2 ms of launch floors a pass included); "
    "compute 0.9 of the bf16 GEMM's and one more us of ramp are assumed"
)
WEIGHT_ONLY_EXPERTS = (
    "weight-only experts: bf16's figures, eta_m and eta_c 0.85 of them, times add (gpt-oss mxfp4 on Hopper: "
    "exponent 0.7)"
)
KV_STEP = "fp8 KV from bf16's: eta_m 0.77 of it, a GQA floor 1.15 times as long (H100, vLLM's kernels)"
GQA_TO_MLA = "no MLA table that a form fits: eta_m 0.9, eta_c 0.8 of the GQA kernel's, floor and exponent assumed"

EIGHT_BITS = ("fp8", "fp8_block", "int8")


def digits(value: float) -> float:
    """Three significant digits: the fourth changes with the machine that fits."""
    return float(f"{value:.3g}")


def taken_over(text: str) -> tuple[str, tuple[str, ...]] | None:
    """(chip or engine, fields of its own) of `taken over from l40s, eta_c apart: why`; None: another rule."""
    found = re.match(TAKEN_OVER + r"([\w.-]+)(?:, ([\w, ]+) apart)?:", text)
    return (found[1], tuple((found[2] or "").split(", ") if found[2] else ())) if found else None


def _taken_over(chip: str, key: Key, text: str, now: Values, look: Look, engines: tuple[str, ...]) -> Values:
    donor, kept = taken_over(text) or ("", ())
    source = (chip, (donor, *key[1:])) if donor in engines else (donor, key)
    return {**look(*source), **{name: now[name] for name in kept}}


def _weight_only(bf16: Values, dtype: str) -> Values:
    return {
        "compute": "bf16",
        "eta_c": digits(bf16["eta_c"] * 0.9),
        "eta_m": digits(bf16["eta_m"] * (1.0 if dtype in EIGHT_BITS else 0.9)),
        "tau_us": digits(bf16["tau_us"] + 1.0),
        "tau_k_us": bf16.get("tau_k_us", 0.0),
        "overlap_exponent": 1.3,
    }


def _weight_only_experts(bf16: Values) -> Values:
    slower = {name: digits(bf16[name] * 0.85) for name in ("eta_c", "eta_m")}
    return {**bf16, "compute": "bf16", **slower, "overlap_exponent": 1.0}


def _kv_step(bf16: Values) -> Values:
    answer = {**bf16, "eta_m": digits(bf16["eta_m"] * 0.77)}
    if "floor_us" in bf16:
        answer["floor_us"] = digits(bf16["floor_us"] * 1.15)
    return answer


def _gqa_to_mla(gqa: Values) -> Values:
    fractions = {"eta_m": digits(gqa["eta_m"] * 0.9), "eta_c": digits(gqa["eta_c"] * 0.8)}
    return {**fractions, "tau_us": 20.0, "tau_l_us": 1.0, "overlap_exponent": 4.0}


def follows(text: str) -> bool:
    """Whether a source's text names a rule of this module."""
    rules = (SAME_AS, WEIGHT_ONLY, WEIGHT_ONLY_EXPERTS, KV_STEP, GQA_TO_MLA)
    return text.startswith(rules) or taken_over(text) is not None


def figures(chip: str, key: Key, text: str, now: Values, look: Look, engines: tuple[str, ...]) -> Values:
    """The figures of `key` by the rule that `text` names; `now`: those in the file, for fields of its own."""
    engine, section, dtype = key
    if taken_over(text):
        return _taken_over(chip, key, text, now, look, engines)
    if text.startswith(SAME_AS):
        return dict(look(chip, (engine, section, text[len(SAME_AS) :].partition(":")[0])))
    if text.startswith(GQA_TO_MLA):
        return _gqa_to_mla(look(chip, (engine, "attention", dtype)))
    bf16 = look(chip, (engine, section, "bf16"))
    if text.startswith(WEIGHT_ONLY):
        return _weight_only(bf16, dtype)
    return _weight_only_experts(bf16) if text.startswith(WEIGHT_ONLY_EXPERTS) else _kv_step(bf16)
