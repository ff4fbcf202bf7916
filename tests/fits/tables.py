"""Measured kernel tables -> clean numpy columns in SI units (s, bytes, counts).

The tables are the parquet files of the PyPI package `aiconfigurator-core` (Apache-2.0): one row a kernel call, timed
on the chip that its folder names. They hold artefacts; whatever is dropped here is dropped with a comment that says
why, so that the fits and their held-out errors see the same rows.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray
from routing import balanced_distinct, exponent, power_law_distinct

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

MS, MEGA, GIGA, TERA = 1e-3, 1e6, 1e9, 1e12

FIT_SHARE = 30  # percent of the shapes that are fitted; the others are only ever predicted


@dataclass(frozen=True)
class Chip:
    """Datasheet figures of one chip: what the fitted fractions are fractions of. Never fitted."""

    name: str
    folder: str
    """Its folder in the package."""
    peak: dict[str, float]
    """Dense FLOP/s by compute dtype."""
    bandwidth: float
    """Bytes/s of device memory."""
    link: float
    """Bytes/s per direction between the GPUs of a replica."""
    l2: float
    """Bytes of the last-level cache."""


# Our names -> the package's folders. Its other folders are empty (a100_pcie, a30, h100_pcie, l4).
CHIPS = {
    "a100-sxm-80gb": "a100_sxm",
    "h100-sxm": "h100_sxm",
    "h200-sxm": "h200_sxm",
    "b200-sxm": "b200_sxm",
    "gb200-nvl72": "gb200",
    "b300-sxm": "b300_sxm",
    "gb300-nvl72": "gb300",
    "l40s": "l40s",
    "rtx-pro-6000-server": "rtx_pro_6000_server",
    "arc-pro-b60": "b60",
}

# Cache sizes that the profiles lack, or that the tables contradict: on the L40S, whose data sheet prints 48 MB, a state
# of 100 MB is read faster than the memory allows (gated-delta table): the die's 96 MB.
CACHE_MB = {"l40s": 96.0, "gb300-nvl72": 126.0, "arc-pro-b60": 18.0}

PROFILES = Path(__file__).parents[2] / "profiles" / "hardware"


def datasheet(name: str) -> Chip:
    """The datasheet figures of a chip, from its hardware profile."""
    profile = yaml.safe_load((PROFILES / f"{name}.yaml").read_text(encoding="utf-8"))
    return Chip(
        name,
        CHIPS[name],
        {dtype: tflops * TERA for dtype, tflops in profile["peak_tflops"].items()},
        profile["memory_bandwidth_gb_per_s"] * GIGA,
        profile["link"]["gb_per_s"] * GIGA,
        (CACHE_MB.get(name) or profile["l2_mb"]) * MEGA,
    )


ENGINES = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}  # our name -> the package's folder

SLOWEST_NVLINK = 100 * GIGA  # per direction: above every PCIe slot, below NVLink 3

MIN_LATENCY = "moe_torch_flow_min_latency"

DTYPES = {"bfloat16": "bf16", "float16": "bf16", "fp8": "fp8", "fp8_block": "fp8_block", "nvfp4": "nvfp4"}
DTYPES |= {"int8_wo": "int8", "int4_wo": "int4", "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4_w4a8"}


def packaged_tables() -> Path:
    """Folder of the installed package's tables."""
    found = importlib.util.find_spec("aiconfigurator_core")
    if found is None or found.origin is None:
        raise SystemExit("install aiconfigurator-core (0.12.0), or name a folder with --tables")
    return Path(found.origin).parent / "systems" / "data"


class Table:
    """One parquet file: columns by name, and which file it is."""

    def __init__(self, rows: pa.Table, label: str) -> None:
        self.rows = rows
        self.label = label

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def floats(self, *names: str) -> list[Floats]:
        """Columns as float64; a column that the file lacks is all zeros (older files have no `window_size`)."""
        columns = set(self.rows.column_names)
        zeros = np.zeros(len(self))
        return [self.rows[n].to_numpy().astype(np.float64) if n in columns else zeros for n in names]

    def text(self, name: str) -> NDArray[np.object_]:
        return np.asarray(self.rows[name].to_pylist(), dtype=object)

    def where(self, keep: Flags) -> Table:
        return Table(self.rows.filter(pa.array(keep)), self.label)


