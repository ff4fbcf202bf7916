"""The dtype of every part, from `quantization_config` of a `config.json` or ModelOpt's `hf_quant_config.json`.

A checkpoint names the quantised format once and lists the modules that it leaves alone (or, in mixed precision, those
that it converts). The modules of each part are looked up in that list, layer by layer, and a part takes the dtype
that holds most of its weights; what is cut away by that is written into the assumptions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from specdec_cli.profiles.hf_plan import Plan, check_patterns
from specdec_cli.profiles.hf_reader import ConfigReader
from specdec_cli.profiles.schema import (
    Attention,
    CompressedAttention,
    DenseFfn,
    Ffn,
    Gqa,
    KvDtype,
    Mamba2,
    Mla,
    MoeFfn,
    PartDtypes,
    WeightDtype,
)

STORAGE: dict[str, WeightDtype] = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}

# ModelOpt's `quant_algo`.
ALGORITHMS: dict[str, WeightDtype] = {
    "FP8": "fp8",
    "FP8_PER_CHANNEL_PER_TOKEN": "fp8",
    "FP8_PB_WO": "fp8_block",
    "NVFP4": "nvfp4",
    "NVFP4_AWQ": "nvfp4",
    "W4A16_NVFP4": "nvfp4",
    "W4A8_NVFP4_FP8": "nvfp4",
    "MXFP4": "mxfp4",
    "W4A8_MXFP4_FP8": "mxfp4",
    "W4A16_AWQ": "int4",
    "W4A8_AWQ": "int4",
    "W8A16": "int8",
    "W8A8_SQ_PER_CHANNEL": "int8",
}

FP8_BLOCK = [128, 128]  # weights of one scale, in every published block-scaled checkpoint

# Paths of the modules of a part, without `layers.N.`; alternatives are the spellings of different model families.
EXPERT_MODULES = ("mlp.experts.0.gate_proj", "block_sparse_moe.experts.0.w1", "mixer.experts.0.up_proj", "ffn.experts")
EXPERTS_BESIDE = ("experts.0.gate_proj",)  # Gemma-4: not under `mlp`, which is the dense block beside them
SHARED_MODULES = (
    "mlp.shared_experts.gate_proj",
    "mlp.shared_expert.gate_proj",
    "mixer.shared_experts.up_proj",
    "ffn.shared_experts.w1",
)
DENSE_MODULES = ("mlp.gate_proj", "mlp.gate_up_proj", "mixer.up_proj", "feed_forward.gate_proj")
MTP_PREFIXES = ("mtp.", "model.mtp.", "mtp.layers.0.")

Weights = Mapping[tuple[str, ...], int]


def part_dtypes(
    reader: ConfigReader,
    side_file: Mapping[str, Any] | None,
    attention: list[Attention | None],
    ffn: list[Ffn | None],
    *,
    hidden: int,
    has_mtp: bool,
) -> PartDtypes:
    """Dtype of each part of a checkpoint, given the kinds of every layer; `side_file` is `hf_quant_config.json`."""
    stored = stored_dtype(reader)
    quantisation = reader.get_anywhere("quantization_config", "quantization")
    plan, kv = _plan(reader, quantisation, side_file)
    if plan is None:
        return PartDtypes(weights=stored, kv=kv)
    beside = reader.model_type.startswith("gemma4")
    shares: dict[str, Counter[WeightDtype]] = {
        "attention": _share(plan, stored, [_attention_modules(item, hidden) for item in attention]),
        "ffn": _share(plan, stored, [_ffn_modules(item, beside) for item in ffn]),
        "experts": _share(plan, stored, [_expert_modules(item, beside) for item in ffn]),
    }
    parts = {name: share.most_common(1)[0][0] for name, share in shares.items() if share}
    if reader.get("expert_dtype") == "fp4" and parts.get("experts") == "fp8_block":
        reader.assume("expert_dtype fp4: taken as MXFP4, a power-of-two scale for each 32 weights; the rest is fp8.")
        parts["experts"] = "mxfp4"
    for name, share in shares.items():
        largest, total = (share.most_common(1)[0][1], sum(share.values())) if share else (0, 0)
        if largest < total:
            reader.assume(
                f"{name} is {parts[name]}: {100 * largest / total:.0f} % of its weights are, the rest are not."
            )
    common = _most_common(parts)
    head = _head_dtype(reader, plan, stored)
    mtp = _mtp_dtype(plan, stored, len(ffn), parts) if has_mtp else None
    named: dict[str, WeightDtype | None] = {
        name: value if value != common else None for name, value in {**parts, "lm_head": head}.items()
    }
    return PartDtypes(
        weights=common,
        experts=named.get("experts"),
        attention=named.get("attention"),
        ffn=named.get("ffn"),
        lm_head=named["lm_head"],
        mtp=mtp,
        kv=kv,
    )


def _most_common(parts: Mapping[str, WeightDtype]) -> WeightDtype:
    """The dtype of most parts; where they are as many, the one of attention (experts are then named)."""
    counts = Counter(parts.values())
    top = max(counts.values())
    candidates = [dtype for dtype, count in counts.items() if count == top]
    return parts["attention"] if parts.get("attention") in candidates else candidates[0]


def stored_dtype(reader: ConfigReader) -> WeightDtype:
    """The dtype of weights that are not quantised."""
    name = reader.get_anywhere("dtype", "torch_dtype")
    if name is None:
        reader.assume("No dtype key: weights that are not quantised are taken as bf16.")
        return "bf16"
    name = str(name).removeprefix("torch.")
    if name not in STORAGE:
        raise reader.refuse(f"unknown dtype {name!r}", key="dtype")
    return STORAGE[name]


# ----------------------------------------------------------------------------------- what is converted to what


def _plan(reader: ConfigReader, config: Any, side_file: Mapping[str, Any] | None) -> tuple[Plan | None, KvDtype]:
    side = side_file.get("quantization", side_file) if side_file is not None else None
    if isinstance(side, Mapping) and side.get("quant_algo"):
        base = config if isinstance(config, Mapping) else {}
        return _modelopt_plan(reader, side, base), _kv_dtype(reader, side.get("kv_cache_quant_algo"))
    if not isinstance(config, Mapping):
        return None, "bf16"
    kv = _kv_dtype(reader, config.get("kv_cache_quant_algo") or config.get("kv_cache_scheme"))
    if config.get("quant_algo"):
        return _modelopt_plan(reader, config, config), kv
    left = _left_alone(reader, config)
    method = str(config.get("quant_method", "")).replace("_", "-")
    return Plan(_method_dtype(reader, method, config), left, {}), kv


def _left_alone(reader: ConfigReader, config: Mapping[str, Any]) -> list[str]:
    for key in ("modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"):
        value = config.get(key)
        if isinstance(value, list):
            names = [str(item) for item in value]
            check_patterns(reader, key, names)
            return names
    return []


def _modelopt_plan(reader: ConfigReader, config: Mapping[str, Any], base: Mapping[str, Any]) -> Plan:
    algorithm = str(config["quant_algo"])
    if algorithm == "MIXED_PRECISION":
        layers = config.get("quantized_layers")
        if not isinstance(layers, Mapping):
            raise reader.missing("quantization_config.quantized_layers", why="which modules are in which precision")
        # DeepSeek-V4's NVFP4 copies: `quant_method` is still the fp8 of the checkpoint that was converted.
        before = base.get("weight_block_size") if base.get("quant_method") == "fp8" else None
        rest = _fp8(reader, before) if before else None
        converted: dict[str, WeightDtype] = {}
        for name, each in layers.items():
            if not isinstance(each, Mapping) or each.get("quant_algo") is None:
                raise reader.missing(f"quantization_config.quantized_layers.{name}.quant_algo")
            converted[name] = _algorithm(reader, str(each["quant_algo"]))
        return Plan(rest, ["lm_head"], converted)
    left = _left_alone(reader, config)
    if not left:
        reader.assume(f"{algorithm} with no list of modules left alone: all layers are taken as quantised.")
    return Plan(_algorithm(reader, algorithm), left, {})


def _algorithm(reader: ConfigReader, name: str) -> WeightDtype:
    if name not in ALGORITHMS:
        raise reader.refuse(f"unknown quantisation {name!r}", key="quant_algo")
    return ALGORITHMS[name]


def _method_dtype(reader: ConfigReader, method: str, config: Mapping[str, Any]) -> WeightDtype:
    """The dtype of `quant_method`; weights in groups of other than 128 take a little more or less than `units` says."""
    if method == "fp8":
        return _fp8(reader, config.get("weight_block_size"))
    if method == "fbgemm-fp8":  # one scale a row
        return "fp8"
    if method == "mxfp4":
        return "mxfp4"
    if method in ("gptq", "awq", "auto-round", ""):  # MLX writes {bits, group_size} with no method
        return _by_bits(reader, config.get("bits"), "int", config.get("group_size"))
    if method == "bitsandbytes":
        return "int4" if config.get("load_in_4bit") or config.get("_load_in_4bit") else "int8"
    if method == "compressed-tensors":
        groups = config.get("config_groups")
        every = list(groups.values()) if isinstance(groups, Mapping) else []
        found = [group.get("weights") if isinstance(group, Mapping) else None for group in every]
        if len(found) != 1 or not isinstance(found[0], Mapping):
            raise reader.refuse("expected one group with weights", key="quantization_config.config_groups")
        weights = found[0]
        if weights.get("num_bits") == 8 and weights.get("type") == "float":
            return _fp8(reader, weights.get("block_structure") if weights.get("strategy") == "block" else None)
        return _by_bits(reader, weights.get("num_bits"), str(weights.get("type")), weights.get("group_size"))
    raise reader.refuse(f"unknown quantisation method {method!r}", key="quantization_config.quant_method")


def _fp8(reader: ConfigReader, block: Any) -> WeightDtype:
    """fp8 with a scale for each block of weights, or with one for a tensor or channel, whose kernels differ."""
    if not block:
        return "fp8"
    # compressed-tensors writes "128x128" too
    shape = [int(size) for size in re.findall(r"\d{1,9}", str(block))]
    if shape != FP8_BLOCK:
        reader.assume(f"fp8 scales stand for blocks of {' x '.join(map(str, shape))}; fp8_block counts 128 x 128.")
    return "fp8_block"


def _by_bits(reader: ConfigReader, bits: Any, kind: str, group: Any) -> WeightDtype:
    if bits == 8:
        return "fp8" if kind == "float" else "int8"
    if bits == 4 and kind == "float":
        return "nvfp4" if group == 16 else "mxfp4"
    if bits == 4:
        if isinstance(group, int) and 0 < group < 128:
            reader.assume(
                f"4-bit weights in groups of {group}: {4 + 16 / group:g} bits each; int4 counts groups of 128."
            )
        return "int4"
    raise reader.refuse(f"weights of {bits} bits are not known", key="quantization_config.bits")


def _kv_dtype(reader: ConfigReader, value: Any) -> KvDtype:
    if value is None:
        return "bf16"
    if isinstance(value, Mapping):
        value = "FP8" if value.get("num_bits") == 8 and value.get("type") == "float" else str(value)
    if str(value).upper() in ("FP8", "FP8_E4M3"):
        return "fp8"
    if str(value).upper() == "INT8":
        return "int8"
    raise reader.refuse(f"unknown KV cache dtype {value!r}", key="kv_cache_quant_algo")


# ------------------------------------------------------------------------------------------ modules of a part


def _share(plan: Plan, stored: WeightDtype, layers: list[Weights]) -> Counter[WeightDtype]:
    """Weights of a part by dtype, all layers together; relative ones are enough."""
    share: Counter[WeightDtype] = Counter()
    for number, modules in enumerate(layers):
        for spellings, weights in modules.items():
            dtype = plan.dtype_of(tuple(f"layers.{number}.{name}" for name in spellings))
            share[dtype or stored] += weights
    return share


def _attention_modules(attention: Attention | None, hidden: int) -> Weights:
    """Weights of the modules of an attention layer."""
    match attention:
        case None:
            return {}
        case Gqa():
            queries, keys = attention.heads * attention.head_dim, attention.kv_heads * attention.head_dim
            sizes = {"q_proj": queries, "k_proj": keys, "v_proj": keys, "o_proj": queries}
            return {(f"self_attn.{name}", f"mixer.{name}"): hidden * size for name, size in sizes.items()}
        case Mla():
            rank = attention.q_lora_rank or 0
            queries = attention.heads * (attention.nope_head_dim + attention.rope_head_dim)
            up = attention.heads * (attention.nope_head_dim + attention.v_head_dim)
            return {
                ("self_attn.q_b_proj", "self_attn.q_proj"): (rank or hidden) * queries,
                ("self_attn.q_a_proj",): hidden * rank,
                ("self_attn.kv_b_proj",): attention.kv_lora_rank * up,
                ("self_attn.kv_a_proj_with_mqa",): hidden * (attention.kv_lora_rank + attention.rope_head_dim),
                ("self_attn.o_proj",): hidden * attention.heads * attention.v_head_dim,
            }
        case CompressedAttention():
            width, out = attention.heads * attention.head_dim, attention.o_groups * attention.o_lora_rank
            return {
                ("attn.wq_a",): hidden * attention.q_lora_rank,
                ("attn.wq_b",): attention.q_lora_rank * width,
                ("attn.wkv",): hidden * attention.head_dim,
                ("attn.wo_a",): width * attention.o_lora_rank,
                ("attn.wo_b",): hidden * out,
            }
        case Mamba2():
            inner = attention.heads * attention.head_dim
            return {("mixer.in_proj",): 2 * hidden * inner, ("mixer.out_proj",): hidden * inner}
        case _:
            keys = attention.key_heads * attention.key_head_dim
            values = attention.value_heads * attention.value_head_dim
            return {
                ("linear_attn.in_proj_qkv", "linear_attn.in_proj_qkvz", "self_attn.q_proj"): hidden
                * (2 * keys + values),
                ("linear_attn.in_proj_z", "linear_attn.in_proj_qkvz", "self_attn.g_proj"): hidden * values,
                ("linear_attn.out_proj", "self_attn.o_proj"): hidden * values,
            }


def _ffn_modules(ffn: Ffn | None, beside: bool) -> Weights:
    """`beside`: the mixture stands beside a dense block, whose names are its own (Gemma-4)."""
    if isinstance(ffn, DenseFfn):
        return {DENSE_MODULES: ffn.intermediate}
    if isinstance(ffn, MoeFfn) and ffn.shared_intermediate:
        return {DENSE_MODULES if beside else SHARED_MODULES: ffn.shared_intermediate}
    return {}


def _expert_modules(ffn: Ffn | None, beside: bool) -> Weights:
    if not isinstance(ffn, MoeFfn):
        return {}
    return {EXPERTS_BESIDE if beside else EXPERT_MODULES: ffn.experts}


def _head_dtype(reader: ConfigReader, plan: Plan, stored: WeightDtype) -> WeightDtype:
    """Quantisers leave the head alone unless told otherwise, so only a list that names it converted counts."""
    converted = plan.dtype_of(("lm_head",)) if plan.converted else None
    if converted is None and not plan.converted and "lm_head" not in plan.exact and plan.dtype_of(("lm_head",)):
        reader.assume(f"lm_head is {stored}: quantisers skip it, and the list of modules left alone does not name it.")
    return converted or stored


def _mtp_dtype(plan: Plan, stored: WeightDtype, layers: int, parts: Mapping[str, WeightDtype]) -> WeightDtype | None:
    """`stored` where the MTP layers are left alone and their kind is quantised elsewhere; None: as the same parts."""
    part = parts.get("experts") or parts.get("ffn")
    module = EXPERT_MODULES if "experts" in parts else DENSE_MODULES
    names = tuple(f"layers.{layers}.{name}" for name in module)
    names += tuple(prefix + name for prefix in MTP_PREFIXES for name in (*module, *(f"layers.0.{m}" for m in module)))
    return stored if part != stored and plan.dtype_of(names) is None else None
