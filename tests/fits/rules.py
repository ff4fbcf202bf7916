"""From fits to profiles: which fit is taken, and what stands where none is.

Every rule rests on the kernel tables, or on what an engine is known to run; one (`fused`) on a whole model's time.
`decide` returns, for one chip, the source of every figure that the tables give or leave a gap for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from derived import GQA_TO_MLA, KV_STEP, SAME_AS, TAKEN_OVER, WEIGHT_ONLY, WEIGHT_ONLY_EXPERTS, digits
from hardware_file import FIELDS, Key, Values

PACKAGE = "aiconfigurator-core 0.12.0 measured tables (Apache-2.0)"
CHECKED = "2026-09-30"
"""Date of the last look at the package."""

Fits = dict[str, Any]
"""{engine: {family: {dtype: constants and errors}}}, as fit_kernels writes it for a chip."""

SETS = {"vllm": "default", "sglang": "sglang", "tensorrt-llm": "tensorrt-llm"}
"""Engine -> its set of kernels in a profile; vLLM's are the default."""
NAMES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "nccl": "NCCL"}
FAMILY = {"linear_attention": "gated_delta"}  # section -> family, where they differ
SINGLE = ("linear_attention", "indexer")
W4A8 = "mxfp4_w4a8"  # mxfp4 weights against fp8 activations

# Below this fraction of the bandwidth a decode kernel is no kernel that an engine would serve with, but a path that
# dequantises first or was never tuned: FlashInfer's CUTLASS experts for per-tensor fp8 (Hopper, 0.13-0.19), SGLang's
# Triton mxfp4 experts (Hopper, 0.22), TensorRT-LLM's mxfp4 experts against bf16 (Blackwell, 0.19-0.21), SGLang's fp8
# MLA (Hopper, 0.06-0.08). The scan of an indexer is exempt: it is compute in disguise.
LEAST_ETA_M = 0.3

WINDOW_FACTOR = 1.15  # where a table's windowed rows fit no single factor; between the 1.0 and 1.24 of those that do

# TensorRT-LLM's nvfp4 experts: the tables of B200 and GB200 hold the kernel that the engine picks by itself (floor
# about 20 us) beside CUTLASS (43 us); those of B300 and GB300 hold CUTLASS alone. The kernel is the same on both.
MIN_LATENCY = "min_latency"
SIBLING = {"b300-sxm": "b200-sxm", "gb300-nvl72": "gb200-nvl72"}

# Launches of vLLM's indexer wait for the host while its module is timed: the same kernels take 64 us on GB200 and
# B300, 111-118 us on B200 and GB300. The least floor of a generation is the one that hides the host best.
GENERATIONS = (("h100-sxm", "h200-sxm"), ("b200-sxm", "gb200-nvl72", "b300-sxm", "gb300-nvl72"))
HOST_BOUND = 1.3  # times the least floor

HOT_CACHE = "KV that stays in the last-level cache between calls left out: in a model the other layers push it out"
SKEWED = "with power-law routing (exponents 1.01 and 1.2, none of them fitted) on one GPU"
FUSED_DTYPES = ("fp8", "nvfp4")
FUSED_TAU_US = 4.0


@dataclass(frozen=True)
class Figure:
    """One entry: fitted (with its values) or following from others by the rule that `text` names."""

    kind: str
    text: str
    values: Values = field(default_factory=dict)
    error: float | None = None
    share: float | None = None
    notes: tuple[str, ...] = ()
    skewed: float | None = None
    """Error by the other routing, where an entry has two."""


def version(found: Fits) -> str:
    """vLLM 0.24.0, from the table's label."""
    engine, release = found["table"].split()[:2]
    return f"{NAMES[engine]} {release}"


def fitted(section: str, found: Fits, *notes: str) -> Figure:
    """An entry with a fit's constants, and what is to be known about them."""
    values = {name: found[name] for name in FIELDS[section] if name in found}
    said = list(notes)
    if section == "attention" and "window_factor" not in values:
        values["window_factor"] = WINDOW_FACTOR
        said.append(f"window_factor {WINDOW_FACTOR} assumed")
    if found.get("at_bound"):
        said.append(f"{', '.join(found['at_bound'])} at the end of the range that is searched")
    values = {name: value if isinstance(value, str) else digits(value) for name, value in values.items()}
    share = found["n_fit"] / (found["n_fit"] + found["n_heldout"])
    errors = found["heldout_median_error"], found.get("power_law_heldout_median_error")
    return Figure("fitted", f"{PACKAGE}, {version(found)}", values, errors[0], share, tuple(said), errors[1])


def sets(fits: Fits) -> Iterator[tuple[str, str, dict[str, Fits]]]:
    """(engine, section, {dtype: fit}) of a chip."""
    for engine in SETS:
        for section in FIELDS:
            found = fits.get(engine, {}).get(FAMILY.get(section, section), {})
            if found:
                yield engine, section, {"": found} if section in SINGLE else found


