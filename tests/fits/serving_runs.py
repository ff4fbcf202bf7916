"""Published serving runs without speculation, mapped onto the shipped profiles.

The rows are those of `serving_base.csv`: runs of InferenceX (SemiAnalysis, Apache-2.0) and of aiconfigurator's own
clusters (ai-dynamo, Apache-2.0), as aiconfigurator bundles them. What a row does not say and the launch scripts of
InferenceX (github SemiAnalysisAI/InferenceX, benchmarks/*.sh) do stands here: the dtype of the KV cache, and that
prompts and answers are drawn between 0.8 and 1 of the nominal length. Not part of the wheel.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from specdec_cli.physics.chip import resolve_chip
from specdec_cli.physics.layers import Layout, head_dtype, resolve_dtypes, target_operations
from specdec_cli.physics.memory import MemoryBill, memory_bill
from specdec_cli.physics.serving import Workload, serving_step_model, serving_times
from specdec_cli.physics.step import StepModel
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.schema import Engine, KvDtype, WeightDtype
from specdec_cli.units import MS

INFERENCEX_MEAN_LENGTH = 0.9
"""Mean of lengths drawn evenly from 0.8 to 1 of the nominal one (`--random-range-ratio 0.8`)."""

CHIPS = {
    "h100_sxm": "h100-sxm",
    "h200_sxm": "h200-sxm",
    "b200_sxm": "b200-sxm",
    "b300_sxm": "b300-sxm",
    "gb200": "gb200-nvl72",
}
ENGINES = {"vllm": "vllm", "trtllm": "tensorrt-llm", "sglang": "sglang"}

# Columns tp, attention_dp, moe_tp, moe_ep -> (tp, GPUs, ep). Where experts are spread they hold products of the sizes.
LAYOUTS = {
    (64, 1, 8, 8): (8, 8, 8),
    (16, 1, 4, 4): (4, 4, 4),
    (4, 1, 2, 2): (2, 2, 2),
    (1, 64, 8, 8): (1, 8, 8),
    (1, 16, 4, 4): (1, 4, 4),
    (1, 8, 1, 8): (1, 8, 8),
    (1, 4, 4, 1): (1, 4, 1),
    (4, 4, 1, 16): (1, 4, 4),
    (2, 2, 1, 4): (1, 2, 2),
    # Attention data-parallel without a column that says so: one GPU cannot hold the model.
    (1, 1, 2, 1): (1, 2, 1),
    (1, 1, 4, 1): (1, 4, 1),
}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What is loaded for a model path at a precision: a shipped profile, and parts stored otherwise."""

    model: str
    weights: WeightDtype | None = None
    """Every part but the head and those below; None: as the profile ships."""
    attention: WeightDtype | None = None


