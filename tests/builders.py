"""Tiny valid profiles for tests, as plain data: change one thing, write it, load it.

The toy numbers are round so that an expected value fits on one line: 1e12 FLOP/s, 1e11 B/s, every achieved
fraction 1, no launch cost, parts that add up. Import as `from builders import ...`: pytest puts `tests/` on
the path.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import yaml

from specdec_cli.profiles.kinds import KIND_FOLDERS, RECORDS

Data = dict[str, Any]


def toy_source(**changes: Any) -> Data:
    """One entry of `sources`."""
    return {"from": "a made-up figure of this test", "checked": "2026-01-31", "kind": "assumed", **changes}


def _profile(kind: str, name: str, body: Data, changes: Data) -> Data:
    head = {"format": 1, "kind": kind, "name": name, "sources": {"*": toy_source()}}
    return copy.deepcopy({**head, **body, **changes})


def toy_gemm(**changes: Any) -> Data:
    """A GEMM kernel that reaches every peak: time = FLOPs / peak + bytes / bandwidth."""
    ideal = {"compute": "bf16", "eta_c": 1.0, "eta_m": 1.0, "tau_us": 0.0, "overlap_exponent": 1.0}
    return {**ideal, **changes}


def toy_kernels(**changes: Any) -> Data:
    """A whole kernel set without floors or launch costs."""
    return {
        "gemm": {"bf16": toy_gemm(), "fp8": toy_gemm(compute="fp8", eta_q=1.0)},
        "attention": {"bf16": {"floor_us": 0.0, "eta_m": 1.0, "eta_c": 1.0}},
        "mla": {"bf16": {"eta_m": 1.0, "eta_c": 1.0, "tau_us": 0.0, "tau_l_us": 0.0, "overlap_exponent": 1.0}},
        "moe": {
            "bf16": {
                "compute": "bf16",
                "eta_c": 1.0,
                "eta_m": 1.0,
                "eta_a": 1.0,
                "overlap_exponent": 1.0,
                "tau_us": 0.0,
            }
        },
        "all_reduce": {
            2: {"latency_us": 10.0, "efficiency": 1.0},
            4: {"latency_us": 20.0, "efficiency": 1.0},
        },
        "linear_attention": {"floor_us": 0.0, "conv_us": 0.0, "eta_m": 1.0},
        "small_kernels_us_per_layer": 0.0,
        "eager_us_per_layer": 0.0,
        **changes,
    }


def toy_hardware(name: str = "toy-chip", **changes: Any) -> Data:
    """1e12 FLOP/s in bf16 (2e12 in fp8), 1e11 B/s, 10 GB, a link of 10 GB/s among 4."""
    body = {
        "vendor": "Toy",
        "architecture": "toy",
        "memory_gb": 10.0,
        "memory_bytes": 1.0e10,
        "memory_bandwidth_gb_per_s": 100.0,
        "peak_tflops": {"bf16": 1.0, "fp8": 2.0},
        "link": {"technology": "toy link", "gb_per_s": 10.0, "peer_gb_per_s": 10.0, "domain_gpus": 4},
        "fitted": False,
        "kernels": {"default": toy_kernels()},
    }
    return _profile("hardware", name, body, changes)


def toy_model(name: str = "toy-model", **changes: Any) -> Data:
    """10 dense layers of hidden 1000, 8 query and 2 KV heads of 125 (G = 4), vocabulary 10,000, bf16.

    Weights in 1e6: a layer is q 1 + k, v 0.5 + o 1 + feed-forward 12 = 14.5; ten are 145; embedding and head
    10 each: 165 without norms. KV: 2 x 2 x 125 x 2 bytes = 1000 B a token and layer, 10 kB a token.
    """
    body = {
        "maker": "Toy",
        "aliases": [],
        "hidden": 1000,
        "vocabulary": 10000,
        "tied_embeddings": False,
        "max_context": 8192,
        "attention": {"full": {"type": "gqa", "heads": 8, "kv_heads": 2, "head_dim": 125}},
        "ffn": {"dense": {"type": "dense", "intermediate": 4000}},
        "blocks": [{"repeat": 10, "attention": "full", "ffn": "dense"}],
        "dtypes": {"weights": "bf16", "kv": "bf16"},
        "parameters": {"total_b": 0.165, "published_total": "0.165B"},
    }
    return _profile("model", name, body, changes)


def toy_moe_model(name: str = "toy-moe", **changes: Any) -> Data:
    """`toy_model` with 16 experts of width 1000, 2 chosen for a token, in every layer."""
    body = {"ffn": {"moe": {"type": "moe", "experts": 16, "top_k": 2, "intermediate": 1000}}}
    blocks = [{"repeat": 10, "attention": "full", "ffn": "moe"}]
    return toy_model(name, **{**body, "blocks": blocks, "parameters": {}, **changes})


def toy_hybrid_model(name: str = "toy-model", **changes: Any) -> Data:
    """`toy_model` with six of its ten layers recurrent: a state of 8 x 100 x 50 x 4 bytes and (2 x 400 + 400) x 3 x 2
    bytes of convolution in each."""
    full = {"type": "gqa", "heads": 8, "kv_heads": 2, "head_dim": 125}
    heads = {"key_heads": 4, "value_heads": 8, "key_head_dim": 100, "value_head_dim": 50}
    linear = {"type": "gated_delta", **heads, "conv_width": 4}
    blocks = [
        {"repeat": 6, "attention": "linear", "ffn": "dense"},
        {"repeat": 4, "attention": "full", "ffn": "dense"},
    ]
    return toy_model(name, attention={"full": full, "linear": linear}, blocks=blocks, parameters={}, **changes)


def toy_head(**changes: Any) -> Data:
    """An EAGLE-3 layer of the toy model's own sizes with a draft vocabulary of 2000."""
    return {
        "layers": 1,
        "hidden": 1000,
        "intermediate": 4000,
        "heads": 8,
        "kv_heads": 2,
        "head_dim": 125,
        "attention_input": 2000,
        "fc_in": 3000,
        "draft_vocabulary": 2000,
        "own_lm_head": True,
        **changes,
    }