def fused(dtype: str, chip_fits: Fits) -> Figure:
    """TensorRT-LLM's fp8 and nvfp4 GEMM without the quantise launch that its tables time before each one.

    The engine fuses it into the norm before: Llama-70B in fp8 on four B200 takes 6.6 ms a step at batch 4, where the
    tabled floors (tau and tau_k, 12-20 us together) add up to 10.3. tau is capped at such a GEMM's own,
    tau_k at bf16's, or at the least that another engine's kernel of this dtype takes on this chip.
    """
    gemm = chip_fits["tensorrt-llm"]["gemm"]
    found = gemm[dtype]
    others = [f["gemm"][dtype]["tau_k_us"] for e, f in chip_fits.items() if e in SETS and dtype in f.get("gemm", {})]
    tau_k = min(found["tau_k_us"], max(gemm["bf16"]["tau_k_us"], min(others)))
    floors = {"tau_us": min(found["tau_us"], FUSED_TAU_US), "tau_k_us": tau_k}
    cut = [f"{name} {digits(found[name]):g}" for name in floors if floors[name] < found[name]]
    if not cut:
        return fitted("gemm", found)
    text = f"the table's {' and '.join(cut)} cut to a fused quantise launch's; the error is that of the table's own"
    return fitted("gemm", found | floors, text)


def usable(section: str, found: Fits) -> bool:
    return section not in ("gemm", "mla", "moe") or found["eta_m"] >= LEAST_ETA_M


def indexer_floor(chip: str, engine: str, found: Fits, all_fits: dict[str, Fits]) -> Figure:
    """The fit, its floor cut to the least of the generation where the host's launches fill it."""
    for chips in GENERATIONS:
        if chip in chips:
            floors = {name: all_fits.get(name, {}).get(engine, {}).get("indexer", {}).get("floor_us") for name in chips}
            least = min((name for name in chips if floors[name]), key=lambda name: floors[name])
            if found["floor_us"] > HOST_BOUND * floors[least]:
                cut = f"floor_us is {least}'s, its own {digits(found['floor_us']):g} us wait for the host's launches"
                return fitted("indexer", found | {"floor_us": floors[least]}, cut)
    return fitted("indexer", found)


def taken(chip: str, all_fits: dict[str, Fits]) -> dict[Key, Figure]:
    """What each engine's own tables give."""
    answer: dict[Key, Figure] = {}
    for engine, section, by_dtype in sets(all_fits[chip]):
        name = SETS[engine]
        for dtype, found in by_dtype.items():
            if dtype == W4A8 or not usable(section, found):
                continue
            answer[name, section, dtype] = fitted(section, found)
            if section == "indexer":
                answer[name, section, dtype] = indexer_floor(chip, engine, found, all_fits)
            if engine == "tensorrt-llm" and section == "gemm" and dtype in FUSED_DTYPES:
                answer[name, section, dtype] = fused(dtype, all_fits[chip])
        if section != "moe":
            continue
        # Where only fp8 activations have a kernel; with vLLM, whose gpt-oss recipe turns them on (Blackwell;
        # VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8, set by InferenceX's gptoss_fp4_b200.sh as well); and with SGLang, whose
        # --flashinfer-mxfp4-moe-precision has them as its default (bf16 is the other choice).
        if W4A8 in by_dtype and ((name, section, "mxfp4") not in answer or engine in ("vllm", "sglang")):
            answer[name, section, "mxfp4"] = fitted(section, by_dtype[W4A8], "mxfp4: against fp8 activations")
        if engine == "tensorrt-llm" and chip in SIBLING and MIN_LATENCY not in by_dtype["nvfp4"]["table"]:
            why = (
                "its table has the kernel that the engine picks by itself, this chip's only CUTLASS at twice the floor"
            )
            answer[name, section, "nvfp4"] = Figure("derived", f"{TAKEN_OVER}{SIBLING[chip]}: {why}")
        if (name, section, "fp8_block") in answer and (name, section, "fp8") not in answer:
            why = (
                "its per-tensor table is of a path that does not serve" if "fp8" in by_dtype else "no per-tensor table"
            )
            answer[name, section, "fp8"] = Figure("assumed", f"{SAME_AS}fp8_block: {why}")
    return answer


