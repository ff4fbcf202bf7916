"""Two small Llama models in GGUF, made here: a target and a draft model that agrees with it often, not always.

No training and no download. Every token has two successors, A and B. The head gives A's embedding-match a small,
token-dependent edge over B's; the layers, random weights, add what depends on the context and so choose between the
two. The draft model is the target's first layers with its embedding and head: it sees part of that sum, hence guesses
most choices right. What the layers add falls with depth, so more layers in the draft would agree more.
Two stores of the same weights: f32, where a plain step on a CPU waits for memory and verified tokens partly ride
along, and q8_0, where it computes about as long as it reads, and they do not.

Run by the engine's Python, which has `gguf` and numpy: python tiny_models.py FOLDER f32
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
STORES = {"f32": 32.0, "q8_0": 8.5}
"""Bits per weight."""
VOCABULARY = 4096
HIDDEN = 1024
INTERMEDIATE = 2816
HEADS, KV_HEADS, HEAD_DIM = 16, 4, 64
TARGET_LAYERS, DRAFT_LAYERS = 12, 1
CONTEXT = 2048
SPECIAL = 3 + 256
"""Tokens that no text holds: unknown, begin, end, and the 256 bytes."""
EDGE = 0.15
"""The largest edge of A over B, a share of the match."""
FIRST_LAYER, DECAY = 0.9, 0.65
"""What a layer adds, relative to the embedding, and how that falls from layer to layer."""
SHARP = 2.0
"""Standard deviation of attention scores: sharp enough that single tokens of the context count."""
BLOCK = 32
UNIFORM_STD = 127 / np.sqrt(3.0)
"""Standard deviation of a uniform int8."""


@dataclass(frozen=True, slots=True)
class Shape:
    name: str
    layers: int


TARGET, DRAFT = Shape("tiny-target", TARGET_LAYERS), Shape("tiny-draft", DRAFT_LAYERS)


def random_matrix(rng: np.random.Generator, rows: int, columns: int, std: float, store: str) -> Array:
    """int8 values times one fp16 scale: float32 (rows, columns), or q8_0's bytes (rows, columns / 32 * 34)."""
    whole = rng.integers(-127, 128, (rows, columns), dtype=np.int8)
    scale = np.float16(std / UNIFORM_STD)
    if store == "f32":
        return whole.astype(np.float32) * np.float32(scale)
    blocks = np.empty((rows, columns // BLOCK, BLOCK + 2), dtype=np.uint8)
    blocks[:, :, 2:] = whole.reshape(rows, -1, BLOCK).view(np.uint8)
    blocks[:, :, :2] = np.frombuffer(scale.tobytes(), dtype=np.uint8)
    return blocks.reshape(rows, -1)


def embedding_and_head(seed: int) -> tuple[Array, Array]:
    """(vocabulary, hidden) each, float32: unit entries, and the sum of what precedes each token."""
    rng = np.random.default_rng(seed)
    embedding = rng.choice(np.array([-1.0, 1.0], dtype=np.float32), (VOCABULARY, HIDDEN))
    words = np.arange(SPECIAL, VOCABULARY)
    edge = rng.uniform(0.0, EDGE, (VOCABULARY, 1)).astype(np.float32)
    head = np.zeros_like(embedding)
    for share in (np.ones_like(edge), 1.0 - edge):
        head[rng.permutation(words)] += (share * embedding)[words]
    return embedding, head / np.float32(HIDDEN) * 16.0


def write(folder: Path, shape: Shape, store: str, seed: int = 7) -> Path:
    """The model's GGUF and, beside it, the config.json that it would have on the hub."""
    import gguf

    file = folder / f"{shape.name}.gguf"
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_name(shape.name)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(VOCABULARY)
    writer.add_file_type(gguf.LlamaFileType["ALL_F32" if store == "f32" else f"MOSTLY_{store.upper()}"])
    _tokens(writer, gguf.TokenType)

    dtype = gguf.GGMLQuantizationType[store.upper()]
    embedding, head = embedding_and_head(seed)
    for name, matrix in (("token_embd", embedding), ("output", head)):
        writer.add_tensor(f"{name}.weight", gguf.quantize(matrix, dtype), raw_dtype=dtype)
    ones = np.ones(HIDDEN, dtype=np.float32)
    writer.add_tensor("output_norm.weight", ones)
    for layer in range(shape.layers):
        rng = np.random.default_rng([seed, layer])  # the draft's layers are the target's
        adds = FIRST_LAYER * DECAY**layer
        query = SHARP**0.5 / HIDDEN**0.5
        parts = {
            "attn_q": (HEADS * HEAD_DIM, HIDDEN, query),
            "attn_k": (KV_HEADS * HEAD_DIM, HIDDEN, query),
            "attn_v": (KV_HEADS * HEAD_DIM, HIDDEN, HIDDEN**-0.5),
            "attn_output": (HIDDEN, HEADS * HEAD_DIM, 3.0 * adds * (HEADS * HEAD_DIM) ** -0.5),
            "ffn_gate": (INTERMEDIATE, HIDDEN, HIDDEN**-0.5),
            "ffn_up": (INTERMEDIATE, HIDDEN, HIDDEN**-0.5),
            "ffn_down": (HIDDEN, INTERMEDIATE, 2.0 * adds * INTERMEDIATE**-0.5),
        }
        for name, (rows, columns, std) in parts.items():
            matrix = random_matrix(rng, rows, columns, std, store)
            writer.add_tensor(f"blk.{layer}.{name}.weight", matrix, raw_dtype=dtype)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", ones)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (folder / shape.name).mkdir(exist_ok=True)
    (folder / shape.name / "config.json").write_text(json.dumps(config(shape), indent=2))
    return file


def _tokens(writer: Any, kind: Any) -> None:
    special = ["<unk>", "<s>", "</s>"]
    tokens = special + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += [f"▁w{number}" for number in range(VOCABULARY - len(tokens))]
    kinds = [kind.UNKNOWN, kind.CONTROL, kind.CONTROL] + [kind.BYTE] * 256
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds + [kind.NORMAL] * (VOCABULARY - len(kinds)))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)


def config(shape: Shape) -> dict[str, Any]:
    """As transformers would state it; `specdec profiles import` reads it."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }


def main() -> None:
    folder, store = Path(sys.argv[1]), sys.argv[2]
    folder.mkdir(parents=True, exist_ok=True)
    for shape in (TARGET, DRAFT):
        print(write(folder, shape, store))


if __name__ == "__main__":
    main()