# (last part of the model path, precision column) -> checkpoint. nvfp4 checkpoints of mixtures keep attention in bf16
# (their quantisation configs exclude it); gpt-oss is MXFP4 experts and bf16 attention whatever the label says.
CHECKPOINTS: dict[tuple[str, str], Checkpoint] = {
    ("DeepSeek-R1", "fp8"): Checkpoint("deepseek-r1", weights="fp8_block"),
    ("DeepSeek-V3", "fp8"): Checkpoint("deepseek-r1", weights="fp8_block"),
    ("DeepSeek-R1", "fp4"): Checkpoint("deepseek-r1", weights="nvfp4", attention="bf16"),
    ("DeepSeek-V3", "fp4"): Checkpoint("deepseek-r1", weights="nvfp4", attention="bf16"),
    ("GLM-5", "fp4"): Checkpoint("glm-5-nvfp4"),
    ("Kimi-K2.5", "fp4"): Checkpoint("kimi-k2.5-nvfp4"),
    ("Kimi-K2.5", "int4"): Checkpoint("kimi-k2.5"),
    ("Llama-3.1-70B", "fp8"): Checkpoint("llama-3.1-70b", weights="fp8"),
    ("Llama-3.1-70B", "fp4"): Checkpoint("llama-3.1-70b", weights="nvfp4"),
    ("Llama-3.1-8B-Instruct", ""): Checkpoint("llama-3.1-8b"),
    ("Llama-3.1-8B-Instruct", "fp8"): Checkpoint("llama-3.1-8b", weights="fp8"),
    ("Llama-3.1-8B-Instruct-FP8", "fp8"): Checkpoint("llama-3.1-8b", weights="fp8"),
    ("MiniMax-M2.5", "fp8"): Checkpoint("minimax-m2.5", weights="fp8_block"),
    ("MiniMax-M2.5", "fp4"): Checkpoint("minimax-m2.5-nvfp4"),
    ("Qwen3-235B-A22B-FP8", "fp8"): Checkpoint("qwen3-235b-a22b-fp8", weights="fp8_block"),
    ("Qwen3-32B", ""): Checkpoint("qwen3-32b"),
    ("Qwen3-32B", "fp8"): Checkpoint("qwen3-32b", weights="fp8"),
    ("Qwen3-32B", "fp4"): Checkpoint("qwen3-32b", weights="nvfp4"),
    ("Qwen3-32B-NVFP4", "fp4"): Checkpoint("qwen3-32b", weights="nvfp4"),
    ("Qwen3.5-397B-A17B", "bf16"): Checkpoint("qwen3.5-397b-a17b"),
    ("Qwen3.5-397B-A17B", "fp8"): Checkpoint("qwen3.5-397b-a17b", weights="fp8_block"),
    ("Qwen3.5-397B-A17B", "fp4"): Checkpoint("qwen3.5-397b-a17b-nvfp4"),
    ("gpt-oss-120b", "fp4"): Checkpoint("gpt-oss-120b"),
    ("gpt-oss-120b", "fp8"): Checkpoint("gpt-oss-120b"),
}

# KV dtype where the launch script states it or leaves `auto` on a bf16 model. First match of (model, chip, engine,
# precision), `*` for any. The clusters of aiconfigurator publish no scripts: bf16, but fp8 where TensorRT-LLM runs an
# fp8 checkpoint (its quantisation recipe sets both).
KV: tuple[tuple[tuple[str, str, str, str], KvDtype], ...] = (
    (("DeepSeek-*", "h200_sxm", "sglang", "*"), "bf16"),
    (("DeepSeek-*", "*", "*", "*"), "fp8"),
    (("GLM-5", "*", "*", "*"), "fp8"),
    (("Kimi-K2.5", "*", "*", "fp4"), "fp8"),  # auto: the checkpoint carries KV scales
    (("Llama-3.1-70B", "*", "*", "*"), "fp8"),
    (("MiniMax-M2.5", "*", "*", "fp4"), "fp8"),  # auto: the checkpoint carries KV scales
    (("MiniMax-M2.5", "h200_sxm", "*", "*"), "fp8"),
    (("Qwen3.5-397B-A17B", "*", "*", "fp8"), "fp8"),
    (("Qwen3.5-397B-A17B", "*", "*", "fp4"), "fp8"),
    (("gpt-oss-120b", "b200_sxm", "*", "*"), "fp8"),
    (("Qwen3-32B", "*", "trtllm", "fp8"), "fp8"),
    (("Qwen3-235B-A22B-FP8", "*", "trtllm", "*"), "fp8"),
    (("Qwen3-32B*", "*", "trtllm", "fp4"), "fp8"),
    (("*", "*", "*", "*"), "bf16"),
)


@dataclass(frozen=True, slots=True)
class Run:
    """One measured serving point without speculation."""

    id: str
    hardware: str
    engine: str
    version: str
    measured: str
    """Date, or empty."""
    precision: str
    checkpoint: Checkpoint
    kv: KvDtype
    layout: Layout
    concurrency: float
    """Requests in flight on one replica."""
    input_tokens: int
    output_tokens: int
    """Means of what was sent."""
    lock_step: bool
    """Whether all lengths are the same, so that requests that start together end together."""
    tpot_s: float
    configuration: str
    """Model, chip, engine, precision, layout, nominal lengths: rows that share it are fitted or held out together."""
    unfit: str
    """Why it is not compared; empty: it is."""

    @property
    def held_out(self) -> bool:
        """Whether it belongs to the half of the configurations that no fit sees."""
        return hashlib.sha256(self.configuration.encode()).digest()[0] % 2 == 1


