"""Parameter counts, cache and state: by hand for a few models, against published counts for every shipped profile."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from specdec_cli.profiles.parameters import (
    active_parameters,
    count_parameters,
    indexer_bytes_per_token,
    kv_bytes_per_token,
    lm_head_weights,
    mtp_parameters,
    recurrent_state_bytes,
    weight_dtype,
    window_kv_bytes,
)
from specdec_cli.profiles.schema import Model

MODELS = Path(__file__).parent.parent / "profiles" / "models"
NAMES = sorted(path.stem for path in MODELS.glob("*.yaml"))

# Names whose printed count is another one than ours, and why. Everything else must agree.
PUBLISHED_EXCEPTIONS = {
    "gpt-oss-120b": "the name says 120B for 116.8",
    "nemotron-3-nano-30b-a3b": "the name says 30B for 31.6",
    "nemotron-3-nano-30b-a3b-nvfp4": "the name says 30B for 31.6",
    "nemotron-3.5-lightning-30b-a3b-nvfp4": "the name says 30B for 31.6",
    "glm-4.5": "355B is with the MTP layer: 352.8 + 4.0 = 356.8",
}


def load(name: str) -> Model:
    data: Any = yaml.safe_load((MODELS / f"{name}.yaml").read_text(encoding="utf-8"))
    return msgspec.convert(data, Model)


def test_llama_3_1_8b_by_hand() -> None:
    """Meta's checkpoint has 8,030,261,248 parameters (model card); here is where they are."""
    count = count_parameters(load("llama-3.1-8b"))
    assert count.embedding == count.lm_head == 128256 * 4096
    assert count.attention == 32 * (4096 * 4096 + 2 * 4096 * 1024 + 4096 * 4096)
    assert count.dense_ffn == 32 * 3 * 4096 * 14336
    assert count.norms == 32 * 2 * 4096 + 4096
    assert count.experts == count.shared_experts == count.router == count.mtp == 0
    assert count.total == 8_030_261_248


def test_llama_3_2_1b_shares_its_vocabulary_matrix() -> None:
    """1,235,814,400 parameters (model card: 1.23 B): the head is the embedding, and is read all the same."""
    model = load("llama-3.2-1b")
    assert count_parameters(model).lm_head == 0
    assert count_parameters(model).total == 1_235_814_400
    assert lm_head_weights(model) == 128256 * 2048


def test_deepseek_v3_by_hand() -> None:
    """README_WEIGHTS.md of deepseek-ai/DeepSeek-V3: 671 B, MTP module 11.5 B of its own."""
    model = load("deepseek-v3")
    count = count_parameters(model)
    # q: 7168 x 1536, 1536 x 128 x 192; kv: 7168 x 576, 512 x 128 x 256; o: 128 x 128 x 7168
    attention = 7168 * 1536 + 1536 * 24576 + 7168 * 576 + 512 * 32768 + 16384 * 7168
    expert = 3 * 7168 * 2048
    assert count.attention == 61 * attention
    assert count.dense_ffn == 3 * 3 * 7168 * 18432
    assert count.experts == 58 * 256 * expert
    assert count.shared_experts == 58 * expert
    assert count.router == 58 * 7168 * 256
    assert round(count.total / 1e9) == 671
    # fusion of two hidden states, one layer, five norms
    assert mtp_parameters(model) == 2 * 7168**2 + attention + 257 * expert + 7168 * 256 + 5 * 7168
    assert mtp_parameters(model) == pytest.approx(11.5e9, rel=0.01)


def test_deepseek_v3_caches_the_latent() -> None:
    """512 + 64 values a layer, whatever the heads: 61 x 576 x 2 B = 70,272 B a token."""
    model = load("deepseek-v3")
    assert kv_bytes_per_token(model) == 61 * 576 * 2
    assert kv_bytes_per_token(model, "fp8") == 61 * 576
    assert window_kv_bytes(model) == recurrent_state_bytes(model) == indexer_bytes_per_token(model) == 0


def test_gpt_oss_20b_has_windows_on_half_its_layers() -> None:
    """12 full layers grow, 12 stop at 128 tokens; 8 KV heads of 64, keys and values, 2 B."""
    model = load("gpt-oss-20b")
    assert kv_bytes_per_token(model) == 12 * 8 * 64 * 2 * 2
    assert window_kv_bytes(model) == 12 * 8 * 64 * 2 * 2 * 128


def test_qwen3_next_keeps_a_state() -> None:
    """36 layers with 32 heads of 128 x 128 in fp32, and 3 tokens of 8192 convolved channels in bf16."""
    model = load("qwen3-next-80b-a3b")
    assert recurrent_state_bytes(model) == 36 * (32 * 128 * 128 * 4 + 8192 * 3 * 2)
    assert kv_bytes_per_token(model) == 12 * 2 * 256 * 2 * 2


def test_gemma_4_caches_keys_and_values_from_one_projection() -> None:
    model = load("gemma-4-26b-a4b")
    assert kv_bytes_per_token(model) == 5 * 2 * 512 * 2 * 2


def test_glm_5_2_counts_an_indexer_only_where_a_layer_has_its_own() -> None:
    """21 of 78 layers scan; the others take their indices: 743.911 B with an indexer each, 743.377 B so."""
    assert indexer_bytes_per_token(load("glm-5.2"), "bf16") == 21 * 128 * 2
    assert indexer_bytes_per_token(load("glm-5.1"), "bf16") == 78 * 128 * 2
    indexer = 2048 * 32 * 128 + 6144 * 128 + 6144 * 32
    difference = count_parameters(load("glm-5.1")).total - count_parameters(load("glm-5.2")).total
    assert difference == 57 * indexer