def _version(path: Path) -> list[int]:
    """Sort key of a version folder: 1.3.0rc20 after 1.3.0rc10."""
    return [int(part) for part in re.findall(r"\d+", path.parent.name)]


def read(tables: Path, chip: Chip, operation: str, engine: str, name: str) -> Table | None:
    """The newest version's table of an operation, or None.

    A release that only adds a few shapes to the one before it (a fifth of TensorRT-LLM's MoE tables) is passed over:
    the newest with at least half as many rows as the largest counts as the newest.
    """
    folder = ENGINES.get(engine, engine)
    paths = sorted((tables / chip.folder / operation / folder).glob(f"*/{name}.parquet"), key=_version)
    if not paths:
        return None
    sizes = [pq.read_metadata(path).num_rows for path in paths]
    newest = [path for path, size in zip(paths, sizes, strict=True) if size >= max(sizes) / 2][-1]
    return Table(pq.read_table(newest), f"{folder} {newest.parent.name} {name}")


def fitted(*shape: Floats) -> Flags:
    """True for rows whose shape belongs to the fitted share.

    The hash is of the shape alone: every row of a shape (each batch, token count, context) falls on the same side, so
    a held-out error is an error on shapes never seen. The shape's numbers are hashed as decimal text: the split is
    the same on every machine and in every engine's table.
    """
    keys = np.stack(shape, axis=1)
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    side = [
        int(hashlib.sha256(",".join(f"{x:g}" for x in key).encode()).hexdigest()[:8], 16) % 100 < FIT_SHARE
        for key in unique
    ]
    return np.asarray(side, dtype=np.bool_)[inverse.reshape(-1)]


def most_common(values: Iterable[object]) -> str:
    """The commonest of some names, the first by alphabet of equals; "" of none."""
    values = list(values)
    if not values:
        return ""
    names, counts = np.unique(np.asarray(values, dtype=str), return_counts=True)
    return str(names[np.argmax(counts)])


# ---------------------------------------------------------------------------------------------- one reader a family


@dataclass(frozen=True)
class Columns:
    """Rows of one chip, engine and dtype: named columns, measured seconds, and which rows are fitted."""

    label: str
    values: dict[str, Floats]
    seconds: Floats
    fit: Flags

    def part(self, keep: Flags) -> Columns:
        return Columns(self.label, {k: v[keep] for k, v in self.values.items()}, self.seconds[keep], self.fit[keep])


def gemm_tables(tables: Path, chip: Chip, engine: str) -> Iterator[tuple[str, Columns]]:
    """Dense GEMMs (M, K) x (K, N) by weight dtype: columns m, n, k. n, k >= 512; m <= 8192."""
    table = read(tables, chip, "gemm", engine, "gemm_perf")
    if table is None:
        return
    dtype = table.text("gemm_dtype")
    for raw in sorted(set(dtype)):
        if raw not in DTYPES:  # smooth-quant: no engine profile uses it
            continue
        if raw == "fp8_block" and engine == "vllm":  # three kernels in one table, two speeds: no form fits both
            continue
        part = table.where(dtype == raw)
        m, n, k, ms = part.floats("m", "n", "k", "latency")
        # Below 512 a "GEMM" is a launch; above 8192 rows it is prefill at a clock that the power limit sets.
        domain = (n >= 512) & (k >= 512) & (m <= 8192)
        yield (
            DTYPES[raw],
            Columns(table.label, {"m": m, "n": n, "k": k}, ms * MS, fitted(n, k)).part(domain),
        )