def borrowed(have: dict[Key, Figure]) -> dict[Key, Figure]:
    """What vLLM's tables lack and another engine's have: the libraries (FlashInfer, FlashMLA, DeepGEMM) are shared.

    Not dense weight-only GEMMs, whose kernels (Marlin, CUTLASS) are each engine's own choice.
    """
    answer: dict[Key, Figure] = {}
    why = {"mla": "vLLM's own table times whole modules, the kernels are the same libraries"}
    why["gemm"] = "vLLM's own table holds kernels of two speeds, which no form fits"
    for engine in ("sglang", "tensorrt-llm"):
        for (name, section, dtype), figure in have.items():
            key = ("default", section, dtype)
            if name != engine or key in have or key in answer or figure.kind != "fitted":
                continue
            if section != "attention" and (section != "gemm" or dtype == "fp8_block"):
                text = f"{TAKEN_OVER}{engine}: {why.get(section, 'vLLM has no table of its own')}"
                answer[key] = Figure("derived", text)
    return answer


def gaps(have: dict[Key, Figure], peaks: dict[str, float]) -> dict[Key, Figure]:
    """What no table of the chip gives, in the order in which one rests on the other."""
    answer: dict[Key, Figure] = {}

    def fill(section: str, dtype: str, kind: str, text: str) -> None:
        if ("default", section, dtype) not in have:
            answer.setdefault(("default", section, dtype), Figure(kind, text))

    block = f"{SAME_AS}fp8: one more scale for each 128 x 128 weights"
    if "fp4" in peaks:
        fill("gemm", "mxfp4", "assumed", f"{SAME_AS}nvfp4: the same tensor cores, a coarser scale")
    if ("default", "gemm", "fp8") in have:
        fill("gemm", "fp8_block", "assumed", block)
    for dtype in ("fp8", "fp8_block", "int8", "int4", "mxfp4", "nvfp4"):
        fill("gemm", dtype, "derived", WEIGHT_ONLY)
    if ("default", "moe", "fp8") in have:
        fill("moe", "fp8_block", "assumed", block)
    for dtype in ("fp8", "fp8_block", "int8", "int4", "mxfp4", "nvfp4"):
        fill("moe", dtype, "assumed", WEIGHT_ONLY_EXPERTS)
    fill("attention", "fp8", "assumed", KV_STEP)
    fill("mla", "bf16", "assumed", GQA_TO_MLA)
    fill("mla", "fp8", "assumed", KV_STEP)
    fill("linear_attention", "", "assumed", f"{TAKEN_OVER}h100-sxm: no table of this chip")
    fill("indexer", "", "assumed", f"{TAKEN_OVER}h100-sxm: no table of this chip")
    return answer


def needed(chips: set[str]) -> set[str]:
    """These and the chips whose fits decide about them."""
    together = {other for group in GENERATIONS if chips & set(group) for other in group}
    return chips | together | {SIBLING[chip] for chip in chips if chip in SIBLING}


def decide(chip: str, all_fits: dict[str, Fits], peaks: dict[str, float]) -> dict[Key, Figure]:
    """Every figure of a chip with tables: fitted, or the rule that it follows by."""
    have = taken(chip, all_fits)
    have |= borrowed(have)
    return have | gaps(have, peaks)


def listed(errors: dict[str, float]) -> str:
    """bf16 3.5 %, fp8 5.2 %"""
    return ", ".join(f"{key} {100 * error:.1f} %".strip() for key, error in errors.items())


def sources(figures: dict[Key, Figure]) -> dict[tuple[str, ...], Values]:
    """Source lines by (engine, section) for what is fitted there, (engine, section, key) for the rest."""
    lines: dict[tuple[str, ...], Values] = {}
    for (engine, section, key), figure in figures.items():
        if figure.kind != "fitted":
            lines[engine, section, key] = {"kind": figure.kind, "checked": CHECKED, "from": figure.text}
    for group in {key[:2] for key, figure in figures.items() if figure.kind == "fitted"}:
        fits = {key[2]: figure for key, figure in figures.items() if key[:2] == group and figure.kind == "fitted"}
        releases = sorted({figure.text.removeprefix(f"{PACKAGE}, ") for figure in fits.values()})
        shares = [figure.share or 0.0 for figure in fits.values()]
        low, high = round(100 * min(shares)), round(100 * max(shares))
        span = f"{low} %" if low == high else f"{low}-{high} %"
        of = " (of the whole module's time)" if group[1] == "indexer" else ""
        errors = listed({key: figure.error or 0.0 for key, figure in fits.items()})
        note = [f"fitted on {span} of the rows, by shape; median error on the other shapes {errors}{of}"]
        if skewed := {key: figure.skewed for key, figure in fits.items() if figure.skewed is not None}:
            note.append(f"{SKEWED} {listed(skewed)}")
        for key, figure in fits.items():
            note += [f"{key}: {text}" if key and not text.startswith(key) else text for text in figure.notes]
        if group[1] in ("attention", "mla"):
            note.append(HOT_CACHE)
        source = {"kind": "fitted", "checked": CHECKED, "from": f"{PACKAGE}, {' and '.join(releases)}"}
        lines[group] = source | {"note": "; ".join(note)}
    return lines