def load_runs(file: Path) -> list[Run]:
    """Every row of `file`, those that are not compared with the reason."""
    with file.open(encoding="utf-8", newline="") as text:
        return [_run(row) for row in csv.DictReader(text)]


def _measurement(run: Run) -> tuple[str, float, str]:
    """What rows of one measurement share; dumps of different dates round differently."""
    return run.configuration, run.concurrency, f"{run.tpot_s:.4g}"


def _run(row: dict[str, str]) -> Run:
    model = row["model_path"].rsplit("/", 1)[-1]
    origin = row["silicon_data_source"]
    key = tuple(int(float(row[name] or 1)) or 1 for name in _PARALLEL)
    tp, gpus, ep = LAYOUTS.get(key, (key[0], key[0], key[3]))  # type: ignore[call-overload]
    layout = Layout(tp=tp, gpus=gpus, ep=ep if gpus % ep == 0 else 1)
    stated = re.search(r"silicon_concurrency=(\d+)", origin)
    batch = float(row["batch_size"])
    # Several replicas behind one router: the batch column is one replica's. Attention ranks share a replica.
    concurrency = batch * layout.ranks if "aic-auto-gap" in origin or stated is None else float(stated[1])
    share = 1.0 if "aic-auto-gap" in origin else INFERENCEX_MEAN_LENGTH
    measured = re.search(r"measured=(\d{4}-\d\d-\d\d)", origin)
    date = measured[1] if measured else ""
    precision = row["precision"] or "bf16"
    return Run(
        id=row["id"],
        hardware=CHIPS[row["system"]],
        engine=ENGINES[row["backend"]],
        version=row["backend_version"],
        measured=date,
        precision=precision,
        checkpoint=CHECKPOINTS[model, row["precision"]],
        kv=_kv_dtype(model, row["system"], row["backend"], row["precision"]),
        layout=layout,
        concurrency=concurrency,
        input_tokens=round(share * float(row["isl"])),
        output_tokens=round(share * float(row["osl"])),
        lock_step=share == 1.0,
        tpot_s=float(row["silicon_tpot_ms"]) * MS,
        configuration="/".join(
            [
                CHECKPOINTS[model, row["precision"]].model,
                CHIPS[row["system"]],
                ENGINES[row["backend"]],
                precision,
                f"tp{tp}-gpus{gpus}-ep{ep}",
                f"{row['isl']}-{row['osl']}",
            ]
        ),
        unfit=_unfit(model, row, date, tp),
    )


_PARALLEL = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")


def _kv_dtype(*row: str) -> KvDtype:
    return next(dtype for wanted, dtype in KV if all(_matches(w, r) for w, r in zip(wanted, row, strict=True)))


def _matches(wanted: str, found: str) -> bool:
    return found.startswith(wanted[:-1]) if wanted.endswith("*") else found == wanted


def _unfit(model: str, row: dict[str, str], date: str, tp: int) -> str:
    """Why a row is not compared: rules on what it says, none on how well it is predicted."""
    system, engine, version = row["system"], row["backend"], row["backend_version"]
    if system == "gb200" and tp >= 12:
        return DISAGGREGATED
    if model.startswith("DeepSeek") and engine == "trtllm" and date in _MTP_DATES:
        return "speculates: half the TPOT of the same configuration days before and after, converging with the batch"
    if model.startswith("Qwen3.5") and row["precision"] == "fp8" and version == "0.5.9" and tp == 4:
        return "speculates: 0.6 of the TPOT of the next version at C = 4, equal at C = 128"
    if system == "gb200" and model == "Qwen3-32B" and version == "1.3.0rc1":
        return "stalls: 8 ms for one request, 42 ms for two"
    if system == "h200_sxm" and engine == "vllm" and model.startswith("Qwen3-235B"):
        return "launch-bound, no graphs: 52-58 ms whatever the batch (4 to 18) and layout"
    if system == "h200_sxm" and engine == "vllm" and model == "Llama-3.1-8B-Instruct-FP8":
        return "prompts come from a cache: prefill alone would need more than the datasheet's FLOP/s"
    if system == "h100_sxm" and model == "gpt-oss-120b" and date in ("2025-12-05", "2025-12-08"):
        return "queues: at C = 512 below the time of reading weights and KV, TTFT 20 to 460 s"
    return ""


