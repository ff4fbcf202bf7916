"""The dtype of every part, in each way that quantisers write it down."""

from __future__ import annotations

from typing import Any

import pytest

from specdec_cli.errors import ProfileError
from specdec_cli.profiles.hf_config import model_from_config
from specdec_cli.profiles.schema import Model, PartDtypes

DENSE: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 4,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 1024,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
# One dense layer, three mixtures with a shared expert, one MTP layer.
MIXTURE = {
    **DENSE,
    "model_type": "deepseek_v3",
    "n_routed_experts": 16,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "moe_intermediate_size": 128,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}


def quantised(base: dict[str, Any], quantisation: Any = None, *, side: Any = None, **changes: Any) -> Model:
    config = {**base, **changes}
    if quantisation is not None:
        config["quantization_config"] = quantisation
    return model_from_config(config, name="toy", side_file=side)


def dtypes(base: dict[str, Any], quantisation: Any = None, *, side: Any = None, **changes: Any) -> PartDtypes:
    return quantised(base, quantisation, side=side, **changes).dtypes


@pytest.mark.parametrize(("name", "dtype"), [("bfloat16", "bf16"), ("float16", "fp16"), ("torch.float32", "fp32")])
def test_nothing_quantised(name: str, dtype: str) -> None:
    assert dtypes(DENSE, torch_dtype=name) == PartDtypes(weights=dtype)  # type: ignore[arg-type]
    assert dtypes({**DENSE, "torch_dtype": None}, dtype=name).weights == dtype


def test_no_dtype_at_all_is_an_assumption() -> None:
    model = quantised({**DENSE, "torch_dtype": None})
    assert model.dtypes.weights == "bf16"
    assert any("No dtype key" in text for text in model.assumptions)


GROUPS = {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}


def compressed(**weights: Any) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}}


@pytest.mark.parametrize(
    ("quantisation", "weights"),
    [
        (FP8, "fp8_block"),
        ({"quant_method": "fp8"}, "fp8"),
        ({"quant_method": "fp8", "weight_block_size": None}, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "int4"),
        ({"quant_method": "gptq", "bits": 8, "group_size": 128}, "int8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8"),
        ({"bits": 4, "group_size": 64}, "int4"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        (compressed(num_bits=4, type="int", group_size=32), "int4"),
        (compressed(num_bits=8, type="int"), "int8"),
        (compressed(num_bits=8, type="float"), "fp8"),
        (compressed(num_bits=8, type="float", strategy="channel"), "fp8"),
        (compressed(num_bits=8, type="float", strategy="block", block_structure=[128, 128]), "fp8_block"),
        (compressed(num_bits=8, type="float", strategy="block", block_structure="128x128"), "fp8_block"),
        (compressed(num_bits=4, type="float", group_size=16), "nvfp4"),
        (compressed(num_bits=4, type="float", group_size=32), "mxfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8_PB_WO", "ignore": ["lm_head"]}, "fp8_block"),
    ],
)
def test_methods(quantisation: dict[str, Any], weights: str) -> None:
    found = dtypes(DENSE, quantisation)
    assert (found.weights, found.lm_head, found.attention, found.ffn) == (weights, "bf16", None, None)


def test_the_head_is_left_alone_with_an_assumption_unless_the_list_says_so() -> None:
    assumed = quantised(DENSE, FP8)
    assert any("lm_head is bf16" in text for text in assumed.assumptions)
    named = quantised(DENSE, {**FP8, "modules_to_not_convert": ["lm_head"]})
    assert named.dtypes == assumed.dtypes
    assert named.assumptions == []


def test_blocks_of_another_shape_are_said() -> None:
    left = ["lm_head"]
    usual = quantised(DENSE, {**FP8, "modules_to_not_convert": left})
    assert usual.assumptions == []
    model = quantised(DENSE, {**FP8, "weight_block_size": [1, 128], "modules_to_not_convert": left})
    assert model.dtypes.weights == "fp8_block"
    assert model.assumptions == ["fp8 scales stand for blocks of 1 x 128; fp8_block counts 128 x 128."]


