"""Hugging Face configurations made wrong, key by key, imported and used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from test_hf_config import COMPRESSED, DELTA, DENSE, MAMBA, MLA, MOE

from bad_inputs.judge import ended, faults, number_faults
from bad_inputs.trees import Place, places, text_of

Data = dict[str, Any]

BLOCK = {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 2.0}}
QUANTISED = {
    "quant_method": "compressed-tensors",
    "ignore": ["lm_head", "re:.*mlp.gate$", "model.layers.0.*"],
    "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group"}}},
    "kv_cache_scheme": {"num_bits": 8, "type": "float"},
}
MIXED = {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"model.layers.0.mlp.up_proj": {"quant_algo": "FP8"}}}

MODELS: dict[str, Data] = {
    "dense": {**DENSE, "head_dim": 64, "quantization_config": QUANTISED},
    "windows": {**DENSE, "sliding_window": 128, "layer_types": ["full_attention", "sliding_attention"] * 2},
    "mixture": {**MOE, "mlp_only_layers": [0], "decoder_sparse_step": 1, "quantization_config": MIXED},
    "latent": {**MLA, "first_k_dense_replace": 1, "n_shared_experts": 1, "num_nextn_predict_layers": 1, "index_topk": 8,
               "index_n_heads": 4, "index_head_dim": 16},
    "compressed": {**COMPRESSED, "num_nextn_predict_layers": 1},
    "pattern": {**DENSE, **MAMBA, "model_type": "nemotron_h", "hybrid_override_pattern": "M*-E", "num_experts": 8,
                "num_experts_per_tok": 2, "moe_intermediate_size": 64, "mamba_ssm_cache_dtype": "float32"},
    "delta": {**MOE, **DELTA, "full_attention_interval": 4, "quantization_config": {"quant_method": "fp8",
              "weight_block_size": [128, 128], "modules_to_not_convert": ["lm_head"]}},
    "kimi": {**DENSE, "model_type": "kimi_linear", "linear_attn_config": {"full_attn_layers": [4], "num_heads": 8,
             "head_dim": 64, "short_conv_kernel_size": 4}},
    "pruned": {**DENSE, "block_configs": [BLOCK] * 3 + [{"attention": {"no_op": True}, "ffn": BLOCK["ffn"]}]},
    "nested": {"text_config": {**DENSE}, "architectures": ["Toy"], "dtype": "bfloat16"},
    "lists": {**MOE, "num_experts": [16] * 4, "moe_layer_freq": [0, 1, 1, 1], "mlp_layer_types": ["sparse"] * 4},
}  # fmt: skip
DRAFTERS: dict[str, Data] = {
    "eagle3": {**DENSE, "num_hidden_layers": 1, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 500,
               "eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 2, 3]}},
    "dspark": {**DENSE, "architectures": ["DSparkDraftModel"], "block_size": 8,
               "layer_types": ["sliding_attention"] * 4, "sliding_window": 128,
               "dflash_config": {"target_layer_ids": [1, 2], "markov_rank": 16}},
}  # fmt: skip

NAME = "toy-import"
GRID = ("--batches", "1,32", "--draft-lengths", "0,2", "--format", "json")


def first_places(config: Data) -> list[Place]:
    """Where values stand; of a list's entries the first."""
    return [place for place in places(config) if all(not isinstance(step, int) or step == 0 for step in place)]


def judged(tree: Any, folder: Path, *, drafter: bool = False) -> list[str]:
    """What is wrong with how the commands end on a changed configuration."""
    file = folder / "config.json"
    file.write_text(text_of(tree, yaml=False), encoding="utf-8")
    named = ("--kind", "drafter", "--target", "llama-3.1-8b") if drafter else ("--kind", "model")
    found = ended("profiles", "import", str(file), "--name", NAME, *named)
    wrong = [f"import: {text}" for text in faults(found, (0, 3), *([str(file)] if found.code == 3 else []))]
    if found.code:
        return wrong
    made = folder / f"{NAME}.yaml"
    made.write_text(found.out, encoding="utf-8")
    checked = ended("profiles", "check", str(made))
    wrong += [f"check of the import: {text}" for text in faults(checked, (0, 3), report=True)]
    option = "--drafter" if drafter else "--model"
    with_it = () if drafter else ("--drafter", "ngram")
    for given in (file, made):
        used = ("sweep", option, str(given), *with_it, "--acceptance-rate", "0.5", *GRID)
        found = ended(*used)
        wrong += [f"{' '.join(used)}: {text}" for text in faults(found, (0, 3, 4))]
        if found.code == 0:
            wrong += [f"{' '.join(used)}: {text}" for text in number_faults(found.out)[:3]]
        elif found.code == 3:
            wrong.append(f"imported, yet not usable: {found.err[-300:]}")
    return wrong
