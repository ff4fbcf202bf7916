"""Importing a config.json: every oddity in a small configuration of the project's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.errors import ProfileError
from specdec_cli.profiles.hf_config import model_from_config, profile_name, read_model
from specdec_cli.profiles.schema import (
    Block,
    CompressedAttention,
    DenseFfn,
    GatedDelta,
    Gqa,
    Indexer,
    Mamba2,
    Mla,
    Model,
    MoeFfn,
    Mtp,
)

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
MOE = {**DENSE, "model_type": "qwen3_moe", "num_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
MLA = {
    **MOE,
    "model_type": "deepseek_v3",
    "num_key_value_heads": 8,
    "q_lora_rank": 64,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
}
COMPRESSED = {
    **MOE,
    "model_type": "deepseek_v4",
    "num_key_value_heads": 1,
    "head_dim": 32,
    "q_lora_rank": 64,
    "o_lora_rank": 16,
    "o_groups": 4,
    "sliding_window": 128,
    "index_n_heads": 4,
    "index_head_dim": 16,
    "index_topk": 64,
    "hc_mult": 4,
    "compress_ratios": [128, 4, 128, 4, 0],
}
MAMBA = {
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "ssm_state_size": 32,
    "n_groups": 2,
    "conv_kernel": 4,
}
DELTA = {
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 64,
    "linear_conv_kernel_dim": 4,
}


def imported(base: dict[str, Any] = DENSE, **changes: Any) -> Model:
    """The model of a configuration with some keys changed; None takes a key away."""
    return model_from_config(config(base, **changes), name="toy")


def config(base: dict[str, Any], **changes: Any) -> dict[str, Any]:
    merged = {**base, **changes}
    return {key: value for key, value in merged.items() if value is not None or base.get(key, 1) is None}


def refusal(base: dict[str, Any] = DENSE, **changes: Any) -> str:
    with pytest.raises(ProfileError) as caught:
        imported(base, **changes)
    return str(caught.value)


# ------------------------------------------------------------------------------------------------- sizes


def test_a_plain_model() -> None:
    model = imported()
    assert model.attention == {"full": Gqa(heads=8, kv_heads=2, head_dim=64)}
    assert model.ffn == {"dense": DenseFfn(intermediate=1024)}
    assert model.blocks == [Block(repeat=4, attention="full", ffn="dense")]
    assert (model.hidden, model.vocabulary, model.max_context) == (512, 1000, 4096)
    assert model.mtp is None
    assert model.assumptions == []


def test_head_dim_is_trusted_where_it_is_present() -> None:
    assert imported(head_dim=128).attention["full"] == Gqa(heads=8, kv_heads=2, head_dim=128)


def test_head_dim_that_cannot_be_computed_is_missing() -> None:
    assert "head_dim" in refusal(num_attention_heads=7)


def test_kv_heads_left_out_are_as_many_as_heads_and_said_so() -> None:
    model = imported(num_key_value_heads=None)
    assert model.attention["full"] == Gqa(heads=8, kv_heads=8, head_dim=64)
    assert any("num_key_value_heads" in text for text in model.assumptions)


@pytest.mark.parametrize(
    "key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"]
)
def test_a_missing_size_is_refused_by_name(key: str) -> None:
    assert f"missing key {key}" in refusal(**{key: None})


@pytest.mark.parametrize("value", ["512", True, 0, -1, 1.5, [512]])
def test_a_size_of_another_type_is_refused_by_name(value: Any) -> None:
    assert "hidden_size" in refusal(hidden_size=value)


def test_gpt2_spellings() -> None:
    gpt2 = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 1024, "vocab_size": 100}
    model = model_from_config(gpt2, name="toy")
    assert model.attention["full"] == Gqa(heads=4, kv_heads=4, head_dim=16, bias=True)
    assert model.ffn["dense"] == DenseFfn(intermediate=256, matrices=2)
    assert model.tied_embeddings
    assert any("four times" in text for text in model.assumptions)


def test_an_unknown_longest_context_is_assumed() -> None:
    model = imported(max_position_embeddings=None)
    assert model.max_context == 131072
    assert any("max_position_embeddings" in text for text in model.assumptions)


# ------------------------------------------------------------------------------------------ nested objects

VISION = {"hidden_size": 1152, "num_hidden_layers": 27, "vocab_size": 7, "num_attention_heads": 16}


@pytest.mark.parametrize("key", ["text_config", "llm_config", "language_config", "decoder"])
def test_sizes_in_a_nested_object_win_over_the_vision_towers(key: str) -> None:
    model = model_from_config({**VISION, key: DENSE}, name="toy")
    assert model.hidden == 512
    assert model.notes == [f"Sizes read from {key} of the config.json."]


def test_two_levels_down() -> None:
    model = model_from_config({"thinker_config": {"text_config": DENSE}}, name="toy")
    assert model.hidden == 512
    assert "thinker_config.text_config" in model.notes[0]


def test_a_nested_object_without_sizes_is_not_the_model() -> None:
    assert model_from_config({**DENSE, "text_config": {"hidden_size": 9}}, name="toy").hidden == 512


def test_tying_and_dtype_may_stand_outside() -> None:
    inner = config(DENSE, tie_word_embeddings=None, torch_dtype=None)
    model = model_from_config({"text_config": inner, "tie_word_embeddings": True, "dtype": "float16"}, name="toy")
    assert model.tied_embeddings
    assert model.dtypes.weights == "fp16"


def test_errors_name_the_place() -> None:
    with pytest.raises(ProfileError, match=r"missing key vocab_size .* in text_config"):
        model_from_config({"text_config": config(DENSE, vocab_size=None)}, name="toy", file="config.json")


def test_tying_left_out_is_the_default_of_a_known_type_only() -> None:
    model = imported(tie_word_embeddings=None)
    assert not model.tied_embeddings
    assert any("tie_word_embeddings" in text for text in model.assumptions)
    assert "tie_word_embeddings" in refusal(tie_word_embeddings=None, model_type="novel")


# --------------------------------------------------------------------------------------------- the mixture


@pytest.mark.parametrize("experts", ["num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"])
@pytest.mark.parametrize(
    "top_k", ["num_experts_per_tok", "experts_per_token", "num_experts_per_token", "top_k_experts"]
)
def test_spellings_of_a_mixture(experts: str, top_k: str) -> None:
    changes = {"num_experts": None, "num_experts_per_tok": None, experts: 16, top_k: 2}
    assert imported(MOE, **changes).ffn == {"moe": MoeFfn(experts=16, top_k=2, intermediate=128)}


def test_experts_as_a_list_alike_or_not() -> None:
    assert imported(MOE, num_experts=[16] * 4, num_experts_per_tok=[2] * 4).ffn == imported(MOE).ffn
    assert "num_experts" in refusal(MOE, num_experts=[16, 8, 16, 16])


def test_top_k_missing() -> None:
    assert "missing key num_experts_per_tok" in refusal(MOE, num_experts_per_tok=None)


def test_the_expert_width_is_intermediate_size_only_where_that_is_known() -> None:
    oss = imported(MOE, model_type="gpt_oss", moe_intermediate_size=None)
    assert oss.ffn["moe"] == MoeFfn(experts=16, top_k=2, intermediate=1024, bias=True)
    assert "missing key moe_intermediate_size" in refusal(MOE, moe_intermediate_size=None)


@pytest.mark.parametrize(
    ("changes", "width"),
    [
        ({"shared_expert_intermediate_size": 96}, 96),
        ({"n_shared_experts": 2}, 256),
        ({"num_shared_experts": 3}, 384),
        ({"n_shared_experts": 2, "moe_shared_expert_intermediate_size": 200}, 400),
        ({"share_expert_dim": 160, "n_shared_experts": 1}, 160),
        ({"n_shared_experts": 0}, 0),
        ({}, 0),
    ],
)
def test_shared_experts(changes: dict[str, Any], width: int) -> None:
    ffn = imported(MOE, **changes).ffn["moe"]
    assert isinstance(ffn, MoeFfn)
    assert ffn.shared_intermediate == width


@pytest.mark.parametrize(
    ("changes", "mixtures"),
    [
        ({}, 4),
        ({"first_k_dense_replace": 1}, 3),
        ({"mlp_only_layers": [0, 2]}, 2),
        ({"decoder_sparse_step": 2}, 2),
        ({"interleave_moe_layer_step": 2}, 2),
        ({"moe_layer_freq": [0, 1, 1, 1]}, 3),
        ({"moe_layer_freq": 1, "first_k_dense_replace": 3}, 1),
        ({"mlp_layer_types": ["dense", "sparse", "sparse", "dense"]}, 2),
        ({"moe_layers": [1, 3]}, 2),
    ],
)
def test_which_layers_are_mixtures(changes: dict[str, Any], mixtures: int) -> None:
    repeats = {block.ffn: block.repeat for block in imported(MOE, **changes).blocks}
    assert repeats.get("moe", 0) == mixtures
    assert sum(repeats.values()) == 4


def test_a_list_of_mixture_layers_too_short() -> None:
    assert "list of mixture layers" in refusal(MOE, moe_layer_freq=[0, 1])


def test_llama_4_dense_width_has_a_key_of_its_own() -> None:
    model = imported(
        MOE, model_type="llama4_text", moe_intermediate_size=None, intermediate_size_mlp=2048,
        interleave_moe_layer_step=2, attention_chunk_size=512,
    )  # fmt: skip
    assert model.ffn["dense"] == DenseFfn(intermediate=2048)
    assert model.ffn["moe"] == MoeFfn(experts=16, top_k=2, intermediate=1024, shared_intermediate=1024)


@pytest.mark.parametrize("key", ["moe_latent_size", "routed_expert_hidden_size"])
def test_a_latent_expert_space(key: str) -> None:
    ffn = imported(MOE, **{key: 64}).ffn["moe"]
    assert isinstance(ffn, MoeFfn)
    assert ffn.latent == 64


def test_an_activation_that_may_or_may_not_be_gated() -> None:
    assert imported(model_type="gemma", hidden_act="gelu").ffn["dense"] == DenseFfn(intermediate=1024)
    assert imported(hidden_act="relu2").ffn["dense"] == DenseFfn(intermediate=1024, matrices=2)
    assert "hidden_act" in refusal(model_type="novel", hidden_act="gelu")


# ----------------------------------------------------------------------------------------- latent attention


def test_mla_has_no_kv_heads() -> None:
    model = imported(MLA)
    assert model.attention == {
        "mla": Mla(heads=8, q_lora_rank=64, kv_lora_rank=32, nope_head_dim=16, rope_head_dim=8, v_head_dim=16)
    }


def test_mla_without_a_query_rank_and_with_an_unknown_one() -> None:
    plain = model_from_config({**MLA, "q_lora_rank": None}, name="toy").attention["mla"]
    assert isinstance(plain, Mla)
    assert plain.q_lora_rank is None
    absent = {key: value for key, value in MLA.items() if key != "q_lora_rank"}
    with pytest.raises(ProfileError, match="missing key q_lora_rank"):
        model_from_config(absent, name="toy")


def test_an_indexer_of_its_own_and_a_shared_one() -> None:
    indexed = {"index_n_heads": 4, "index_head_dim": 16, "index_topk": 64}
    model = imported(MLA, **indexed, indexer_types=["full", "shared", "shared", "full"])
    assert [(block.repeat, block.attention) for block in model.blocks] == [(2, "mla"), (2, "mla_shared")]
    own, shared = model.attention["mla"], model.attention["mla_shared"]
    assert isinstance(own, Mla)
    assert isinstance(shared, Mla)
    assert own.indexer == Indexer(heads=4, head_dim=16, top_k=64)
    assert shared.indexer == Indexer(heads=4, head_dim=16, top_k=64, shared=True)
    assert "index_n_heads" in refusal(MLA, index_topk=64)


# ------------------------------------------------------------------------------------- compressed attention


def test_compressed_attention_and_its_mtp_layer() -> None:
    model = imported(COMPRESSED, num_nextn_predict_layers=1)
    sizes = {"heads": 8, "head_dim": 32, "q_lora_rank": 64, "o_lora_rank": 16, "o_groups": 4, "window": 128}
    indexer = Indexer(heads=4, head_dim=16, top_k=64)
    assert model.attention == {
        "compressed_128": CompressedAttention(**sizes, ratio=128),
        "compressed_4": CompressedAttention(**sizes, ratio=4, overlap=True, indexer=indexer),
        "window": CompressedAttention(**sizes),
    }
    assert [(block.repeat, block.attention) for block in model.blocks] == [(2, "compressed_128"), (2, "compressed_4")]
    assert model.mtp == Mtp(layers=1, attention="window", ffn="moe")  # the fifth entry of the list
    assert model.residual_streams == 4
    assert list(imported(COMPRESSED).attention) == ["compressed_128", "compressed_4"]  # no MTP layer, no fifth entry
    assert imported().residual_streams == 1


@pytest.mark.parametrize("key", ["head_dim", "q_lora_rank", "o_lora_rank", "o_groups", "sliding_window", "index_topk"])
def test_a_missing_size_of_compressed_attention(key: str) -> None:
    assert key in refusal({name: value for name, value in COMPRESSED.items() if name != key})


# ------------------------------------------------------------------------------------------------- windows


def test_layer_types() -> None:
    types = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]
    model = imported(layer_types=types, sliding_window=256)
    assert model.attention["window"] == Gqa(heads=8, kv_heads=2, head_dim=64, window=256)
    assert [(block.repeat, block.attention) for block in model.blocks] == [(3, "window"), (1, "full")]


def test_a_window_that_is_switched_off() -> None:
    assert list(imported(sliding_window=256, use_sliding_window=False).attention) == ["full"]
    off = imported(layer_types=["sliding_attention"] * 4, sliding_window=256, use_sliding_window=False)
    assert list(off.attention) == ["full"]


def test_a_window_without_a_word_about_which_layers() -> None:
    assert list(imported(model_type="mistral", sliding_window=256).attention) == ["window"]
    assert list(imported(model_type="novel", sliding_window=4096).attention) == ["full"], "no shorter than the context"
    assert "sliding_window" in refusal(model_type="novel", sliding_window=256)


def test_gemma_patterns() -> None:
    alternating = imported(model_type="gemma2", sliding_window=256)
    assert [(block.repeat, block.attention) for block in alternating.blocks] == [(2, "window"), (2, "full")]
    every_sixth = imported(model_type="gemma3_text", sliding_window=256, num_hidden_layers=12)
    assert [(block.repeat, block.attention) for block in every_sixth.blocks] == [(10, "window"), (2, "full")]
    other = imported(model_type="gemma3_text", sliding_window=256, sliding_window_pattern=2)
    assert [(block.repeat, block.attention) for block in other.blocks] == [(2, "window"), (2, "full")]


def test_gemma_4_global_layers_have_sizes_of_their_own() -> None:
    types = ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"]
    model = imported(
        model_type="gemma4_text", layer_types=types, sliding_window=256, global_head_dim=128,
        num_global_key_value_heads=1, attention_k_eq_v=True,
    )  # fmt: skip
    assert model.attention["full"] == Gqa(heads=8, kv_heads=1, head_dim=128, shared_kv=True)
    assert model.attention["window"] == Gqa(heads=8, kv_heads=2, head_dim=64, window=256)


def test_gemma_4_runs_a_dense_block_beside_the_experts() -> None:
    model = imported(MOE, model_type="gemma4_text", enable_moe_block=True)
    assert model.ffn == {"moe": MoeFfn(experts=16, top_k=2, intermediate=128, shared_intermediate=1024)}


def test_chunked_attention_on_three_of_four_layers() -> None:
    model = imported(model_type="llama4_text", attention_chunk_size=512)
    assert [(block.repeat, block.attention) for block in model.blocks] == [(3, "window"), (1, "full")]


def test_windowed_layers_with_heads_of_their_own() -> None:
    model = imported(
        hybrid_layer_pattern=[0, 1, 1, 0], sliding_window=128, head_dim=96, v_head_dim=64,
        swa_num_key_value_heads=4, swa_head_dim=96, swa_v_head_dim=64,
    )  # fmt: skip
    assert model.attention["full"] == Gqa(heads=8, kv_heads=2, head_dim=96, value_head_dim=64)
    assert model.attention["window"] == Gqa(heads=8, kv_heads=4, head_dim=96, value_head_dim=64, window=128)


# ------------------------------------------------------------------------------------------------- hybrids


def test_an_interval_of_full_attention() -> None:
    model = imported(**DELTA, model_type="qwen3_next", full_attention_interval=4, head_dim=128)
    assert model.attention["linear"] == GatedDelta(
        key_heads=4, value_heads=8, key_head_dim=32, value_head_dim=64, conv_width=4
    )
    assert model.attention["full"] == Gqa(heads=8, kv_heads=2, head_dim=128, output_gate=True)
    assert [(block.repeat, block.attention) for block in model.blocks] == [(3, "linear"), (1, "full")]
    assert "full_attention_interval" in refusal(**DELTA)


def test_a_pattern_of_letters() -> None:
    model = imported(MOE, **MAMBA, model_type="nemotron_h", hybrid_override_pattern="M*E-", mlp_hidden_act="relu2")
    assert [(block.attention, block.ffn) for block in model.blocks] == [
        ("mamba", None), ("full", None), (None, "moe"), (None, "dense"),
    ]  # fmt: skip
    assert model.attention["mamba"] == Mamba2(heads=8, head_dim=16, state_dim=32, groups=2, conv_width=4)
    assert model.ffn["dense"] == DenseFfn(intermediate=1024, matrices=2)


def test_a_pattern_in_words_may_be_all_that_says_how_many_layers() -> None:
    words = ["mamba", "moe", "attention"]
    model = imported(MOE, **MAMBA, model_type="nemotron_h", layers_block_type=words, num_hidden_layers=None)
    assert sum(block.repeat for block in model.blocks) == 3
    assert any("num_hidden_layers" in text for text in model.assumptions)


def test_a_pattern_of_the_wrong_length() -> None:
    assert "num_hidden_layers" in refusal(layer_types=["full_attention"] * 5)


def test_the_states_dtype() -> None:
    state = {"full_attention_interval": 4, **DELTA}
    assert any("fp32" in text for text in imported(**state).assumptions)
    linear = imported(**state, mamba_ssm_dtype="bfloat16").attention["linear"]
    assert isinstance(linear, GatedDelta)
    assert linear.state_dtype == "bf16"
    assert "mamba_ssm_dtype" in refusal(**state, mamba_ssm_dtype="float4")


@pytest.mark.parametrize(("full_rank", "gate_rank"), [(True, None), (False, 32)])
def test_kimi_delta_attention(full_rank: bool, gate_rank: int | None) -> None:
    sizes = {"full_attn_layers": [4], "num_heads": 4, "head_dim": 32, "short_conv_kernel_size": 4}
    model = imported(MLA, linear_attn_config={**sizes, "use_full_rank_gate": full_rank})
    assert model.attention["linear"] == GatedDelta(
        key_heads=4, value_heads=4, key_head_dim=32, value_head_dim=32, conv_width=4, decay_rank=32, gate_rank=gate_rank
    )
    assert [(block.repeat, block.attention) for block in model.blocks] == [(3, "linear"), (1, "mla")]


def test_layers_pruned_one_by_one() -> None:
    full = {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 3.0}}
    blocks = [full, {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.5}}, full, {**full, "ffn": {"no_op": True}}]
    model = imported(block_configs=blocks, num_key_value_heads=None, intermediate_size=None)
    # 2 x 3 x 512 / 3 = 1024; 512
    assert [(block.repeat, block.attention, block.ffn) for block in model.blocks] == [
        (2, "kv_2", "dense_1024"), (1, None, "dense_512"), (1, "kv_2", None),
    ]  # fmt: skip
    blocks[1] = {"attention": {"replace_with_linear": True}, "ffn": {"no_op": True}}
    assert "block_configs[1].attention.replace_with_linear" in refusal(block_configs=blocks)
    assert "block_configs" in refusal(block_configs=blocks[:2])


# ----------------------------------------------------------------------------------------- what is not held


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"compress_ratios": [4, 128]}, "names 2 layers of 4"),
        ({"compress_ratios": [0, 4, 8, 128]}, "a ratio of 8"),
        ({"compress_ratios": 4}, "expected a list"),
        ({"num_key_value_heads": 2, "compress_ratios": [0, 0, 0, 0]}, "2 KV heads"),
        ({"sparse_attention_config": {"sparse_topk_blocks": 16}}, "block-sparse"),
        ({"num_kv_shared_layers": 2}, "another layer's KV cache"),
        ({"hidden_size_per_layer_input": 256}, "embeddings for each layer"),
        ({"use_double_wide_mlp": True}, "double-wide"),
        ({"layer_types": ["full_attention"] * 3 + ["novel_attention"]}, "novel_attention"),
        ({"hybrid_override_pattern": "M*X-"}, "'X'"),
    ],
)
def test_attention_that_the_schema_cannot_hold_is_refused(changes: dict[str, Any], reason: str) -> None:
    message = refusal(**changes)
    assert reason in message
    assert next(iter(changes)) in message


def test_a_drafters_configuration_is_no_model() -> None:
    assert "drafter" in refusal(draft_vocab_size=500)


# ---------------------------------------------------------------------------------------------------- MTP


@pytest.mark.parametrize(
    ("changes", "layers"),
    [
        ({"num_nextn_predict_layers": 1}, 1),
        ({"mtp_num_hidden_layers": 2}, 2),
        ({"use_mtp": True, "num_mtp_modules": 3, "mtp_transformer_layers": 2}, 6),
    ],
)
def test_mtp_is_advertised(changes: dict[str, Any], layers: int) -> None:
    model = imported(**changes)
    assert model.mtp == Mtp(layers=layers, attention="full", ffn="dense")
    assert any("cannot show that the tensors exist" in text for text in model.assumptions)


def test_no_mtp() -> None:
    assert imported(num_nextn_predict_layers=0).mtp is None
    assert imported(use_mtp=False, num_mtp_modules=3).mtp is None


def test_mtp_of_a_mixture_and_of_a_hybrid() -> None:
    mixture = imported(MLA, num_nextn_predict_layers=1, first_k_dense_replace=1)
    assert mixture.mtp == Mtp(layers=1, attention="mla", ffn="moe")
    hybrid = imported(**DELTA, full_attention_interval=4, mtp_num_hidden_layers=1)
    assert hybrid.mtp == Mtp(layers=1, attention="full", ffn="dense")


def test_qwen3_next_has_mtp_without_a_key() -> None:
    model = imported(MOE, **DELTA, model_type="qwen3_next", full_attention_interval=4)
    assert model.mtp == Mtp(layers=1, attention="full", ffn="moe")
    assert any("without a key" in text for text in model.assumptions)


# -------------------------------------------------------------------------------------------- files, names


def test_a_folder_with_the_quantisation_in_a_file_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "Toy-2B-Instruct"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(DENSE), encoding="utf-8")
    side = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (folder / "hf_quant_config.json").write_text(json.dumps(side), encoding="utf-8")
    for path in (folder, folder / "config.json"):
        model = read_model(path)
        assert model.name == "toy-2b"
        assert (model.dtypes.weights, model.dtypes.lm_head, model.dtypes.kv) == ("nvfp4", "bf16", "fp8")
    assert read_model(folder, name="other").name == "other"


def test_a_repositorys_name_in_the_file_becomes_an_alias(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**DENSE, "_name_or_path": "maker/Toy-2B-Instruct"}), encoding="utf-8")
    model = read_model(path)
    assert (model.name, model.aliases) == ("toy-2b", ["maker/Toy-2B-Instruct"])


def test_json_that_is_not_strict(tmp_path: Path) -> None:
    path = tmp_path / "toy.json"
    path.write_text(json.dumps({**DENSE, "time_step_limit": [0.0, float("inf")]}), encoding="utf-8")
    assert "Infinity" in path.read_text(encoding="utf-8")
    assert read_model(path).hidden == 512


@pytest.mark.parametrize(("text", "reason"), [("{", "not JSON"), ("[1]", "expected a JSON object"), ("{}", "empty")])
def test_files_that_hold_no_configuration(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ProfileError, match=reason) as caught:
        read_model(path)
    assert str(path) in str(caught.value)


def test_no_file_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match="no such file"):
        read_model(tmp_path / "config.json")
    (tmp_path / "binary.json").write_bytes(b"\x80\xfe\x00")
    with pytest.raises(ProfileError, match="expected UTF-8 text, found the byte 0x80"):
        read_model(tmp_path / "binary.json")


@pytest.mark.parametrize(
    ("repository", "name"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"),
        ("Qwen/Qwen3-235B-A22B-FP8", "qwen3-235b-a22b-fp8"),
        ("google/gemma-3-1b-it", "gemma-3-1b"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron-3-nano-30b-a3b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b-v0.1"),
        ("///", "model"),
    ],
)
def test_names(repository: str, name: str) -> None:
    assert profile_name(repository) == name