def test_experts_beside_a_dense_block_have_names_of_their_own() -> None:
    """Gemma-4: `mlp` is the dense block, the experts stand beside it, so a list that spares `mlp` spares no expert."""
    gemma = {**MIXTURE, "model_type": "gemma4_text", "enable_moe_block": True, "num_experts": 16, "top_k_experts": 2}
    gemma |= {"hidden_activation": "gelu_pytorch_tanh", "n_routed_experts": None, "num_nextn_predict_layers": None}
    gemma |= {"n_shared_experts": None, "first_k_dense_replace": None}
    left = [f"model.language_model.layers.{n}.{part}*" for n in range(4) for part in ("mlp", "router", "self_attn")]
    found = dtypes(gemma, side={"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head", *left]}})
    assert found == PartDtypes(weights="bf16", experts="nvfp4")


def test_groups_smaller_than_128_take_more_bits() -> None:
    model = quantised(DENSE, {"quant_method": "awq", "bits": 4, "group_size": 32})
    assert any("4.5 bits" in text for text in model.assumptions)
    assert not any(
        "bits" in text for text in quantised(DENSE, {"quant_method": "awq", "bits": 4, "group_size": 128}).assumptions
    )


@pytest.mark.parametrize(
    "left",
    [
        ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"],
        ["lm_head", "model.layers.*.self_attn", "model.layers.*.mlp.shared_experts*", "model.layers.0.mlp"],
        ["lm_head", *(f"model.layers.{n}.self_attn*" for n in range(5)), "*shared_experts*", "model.layers.0.mlp.*"],
        [f"language_model.model.layers.{n}.{part}" for n in range(5) for part in ("self_attn", "mlp.shared_experts")]
        + ["language_model.model.layers.0.mlp"],
    ],
)
def test_only_the_experts(left: list[str]) -> None:
    """The same checkpoint, its list of modules left alone written as regular expressions, globs and plain names."""
    found = dtypes(MIXTURE, {"quant_method": "compressed-tensors", "config_groups": {"0": GROUPS}, "ignore": left})
    assert found == PartDtypes(weights="bf16", experts="int4")


def test_experts_alone_as_gpt_oss_writes_it() -> None:
    left = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    base = {
        **MIXTURE,
        "model_type": "gpt_oss",
        "n_shared_experts": 0,
        "first_k_dense_replace": 0,
        "num_nextn_predict_layers": 0,
    }
    found = dtypes(base, {"quant_method": "mxfp4", "modules_to_not_convert": left})
    assert found == PartDtypes(weights="bf16", experts="mxfp4")


def test_everything_but_attention() -> None:
    side = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head", "model.layers.*.self_attn*"]}}
    found = dtypes(MIXTURE, side=side)
    assert found == PartDtypes(weights="nvfp4", attention="bf16", lm_head="bf16")


def test_a_part_takes_the_dtype_of_most_of_it() -> None:
    """o_proj (512 wide of 512 + 128 + 128 + 512) stays in bf16: 60 % of the attention is fp8, and that is said."""
    model = quantised(DENSE, {**FP8, "modules_to_not_convert": ["lm_head", "model.layers.*.self_attn.o_proj"]})
    assert model.dtypes.attention is None
    assert model.dtypes.weights == "fp8_block"
    assert "attention is fp8_block: 60 % of its weights are, the rest are not." in model.assumptions