def attention_tables(tables: Path, chip: Chip, engine: str, windowed: bool = False) -> Iterator[tuple[str, Columns]]:
    """Decode attention by KV dtype: columns requests, heads, kv_heads, head_dim, context, window."""
    table = read(tables, chip, "attention", engine, "generation_attention_perf")
    if table is None:
        return
    kv_dtype = table.text("kv_cache_dtype")
    for raw in sorted(set(kv_dtype)):
        if raw not in DTYPES:
            continue
        part = table.where(kv_dtype == raw)
        names = ("batch_size", "num_heads", "num_key_value_heads", "head_dim", "window_size")
        requests, heads, kv_heads, head_dim, window = part.floats(*names)
        isl, step, ms = part.floats("isl", "step", "latency")
        context, group = isl + step, heads / kv_heads
        kernel = part.text("kernel_source")
        keep = window == 0
        # A context under 128 is one tile of keys: such rows time the query and output traffic of thousands of
        # requests, which no decode step has.
        keep &= context >= 128
        # 192 and 512 go to another kernel (Triton, FA4) that is 2-5 times slower, or to none.
        keep &= np.isin(head_dim, (64.0, 128.0, 256.0))
        # One kernel a table, not the fallback of a few shapes. Windowed rows are held against the same kernel without a
        # window, and only where the window cuts something off; 8192 keys are hardly a window.
        same = kernel == most_common(kernel[keep])
        keep &= same
        if windowed:
            keep = (window > 0) & (window <= 1024) & (context >= 2 * window) & same & np.isin(head_dim, (64, 128, 256))
        if engine == "tensorrt-llm":
            keep &= group < 48  # dispatch hole: 4-10 times slower from 48 query heads per KV head on
        if engine == "sglang":
            keep &= ~((head_dim == 256) & np.isin(group, (3.0, 6.0)))  # dispatch hole, twice as slow
        values = {"requests": requests, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
        values |= {"context": context, "window": window}
        columns = Columns(table.label, values, ms * MS, fitted(heads, kv_heads, head_dim))
        yield DTYPES[raw], columns.part(keep)


def mla_tables(tables: Path, chip: Chip, engine: str) -> Iterator[tuple[str, Columns]]:
    """Absorbed MLA decode by KV dtype: columns requests, heads, context."""
    table = read(tables, chip, "mla", engine, "generation_mla_perf")
    if table is None:
        return
    kv_dtype = table.text("kv_cache_dtype")
    for raw in sorted(set(kv_dtype)):
        if raw not in DTYPES:
            continue
        part = table.where(kv_dtype == raw)
        requests, heads, isl, step, ms = part.floats("batch_size", "num_heads", "isl", "step", "latency")
        values = {"requests": requests, "heads": heads, "context": isl + step}
        columns = Columns(table.label, values, ms * MS, fitted(heads, requests))
        yield DTYPES[raw], columns.part(isl + step >= 128)  # as for attention


def moe_tables(tables: Path, chip: Chip, engine: str, skewed: bool = False) -> Iterator[tuple[str, Columns]]:
    """Routed experts of one layer on one GPU, by weight dtype: columns tokens, hidden, intermediate (of this GPU),
    experts and top_k (of this GPU: divided by the expert parallelism), distinct (experts touched). T = 1..4096.

    Balanced routing, which is fitted; `skewed`: power-law routing on one rank, which is only ever predicted.
    """
    table = read(tables, chip, "moe", engine, "moe_perf")
    if table is None:
        return
    dtype = table.text("moe_dtype")
    for raw in sorted(set(dtype)):
        if raw not in DTYPES:
            continue
        part = table.where(dtype == raw)
        tokens, hidden, inter, top_k, experts = part.floats(
            "num_tokens", "hidden_size", "inter_size", "topk", "num_experts"
        )
        tp, ep, ms = part.floats("moe_tp_size", "moe_ep_size", "latency")
        # `balanced` rows are fitted: the experts that they touch are known. (Read as uniform routing they look faster
        # than the memory near T k = E: not an artefact.) Of power-law rows only the expected count is.
        routing = part.text("distribution")
        alpha = np.array([exponent(name) for name in routing])
        keep = tokens <= 4096
        # Two-matrix experts (22 of 512, and 2688 x 1856) run kernels that are untuned in some engines.
        keep &= ~((top_k == 22) | ((hidden == 2688) & (inter == 1856)))
        # Slices under 128 wide and ranks with under 8 experts: layouts that replicas do not use, at the kernels' edges.
        keep &= (inter / tp >= 128) & (experts / ep >= 8)
        keep &= top_k >= ep  # beyond, a token has no expert on most ranks; the table does not say which rank it times
        balanced = keep & (routing == "balanced")
        # Of several ranks, skewed rows time the fullest: how full it was, the table does not say.
        keep = keep & ~np.isnan(alpha) & (ep == 1) if skewed else balanced
        if not balanced.any() or not keep.any():
            continue
        kernel = part.text("kernel_source")
        # One kernel a table: the commonest, but for TensorRT-LLM's nvfp4 on B200, where the one that the engine picks
        # by itself stands beside CUTLASS and takes half its time. (The B300 tables hold CUTLASS only.)
        wanted = most_common(kernel[balanced])
        if MIN_LATENCY in kernel[balanced]:
            wanted = MIN_LATENCY
        keep &= kernel == wanted
        values = {"tokens": tokens, "hidden": hidden, "intermediate": inter / tp}
        values |= {"experts": experts / ep, "top_k": top_k / ep}
        values["distinct"] = balanced_distinct(tokens, values["experts"], values["top_k"])
        label = f"{table.label} {wanted}"
        columns = Columns(label, values, ms * MS, fitted(hidden, inter, top_k, experts, tp, ep)).part(keep)
        if skewed:
            v = columns.values
            v["distinct"] = power_law_distinct(v["tokens"], v["experts"], v["top_k"], alpha[keep])
        yield DTYPES[raw], columns


def all_reduce_tables(tables: Path, chip: Chip, engine: str) -> Iterator[tuple[int, Columns]]:
    """All-reduce in CUDA graphs by number of GPUs: column message (bytes), up to 16 MB."""
    table = read(tables, chip, "comm", engine, "custom_allreduce_perf")
    if table is None:
        return
    eager = np.asarray(["eager" in str(name) for name in table.text("kernel_source")])
    gpus, elements, ms = table.floats("num_gpus", "message_size", "latency")
    message = 2.0 * elements  # the tables count bf16 elements
    for n in (2, 4, 8):
        # Eager rows time the host (20-120 us whatever the size); above 16 MB a message is prefill.
        keep = (gpus == n) & ~eager & (message <= 16 * 2**20)
        if keep.sum() >= 8:
            columns = Columns(table.label, {"message": message}, ms * MS, fitted(elements))
            yield n, columns.part(keep)


def library_tables(tables: Path, chip: Chip) -> Iterator[tuple[int, Columns]]:
    """All-reduce by NCCL from 4 MB on, where engines hand it over: column message (bytes). Half floats are fitted,
    bytes held out. Over PCIe it is what the engines call at every size: nothing to tell apart."""
    table = read(tables, chip, "comm", "nccl", "nccl_perf")
    if table is None or chip.link < SLOWEST_NVLINK:
        return
    table = table.where(table.text("op_name") == "all_reduce")
    half = np.asarray(table.text("nccl_dtype") == "half", dtype=np.bool_)
    gpus, elements, ms = table.floats("num_gpus", "message_size", "latency")
    message = np.where(half, 2.0, 1.0) * elements
    for n in (2, 4, 8):
        keep = (gpus == n) & (message >= 4 * 2**20)
        if keep.sum() >= 8:
            yield n, Columns(table.label, {"message": message}, ms * MS, half).part(keep)


def gated_delta_tables(tables: Path, chip: Chip, engine: str) -> tuple[Columns, Columns] | None:
    """Gated delta rule, decode: (recurrent kernel, convolution), columns requests, state (bytes per request)."""
    table = read(tables, chip, "linear_attention", engine, "gdn_perf")
    if table is None:
        return None
    table = table.where(table.text("phase") == "generation")
    kernel = table.text("kernel_source")
    requests, value_heads, key_dim, value_dim, ms = table.floats(
        "batch_size", "num_v_heads", "head_k_dim", "head_v_dim", "latency"
    )
    state = value_heads * key_dim * value_dim * 4.0  # the state is kept in fp32
    columns = Columns(table.label, {"requests": requests, "state": state}, ms * MS, fitted(value_heads, requests))
    conv = np.asarray(["conv" in str(name) for name in kernel])
    return columns.part(~conv), columns.part(conv)