def test_deepseek_v4_flash_by_hand() -> None:
    """Sizes of DeepseekV4ForCausalLM in transformers; the same configuration there has 284.332 B parameters."""
    model = load("deepseek-v4-flash")
    count = count_parameters(model)
    # q: 4096 x 1024, 1024 x 64 x 512; kv: 4096 x 512; o: 64 x 512 x 1024 in groups, 8 x 1024 x 4096; norms and sinks
    every = 4096 * 1024 + 1024 * 32768 + 4096 * 512 + 32768 * 1024 + 8192 * 4096 + 1024 + 512 + 64
    # value and gate of 2 x (512 + 128), a bias for each of 4 positions; the indexer's queries and head weights
    indexed = (2 * 4096 + 4) * 2 * 640 + 640 + 1024 * 64 * 128 + 4096 * 64
    pooled = (2 * 4096 + 128) * 512 + 512
    assert count.attention == 43 * every + 21 * indexed + 20 * pooled
    # two sub-layers a layer, each with a norm and 24 rows over 4 streams; one row a stream before the head
    streams = 24 * (4 * 4096 + 1) + 3
    assert count.norms == 86 * (4096 + streams) + 4096 + 4 * (4 * 4096 + 1) + 1
    assert count.total / 1e9 == pytest.approx(284.332, abs=0.0006)
    assert count_parameters(load("deepseek-v4-pro")).total / 1e9 == pytest.approx(1572.997, abs=0.0006)
    # the MTP layer: fusion and its three norms, a windowed layer with its own streams
    moe = 257 * 3 * 4096 * 2048 + 4096 * 256
    assert count.mtp == 2 * 4096**2 + 3 * 4096 + every + moe + 2 * (4096 + streams)


@pytest.mark.parametrize(("name", "indexed", "pooled", "window_only"), [("flash", 21, 20, 2), ("pro", 30, 31, 0)])
def test_deepseek_v4_caches_an_entry_for_some_tokens_and_a_window(
    name: str, indexed: int, pooled: int, window_only: int
) -> None:
    """One head of 512: an entry for 4 tokens or for 128, an index key of 128 for 4, and 128 tokens in every layer."""
    model = load(f"deepseek-v4-{name}")
    assert kv_bytes_per_token(model) == 512 * 2 * (indexed / 4 + pooled / 128)
    assert indexer_bytes_per_token(model, "bf16") == 128 * 2 * indexed / 4
    assert window_kv_bytes(model) == (indexed + pooled + window_only) * 512 * 2 * 128
    assert kv_bytes_per_token(model) + indexer_bytes_per_token(model) == {"flash": 6880, "pro": 9848}[name]


def test_mixtral_activates_two_of_eight() -> None:
    model = load("mixtral-8x7b")
    count = count_parameters(model)
    assert active_parameters(model) == count.total - count.experts * 6 // 8


def test_parts_add_up() -> None:
    for name in NAMES:
        count = count_parameters(load(name))
        assert count.total == sum(count) - count.mtp
        assert all(part >= 0 for part in count)


def test_dtypes_of_parts() -> None:
    """gpt-oss quantises its experts alone; DeepSeek-V3 everything but the vocabulary matrices (and routers, norms)."""
    oss, deepseek = load("gpt-oss-120b"), load("deepseek-v3")
    assert [weight_dtype(oss, part) for part in ("experts", "attention", "lm_head")] == ["mxfp4", "bf16", "bf16"]
    assert [weight_dtype(deepseek, part) for part in ("experts", "attention", "dense_ffn")] == ["fp8_block"] * 3
    assert [weight_dtype(deepseek, part) for part in ("lm_head", "embedding", "router", "norms")] == ["bf16"] * 4


@pytest.mark.parametrize("name", NAMES)
def test_total_against_an_exact_count(name: str) -> None:
    """Within 1 % of the count that the profile gives (rounded to 1e6 there)."""
    model = load(name)
    expected = model.parameters.total_b
    if expected is None:
        assert model.parameters.published_total, "a profile has a count to check against"
        return
    assert count_parameters(model).total / 1e9 == pytest.approx(expected, rel=0.01, abs=5e-4)


@pytest.mark.parametrize("name", NAMES)
def test_published_counts_within_their_rounding(name: str) -> None:
    """Makers round or cut to the digit that they print; an exception that no longer is one must go."""
    assert _published_agree(load(name)) is (name not in PUBLISHED_EXCEPTIONS)


def test_every_exception_names_a_profile() -> None:
    assert set(PUBLISHED_EXCEPTIONS) <= set(NAMES)


def _published_agree(model: Model) -> bool:
    """Total and active; makers leave none, one or both vocabulary matrices out of the active ones."""
    published, matrix, active = model.parameters, lm_head_weights(model), active_parameters(model)
    counts = {
        published.published_total: [count_parameters(model).total],
        published.published_active: [active, active - matrix, active - 2 * matrix],
    }
    return all(_agrees(printed, computed) for printed, computed in counts.items() if printed is not None)


def _agrees(printed: str, counts: list[int]) -> bool:
    match = re.fullmatch(r"([\d.]+)([MBT])", printed)
    assert match, f"a count such as 8B or 1.6T: {printed}"
    digits, unit = match.group(1), {"M": 1e6, "B": 1e9, "T": 1e12}[match.group(2)]
    last_digit = unit * 10.0 ** -len(digits.partition(".")[2])
    return any(abs(count - float(digits) * unit) < last_digit for count in counts)