def test_mtp_that_is_left_alone() -> None:
    for name in ("model.layers.4*", "mtp.*", "mtp*"):
        side = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head", name]}}
        assert dtypes(MIXTURE, side=side).mtp == "bf16", name
    side = {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_head"]}}
    assert dtypes(MIXTURE, side=side).mtp is None


def test_mixed_precision_lists_what_it_converts() -> None:
    layers = {f"model.layers.{n}.mlp.experts": {"quant_algo": "W4A16_NVFP4"} for n in range(1, 4)}
    layers |= {f"model.layers.{n}.self_attn.{p}_proj": {"quant_algo": "FP8"} for n in range(4) for p in "qkvo"}
    side = {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers, "kv_cache_quant_algo": "FP8"}}
    found = dtypes(MIXTURE, side=side)
    assert found == PartDtypes(weights="fp8", experts="nvfp4", ffn="bf16", lm_head="bf16", mtp="bf16", kv="fp8")
    side["quantization"]["quantized_layers"] = None
    with pytest.raises(ProfileError, match="quantized_layers"):
        dtypes(MIXTURE, side=side)


V4 = {
    **MIXTURE,
    "model_type": "deepseek_v4",
    "first_k_dense_replace": 0,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "q_lora_rank": 64,
    "o_lora_rank": 16,
    "o_groups": 4,
    "sliding_window": 128,
    "compress_ratios": [0, 128, 128, 128, 0],
}


def test_experts_of_deepseek_v4_are_in_four_bits() -> None:
    model = quantised(V4, FP8, expert_dtype="fp4")
    assert model.dtypes == PartDtypes(weights="fp8_block", experts="mxfp4", lm_head="bf16")
    assert any("expert_dtype fp4" in text for text in model.assumptions)
    assert dtypes(V4, FP8).experts is None


def test_what_a_mixed_conversion_left_alone_keeps_its_quantisation() -> None:
    """DeepSeek-V4-Flash-NVFP4: only the experts of an fp8 checkpoint were converted again."""
    layers = {f"layers.{number}.ffn.experts": {"quant_algo": "NVFP4"} for number in range(4)}
    mixed = {**FP8, "quant_algo": "MIXED_PRECISION", "quantized_layers": layers, "ignore": ["*.attn.*", "head"]}
    side = {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}}
    expected = PartDtypes(weights="fp8_block", experts="nvfp4", lm_head="bf16")
    assert dtypes(V4, mixed, expert_dtype="fp4") == dtypes(V4, mixed, side=side, expert_dtype="fp4") == expected
    # where nothing says that the rest was quantised, it was not
    assert dtypes(V4, side=side) == PartDtypes(weights="bf16", experts="nvfp4", lm_head=None, mtp="bf16")


def test_no_list_of_what_is_left_alone_is_an_assumption() -> None:
    model = quantised(DENSE, side={"quantization": {"quant_algo": "FP8"}})
    assert any("no list of modules" in text for text in model.assumptions)


@pytest.mark.parametrize(
    ("keys", "kv"),
    [
        ({}, "bf16"),
        ({"kv_cache_quant_algo": "FP8"}, "fp8"),
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8"),
        ({"kv_cache_scheme": None}, "bf16"),
        ({"kv_cache_quant_algo": "INT8"}, "int8"),
    ],
)
def test_the_cache_has_a_dtype_of_its_own(keys: dict[str, Any], kv: str) -> None:
    assert dtypes(DENSE, {**FP8, **keys}).kv == kv


@pytest.mark.parametrize(
    ("quantisation", "reason"),
    [
        ({"quant_method": "novel"}, "'novel'"),
        ({"quant_algo": "NOVEL"}, "'NOVEL'"),
        ({"quant_method": "gptq", "bits": 3}, "3 bits"),
        ({"quant_method": "compressed-tensors"}, "config_groups"),
        ({**FP8, "kv_cache_quant_algo": "NOVEL"}, "'NOVEL'"),
    ],
)
def test_what_is_not_known_is_refused(quantisation: dict[str, Any], reason: str) -> None:
    with pytest.raises(ProfileError, match=reason):
        dtypes(DENSE, quantisation)
    with pytest.raises(ProfileError, match="float4"):
        dtypes(DENSE, torch_dtype="float4")
