"""A config.json that is wrong: each key that holds the wrong thing is refused by name, with what was expected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_hf_config import COMPRESSED, DELTA, DENSE, MLA, MOE, imported, refusal

from specdec_cli.errors import ProfileError
from specdec_cli.profiles.hf_reader import read_json

WHOLE = {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 3.0}}


def blocks(**changes: Any) -> list[Any]:
    """Layers pruned one by one (DeciLM), the second of four with these changes."""
    return [WHOLE, {**WHOLE, **changes}, WHOLE, WHOLE]


# (configuration, changes, the key that the refusal names, what it says)
WRONG: list[tuple[dict[str, Any], dict[str, Any], str, str]] = [
    (DENSE, {"num_hidden_layers": 5000}, "num_hidden_layers", "at most 1,000"),
    (DENSE, {"hidden_size": 2 * 10**9}, "hidden_size", "at most 1,000,000,000"),
    (DENSE, {"layer_types": "full_attention"}, "layer_types", "expected a list of names"),
    (DENSE, {"layer_types": [1, 2, 3, 4]}, "layer_types", "expected a list of names"),
    (DENSE, {"tie_word_embeddings": "yes"}, "tie_word_embeddings", "expected true or false"),
    (DENSE, {"use_sliding_window": 1, "sliding_window": 128}, "use_sliding_window", "expected true or false"),
    (DENSE, {"linear_attn_config": 3}, "linear_attn_config.full_attn_layers", "missing key"),
    ({**DENSE, **DELTA}, {}, "full_attention_interval", "which layers of the hybrid"),
    (MOE, {"mlp_only_layers": 2}, "mlp_only_layers", "expected a list"),
    (COMPRESSED, {"compress_ratios": "4"}, "compress_ratios", "expected a list"),
    (DENSE, {"block_configs": blocks(ffn=None)}, "block_configs[1].ffn", "missing key"),
    (DENSE, {"block_configs": blocks(attention={"n_heads_in_group": 0})}, "block_configs[1].attention", "missing key"),
    (DENSE, {"block_configs": blocks(ffn={"ffn_mult": "3"})}, "block_configs[1].ffn.ffn_mult", "missing key"),
    (DENSE, {"block_configs": blocks(ffn={"intermediate_size": True})}, "ffn.intermediate_size", "missing key"),
    (DENSE, {"block_configs": [WHOLE, 4, WHOLE, WHOLE]}, "block_configs[1].attention", "missing key"),
]


@pytest.mark.parametrize(
    ("base", "changes", "key", "reason"), WRONG, ids=[f"{key} {reason}" for _, _, key, reason in WRONG]
)
def test_the_wrong_thing_under_a_key_is_refused_by_name(
    base: dict[str, Any], changes: dict[str, Any], key: str, reason: str
) -> None:
    message = refusal(base, **changes)
    assert key in message
    assert reason in message


def test_a_pruned_layers_width_may_be_said_outright() -> None:
    model = imported(
        block_configs=blocks(ffn={"intermediate_size": 700}), num_key_value_heads=None, intermediate_size=None
    )
    assert model.ffn["dense_700"].intermediate == 700  # type: ignore[union-attr]


# How many of the four layers look at a window, by the rule of each family
WINDOWS: list[tuple[dict[str, Any], int]] = [
    ({"hybrid_layer_pattern": [0, 1, 1, 0], "sliding_window": 128}, 2),
    ({"model_type": "gemma2", "sliding_window": 128}, 2),
    (
        {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 3, "sliding_window": 128},
        1,
    ),
    ({"model_type": "mistral", "sliding_window": 4096}, 0),  # as long as the context: none
    ({"model_type": "mistral", "sliding_window": 128}, 4),
    ({"model_type": "mistral", "sliding_window": 128, "use_sliding_window": False}, 0),
]


@pytest.mark.parametrize(("changes", "expected"), WINDOWS, ids=[str(changes) for changes, _ in WINDOWS])
def test_how_many_layers_look_at_a_window(changes: dict[str, Any], expected: int) -> None:
    model = imported(DENSE, **changes)
    windowed = {name for name, one in model.attention.items() if getattr(one, "window", None) is not None}
    assert sum(block.repeat for block in model.blocks if block.attention in windowed) == expected


FILES = [
    ("not JSON", '{"a": 1,\n "b"}', ":2", "is not JSON"),
    ("a list", "[1]", "", "expected a JSON object, found"),
    ("too deep", "[" * 100_000, "", "nested too deep"),
    ("too long a number", '{"a": 1234567890123456789}', "", "at most 18 digits, found 19"),
    ("a key twice", '{"a": 1, "b": {"c": 1, "c": 2}}', ": c", "given twice in one object"),
]


@pytest.mark.parametrize(("text", "place", "reason"), [row[1:] for row in FILES], ids=[row[0] for row in FILES])
def test_a_file_that_is_no_configuration(tmp_path: Path, text: str, place: str, reason: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, "utf-8")
    with pytest.raises(ProfileError) as caught:
        read_json(path)
    assert f"{path}{place}" in str(caught.value)
    assert reason in str(caught.value)


def test_mla_is_refused_where_a_rank_is_text() -> None:
    assert "kv_lora_rank" in refusal(MLA, kv_lora_rank="32")