DISAGGREGATED = "prefill and decode on separate GPUs"  # another machine than one replica: cannot be priced

# Runs of TensorRT-LLM's DeepSeek configurations with MTP, filed without it.
_MTP_DATES = ("2026-01-14", "2026-02-05", "2026-02-06")


def compared(runs: Sequence[Run], *, marked: bool = False) -> list[Run]:
    """The runs that are compared, each measurement once; `marked`: those that something speaks against, too."""
    seen: set[tuple[str, float, str]] = set()
    found = []
    for run in runs:
        wanted = not run.unfit or (marked and run.unfit != DISAGGREGATED)
        if wanted and _measurement(run) not in seen:
            seen.add(_measurement(run))
            found.append(run)
    return found


# --------------------------------------------------------------------------------------------- predictions


@dataclass(frozen=True, slots=True)
class Place:
    """What runs of one load on one machine share, beside their concurrency."""

    hardware: str
    engine: str
    checkpoint: Checkpoint
    kv: KvDtype
    layout: Layout
    workload: Workload


@dataclass(frozen=True, slots=True)
class Predictor:
    """TPOT of runs by the shipped profiles, or with other constants of the engines."""

    runs: Sequence[Run]
    places: dict[Place, list[int]]
    models: dict[Place, tuple[StepModel, MemoryBill, Engine]]

    def tpot_s(self, constants: dict[str, dict[str, float]] | None = None) -> NDArray[np.float64]:
        """Predicted TPOT of every run. constants: engine -> overheads in place of the profile's."""
        found = np.zeros(len(self.runs))
        one = np.ones((1, 1))
        for place, rows in self.places.items():
            step, memory, engine = self.models[place]
            own = (constants or {}).get(place.engine, {})
            overheads = msgspec.structs.replace(step.overheads, **own)
            served = serving_step_model(replace(step, overheads=overheads))
            concurrency = np.array([[self.runs[row].concurrency] for row in rows])
            times = serving_times(served, memory, place.workload, concurrency, 0 * one, one, one, engine.prefill)
            found[rows] = times.tpot_s[:, 0]
        return found


def predictor(library: Library, runs: Sequence[Run]) -> Predictor:
    """Everything that does not depend on an engine's constants."""
    places: dict[Place, list[int]] = {}
    for row, run in enumerate(runs):
        workload = Workload(run.input_tokens, run.output_tokens, run.lock_step)
        place = Place(run.hardware, run.engine, run.checkpoint, run.kv, run.layout, workload)
        places.setdefault(place, []).append(row)
    return Predictor(runs, places, {place: _model(library, place) for place in places})


def _model(library: Library, place: Place) -> tuple[StepModel, MemoryBill, Engine]:
    """A checkpoint may keep some parts in other dtypes than a shipped profile does, so this goes past `resolve`."""
    hardware, engine = library.hardware(place.hardware).record, library.engine(place.engine).record
    model = library.model(place.checkpoint.model).record
    dtypes = resolve_dtypes(model.dtypes, kv_dtype=place.kv)
    weights = place.checkpoint.weights
    if weights is not None:
        dtypes = msgspec.structs.replace(
            dtypes,
            attention=place.checkpoint.attention or weights,
            ffn=weights,
            experts=weights,
            lm_head=head_dtype(weights),
        )
    operations = target_operations(model, place.layout, dtypes)
    chip = resolve_chip(hardware, engine, place.kv)
    step = StepModel(chip, engine.overheads, tuple(operations), None, place.layout.ranks)
    context = place.workload.context
    bill = memory_bill(hardware, engine, model, operations, dtypes.lm_head, place.layout, None, context, place.kv)
    return step, bill, engine
