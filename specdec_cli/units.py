"""Named constants and conversions. Inside, everything is SI: seconds, bytes, FLOP; GB = 1e9, GiB = 2**30."""

from __future__ import annotations

KILO, MEGA, GIGA, TERA = 1e3, 1e6, 1e9, 1e12
GIB = 2**30
MS = 1e-3
US = 1e-6

BITS_PER_BYTE = 8

# Bytes of one stored weight, scales included.
# Block formats: payload bits + scale bits / block, as their specifications define them.
WEIGHT_BYTES: dict[str, float] = {
    "fp32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,  # e4m3, one scale a tensor or channel
    "fp8_block": 1.0 + 4 / (128 * 128),  # e4m3 with one fp32 scale for each 128 x 128 block (DeepSeek, Qwen3-FP8)
    "int8": 1.0 + 2 / 128,  # one fp16 scale for each 128 weights (GPTQ, AWQ groups)
    "int4": (4 + 16 / 128 + 4 / 128) / BITS_PER_BYTE,  # fp16 scale and 4-bit zero for each 128 weights
    "mxfp4": (4 + 8 / 32) / BITS_PER_BYTE,  # OCP MX: e8m0 scale for each 32
    "nvfp4": (4 + 8 / 16) / BITS_PER_BYTE,  # e4m3 scale for each 16
    "q8_0": (8 + 16 / 32) / BITS_PER_BYTE,  # GGUF: fp16 scale for each 32
    "q6_k": 6.5625 / BITS_PER_BYTE,  # GGUF super-block of 256: 210 bytes
    "q5_k": 5.5 / BITS_PER_BYTE,  # 176 bytes for 256
    "q4_k": 4.5 / BITS_PER_BYTE,  # 144 bytes for 256
    "q4_0": 4.5 / BITS_PER_BYTE,  # fp16 scale for each 32
}

# Bytes of one element of the KV cache.
KV_BYTES: dict[str, float] = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "q8_0": 34 / 32}

ACTIVATION_BYTES = 2.0  # activations travel between kernels in bf16
LOGIT_BYTES = 4.0  # logits are fp32