def toy_drafter(
    name: str = "toy-model-eagle3", mechanism: str = "eagle3", target: str = "toy-model", **changes: Any
) -> Data:
    """A drafter with the fields that its mechanism needs."""
    body: Data = {"mechanism": mechanism, "targets": [target]}
    if mechanism in ("eagle", "eagle3", "dflash", "dspark", "p_eagle", "pard", "medusa"):
        body["head"] = toy_head()
    if mechanism in ("dflash", "dspark"):
        body["block"] = 8
    if mechanism == "dspark":
        body["head"]["markov_rank"] = 256
    if mechanism == "medusa":
        body["head"]["parallel_heads"] = 4
    if mechanism == "draft_model":
        body["model"] = "toy-small"
    if mechanism == "self":
        body["kv_window_tokens"] = 512
    if mechanism in ("ngram", "suffix"):
        body["targets"] = []
    return _profile("drafter", name, body, changes)


def toy_acceptance(
    name: str = "toy-model-eagle3-chat",
    target: str = "toy-model",
    drafter: str = "toy-model-eagle3",
    **changes: Any,
) -> Data:
    """AL 1.7, 2.2, 2.8 at D = 1, 2, 4; a_i given at D = 2."""
    body = {
        "target": target,
        "drafter": drafter,
        "data_set": "toy chat",
        "temperature": 0.0,
        "measured_by": "this test",
        "points": [
            {"draft_length": 1, "acceptance_length": 1.7},
            {
                "draft_length": 2,
                "acceptance_length": 2.2,
                "per_position": [0.7, 0.5],
                "per_position_kind": "measured",
            },
            {"draft_length": 4, "acceptance_length": 2.8},
        ],
    }
    return _profile("acceptance", name, body, changes)


def toy_overheads(**changes: Any) -> Data:
    """An engine that costs nothing."""
    zero = dict.fromkeys(
        ("step_ms", "serving_step_ms", "speculation_ms", "draft_pass_ms", "per_request_us", "lookup_ms"), 0.0
    )
    return {**zero, **changes}


def toy_engine(name: str = "toy-engine", **changes: Any) -> Data:
    """No overhead, all of the memory usable."""
    body = {
        "family": name,
        "version": "1.0",
        "date": "2026-01",
        "kernels": "default",
        "cuda_graphs": True,
        "overheads": toy_overheads(),
        "fitted_sweeps": 0,
        "memory": {"usable_fraction": 1.0, "reserve_gb": 0.0},
        "settings": {"draft_length": "draft-length", "checked_version": "1.0"},
    }
    return _profile("engine", name, body, changes)


