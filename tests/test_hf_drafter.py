"""Importing the config.json of a draft head."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specdec_cli.errors import ProfileError
from specdec_cli.profiles.hf_drafter import drafter_from_config, is_draft, read_drafter
from specdec_cli.profiles.schema import Drafter, DraftHead

BASE: dict[str, Any] = {
    "num_hidden_layers": 1,
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "intermediate_size": 1024,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "torch_dtype": "float16",
}
EAGLE3 = {**BASE, "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 320}
BLOCK = {**BASE, "num_hidden_layers": 5, "block_size": 16, "dflash_config": {"target_layer_ids": [1, 5, 9, 13, 17]}}
DFLASH = {**BLOCK, "architectures": ["DFlashDraftModel"]}
DSPARK = {
    **BLOCK,
    "architectures": ["DSparkDraftModel"],
    "block_size": 7,
    "dflash_config": {"target_layer_ids": [1, 5, 9], "markov_rank": 64},
}


def imported(base: dict[str, Any], **changes: Any) -> Drafter:
    config = {key: value for key, value in {**base, **changes}.items() if value is not None}
    return drafter_from_config(config, name="toy-draft", targets=["toy"])


def refusal(base: dict[str, Any], **changes: Any) -> str:
    with pytest.raises(ProfileError) as caught:
        imported(base, **changes)
    return str(caught.value)


def head(**changes: Any) -> DraftHead:
    sizes: dict[str, Any] = {
        "layers": 1, "hidden": 512, "intermediate": 1024, "heads": 8, "kv_heads": 2, "head_dim": 128,
        "attention_input": 512, "draft_vocabulary": 1000, "own_lm_head": False,
    }  # fmt: skip
    return DraftHead(**{**sizes, **changes})


def test_eagle_3() -> None:
    drafter = imported(EAGLE3)
    assert drafter.mechanism == "eagle3"
    assert drafter.head == head(attention_input=1024, fc_in=1536, draft_vocabulary=320, own_lm_head=True)
    assert (drafter.weight_dtype, drafter.window_tokens, drafter.block) == ("fp16", 2048, None)
    assert drafter.targets == ["toy"]


def test_eagle_3_of_other_trainers() -> None:
    """Features counted in a list, of a target wider than the draft; the vocabulary whole; layers as the target's."""
    listed = imported(EAGLE3, eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 9]}, target_hidden_size=2048)
    assert listed.head == head(attention_input=1024, fc_in=4096, draft_vocabulary=320, own_lm_head=True)
    whole = imported(EAGLE3, draft_vocab_size=None, num_hidden_layers=24)
    assert whole.head == head(attention_input=1024, fc_in=1536, draft_vocabulary=1000, own_lm_head=True)
    assert any("No draft_vocab_size" in note for note in whole.notes)
    assert any("num_hidden_layers is 24" in note for note in whole.notes)


def test_the_mechanism_without_an_architecture() -> None:
    assert imported(EAGLE3, architectures=None).mechanism == "eagle3"
    assert imported(DFLASH, architectures=None).mechanism == "dflash"


def test_eagle_1_looks_like_a_model_of_one_layer() -> None:
    drafter = imported(BASE, architectures=["LlamaForCausalLM"])
    assert drafter.mechanism == "eagle"
    assert drafter.head == head(fc_in=1024, fc_every_pass=True)
    assert any("EAGLE-1" in note for note in drafter.notes)
    assert "architectures" in refusal(BASE, architectures=["LlamaForCausalLM"], num_hidden_layers=2)


def test_the_mechanism_can_be_given() -> None:
    drafter = drafter_from_config({**BASE, "num_hidden_layers": 8}, name="toy-draft", targets=[], mechanism="eagle")
    assert drafter.head == head(fc_in=1024, fc_every_pass=True)


def test_p_eagle() -> None:
    drafter = imported(EAGLE3, architectures=["PEagleDraftModel"], num_hidden_layers=4)
    assert drafter.mechanism == "p_eagle"
    assert drafter.head == head(layers=4, attention_input=1024, fc_in=1536, draft_vocabulary=320, own_lm_head=True)


def test_dflash() -> None:
    drafter = imported(DFLASH)
    assert drafter.mechanism == "dflash"
    assert drafter.head == head(layers=5, fc_in=5 * 512)
    assert (drafter.block, drafter.kv_window_tokens) == (16, None)


def test_dflash_with_a_window_and_without_a_block() -> None:
    types = ["sliding_attention"] * 4 + ["full_attention"]
    assert imported(DFLASH, layer_types=types, sliding_window=512).kv_window_tokens == 512
    assert imported(DFLASH, layer_types=types, sliding_window=512, use_sliding_window=False).kv_window_tokens is None
    unknown = imported(DFLASH, block_size=None)
    assert unknown.block is None
    assert any("No block_size" in note for note in unknown.notes)
    assert "target_layer_ids" in refusal(DFLASH, dflash_config={"mask_token_id": 1})


def test_dspark() -> None:
    drafter = imported(DSPARK)
    assert drafter.mechanism == "dspark"
    assert drafter.head == head(layers=5, fc_in=3 * 512, markov_rank=64)
    assert drafter.block == 7
    assert "markov_rank" in refusal(DSPARK, dflash_config={"target_layer_ids": [1]})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"architectures": ["DominoDraftModel"]}, "recurrent"),
        ({"kv_lora_rank": 512}, "latent attention"),
        ({"hidden_size": None}, "missing key hidden_size"),
        ({"intermediate_size": None}, "missing key intermediate_size"),
        ({"vocab_size": None}, "missing key vocab_size"),
    ],
)
def test_refused(changes: dict[str, Any], reason: str) -> None:
    assert reason in refusal(DFLASH, **changes)


def test_telling_a_draft_from_a_model() -> None:
    assert all(is_draft(config) for config in (EAGLE3, DFLASH, DSPARK, {"architectures": ["EagleModel"]}))
    assert not is_draft(BASE)
    assert not is_draft({**BASE, "architectures": ["LlamaForCausalLM"]})


def test_from_a_folder_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(EAGLE3), encoding="utf-8")
    for path in (tmp_path, tmp_path / "config.json"):
        assert read_drafter(path, name="toy-eagle3", targets=["toy"]).head == imported(EAGLE3).head
