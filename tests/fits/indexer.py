"""The indexer of sparse attention: what a layer's module takes with it beyond the same module without.

The package times whole attention modules. TensorRT-LLM and vLLM: DeepSeek-V3.2's module (indexer + attention over
2048 tokens) less DeepSeek-V3's (the same layer, dense) at a context of 2048. SGLang: GLM-5's module less GLM-5.2's,
which takes its indices from a layer before. What remains is two small projections, priced as the GEMMs that they are,
and the scan with its top-k, fitted here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from search import Constants, fit
from tables import MS, Chip, Columns, Floats, fitted, read

from specdec_cli.physics import roofline
from specdec_cli.physics.chip import INDEX_KEY_BYTES
from specdec_cli.profiles.schema import GemmKernel
from specdec_cli.units import US, WEIGHT_BYTES

TOP_K = 2048
KEY_DIM = 128
# Hidden size, query rank, indexer heads (config.json of the two).
SIZES = {"DeepseekV32ForCausalLM": (7168.0, 1536.0, 64.0), "GlmMoeDsaForCausalLM": (6144.0, 2048.0, 32.0)}
DENSE_BASE = "DeepseekV32ForCausalLM"  # has a dense twin in the tables: DeepSeek-V3
SHARED_BASE = "GlmMoeDsaForCausalLM"  # has a twin that skips its indexer: GLM-5.2

INDEXER_START = {"floor_us": (40.0, 1.0, 300.0), "eta_m": (0.5, 0.02, 1.0)}


def module_rows(tables: Path, chip: Chip, engine: str) -> tuple[str, Columns] | None:
    """(architecture, columns requests, context and without [s, the module without indexer]) of bf16 projections.

    The KV cache is fp8 where the tables have it, as these models are served. Contexts from 4096 on: up to 2048 the
    scan chooses nothing, and right above it TensorRT-LLM takes a path 100 us slower. Up to 128 requests: beyond, the
    gather of the sparse attention, not the scan, makes the difference.
    """
    sparse = read(tables, chip, "sparse_attention", engine, "dsa_generation_module_perf")
    if sparse is None:
        return None
    kernel = sparse.text("kernel_source")
    skips = np.asarray(["skip_indexer" in str(name) for name in kernel])
    architecture = SHARED_BASE if skips.any() else DENSE_BASE
    without = sparse.where(skips) if skips.any() else read(tables, chip, "mla", engine, "mla_generation_module_perf")
    if without is None:
        return None
    sparse = sparse.where(~skips & (sparse.text("architecture") == architecture))
    kv = "fp8" if "fp8" in sparse.text("kv_cache_dtype") and "fp8" in without.text("kv_cache_dtype") else "bfloat16"
    sparse, without = (
        table.where((table.text("gemm_type") == "bfloat16") & (table.text("kv_cache_dtype") == kv))
        for table in (sparse, without)
    )
    names = ("num_heads", "batch_size", "isl", "step", "latency")
    heads, requests, isl, step, ms = without.floats(*names)
    base = dict(zip(zip(heads, requests, isl + step, strict=True), ms * MS, strict=True))
    heads, requests, isl, step, ms = sparse.floats(*names)
    context = isl + step
    at = context if skips.any() else np.full_like(context, TOP_K + 1.0)  # the tables' context is 2^n + 1
    other = np.asarray([base.get(key, np.nan) for key in zip(heads, requests, at, strict=True)])
    keep = np.isfinite(other) & (context >= 2 * TOP_K) & (requests <= 128)
    columns = Columns(
        sparse.label,
        {"requests": requests, "context": context, "without": other},
        ms * MS,
        fitted(requests, context),  # the scan does not see the attention heads
    )
    return architecture, columns.part(keep)


def fit_indexer(tables: Path, chip: Chip, engine: str, gemm: dict[str, Any]) -> dict[str, Any]:
    """floor_us and eta_m of the scan; the errors are of the whole module's time. `gemm`: the bf16 GEMM's fit."""
    found = module_rows(tables, chip, engine)
    if found is None:
        return {}
    architecture, columns = found
    hidden, rank, index_heads = SIZES[architecture]
    kernel = GemmKernel(**{name: gemm[name] for name in GemmKernel.__struct_fields__ if name in gemm})

    def linear(m: Floats, n: float, k: float) -> Floats:
        figures: dict[str, Any] = {"peak": chip.peak["bf16"], "bandwidth": chip.bandwidth, "kernel": kernel}
        return roofline.gemm_seconds(m, n, k, WEIGHT_BYTES["bf16"], **figures).seconds

    def model(c: Constants, v: dict[str, Floats]) -> Floats:
        requests, context = v["requests"], v["context"]
        projections = linear(requests, index_heads * KEY_DIM, rank) + linear(requests, KEY_DIM + index_heads, hidden)
        keys = requests * context * KEY_DIM
        scan = 2 * keys * index_heads / chip.peak.get("fp8", chip.peak["bf16"])
        scan += keys * INDEX_KEY_BYTES / (c["eta_m"] * chip.bandwidth) + c["floor_us"] * US
        total: Floats = v["without"] + projections + scan
        return total

    return fit(model, INDEXER_START, columns)