def toy_measurement(name: str = "toy-report", **changes: Any) -> Data:
    """Two steps of the toy model on the toy chip: 10 ms plain, 15 ms with two drafted tokens, AL 2.2: 1.47x."""
    point = {"batch": 1.0, "draft_length": 2, "acceptance_length": 2.2, "step_ms": 15.0}
    setup = {
        "id": "one",
        "hardware": "toy-chip",
        "model": "toy-model",
        "drafter": "toy-model-eagle3",
        "engine": "toy-engine",
        "context_tokens": 1000,
        "points": [{"batch": 1.0, "draft_length": 0, "base_step_ms": 10.0}, point],
    }
    body = {"tier": "A", "published": "2026-01", "origin": "this test", "setups": [setup]}
    return _profile("measurement", name, body, changes)


def toy_calibration(name: str = "toy-machine", **changes: Any) -> Data:
    """Two steps of the toy model with its EAGLE-3 head: 12 ms plain, 18 ms with two drafted tokens."""
    constants = {"step_ms": 2.0, "per_request_us": 0.0, "speculation_ms": 1.0, "draft_pass_ms": 0.5}
    row = {"batch": 1.0, "context_tokens": 1000.0, "prior_ms": 10.0}
    body = {
        "scenario": {
            "hardware": "toy-chip",
            "tp": 1,
            "gpus": 1,
            "ep": 1,
            "model": "toy-model",
            "drafter": "toy-model-eagle3",
            "engine": "toy-engine",
            "context_tokens": 1000,
        },
        "method": "fit",
        "prior": {**constants, "step_ms": 0.0, "speculation_ms": 0.0, "draft_pass_ms": 0.0},
        "fitted": constants,
        "rows": [
            {**row, "draft_length": 0, "acceptance_length": 1.0, "step_ms": 12.0, "fitted_ms": 12.0},
            {**row, "draft_length": 2, "acceptance_length": 2.2, "step_ms": 18.0, "fitted_ms": 18.0},
        ],
        "errors": {"prior_median": 0.2, "median": 0.01, "worst": 0.02},
        "valid": {"batch": [1.0, 1.0], "draft_length": [0, 2], "context_tokens": [1000.0, 1000.0]},
    }
    return _profile("calibration", name, body, changes)


BUILDERS = {
    "hardware": toy_hardware,
    "model": toy_model,
    "drafter": toy_drafter,
    "acceptance": toy_acceptance,
    "engine": toy_engine,
    "measurement": toy_measurement,
    "calibration": toy_calibration,
}


def _steps(key: str) -> list[str | int]:
    """`a.b[0].c` as ["a", "b", 0, "c"]; a number between dots is a key of whole numbers (`all_reduce.2`)."""
    dotted = key.replace("[", ".[")
    return [int(step.strip("[]")) if step.strip("[]").isdigit() else step for step in dotted.split(".")]


def put(data: Data, key: str, value: Any) -> Data:
    """A copy of `data` with that value at a key such as `kernels.default.gemm.bf16.eta_c`, `points[0].context`."""
    result = copy.deepcopy(data)
    *way, last = _steps(key)
    place: Any = result
    for step in way:
        place = place.setdefault(step, {}) if isinstance(place, dict) else place[step]
    place[last] = value
    return result


def drop(data: Data, key: str) -> Data:
    """A copy of `data` without that key."""
    result = copy.deepcopy(data)
    *way, last = _steps(key)
    place: Any = result
    for step in way:
        place = place[step]
    del place[last]
    return result


def as_record(data: Data) -> Any:
    """The frozen record of plain data, for tests of what lies past the loader.

    The loader's own work (every engine's kernels made whole, cross-field checks) is not done here.
    """
    return msgspec.convert(data, RECORDS[data["kind"]], strict=True)


def write_yaml(path: Path, data: Data) -> Path:
    """Write plain data as YAML, folders included, keys in the order given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path


def write_library(root: Path, *profiles: Data) -> Path:
    """Write profiles into the kind folders of `root` under their own names; returns `root`."""
    root.mkdir(parents=True, exist_ok=True)
    for data in profiles:
        write_yaml(root / KIND_FOLDERS[data["kind"]] / f"{data['name']}.yaml", data)
    return root
