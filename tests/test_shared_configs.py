"""Every published config.json that was collected imports with the right counts, or is refused for a true reason.

The collection is not part of the project: where it is absent one test skips.
"""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from specdec_cli.errors import ProfileError
from specdec_cli.profiles.draft_parameters import drafter_parameters_m
from specdec_cli.profiles.hf_config import model_from_config
from specdec_cli.profiles.hf_drafter import drafter_from_config
from specdec_cli.profiles.hf_reader import read_json
from specdec_cli.profiles.load import load_file
from specdec_cli.profiles.parameters import (
    active_parameters,
    count_parameters,
    indexer_bytes_per_token,
    kv_bytes_per_token,
    recurrent_state_bytes,
    window_kv_bytes,
)
from specdec_cli.profiles.schema import Model

REPO = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("SPECDEC_SHARED_DATA") or REPO.parent / "shared" / "data")
needs_data = pytest.mark.skipif(not (DATA / "models.csv").is_file(), reason="the collected data is not here")

# Model types (or files) that are refused, and a part of the reason.
REFUSED_MODELS = {
    "deepseek_ref": "missing key tie_word_embeddings",
    "minimax_m3": "block-sparse attention",
    "minimax_m3_vl": "block-sparse attention",
    "step3p7": "missing key tie_word_embeddings",
}
REFUSED_DRAFTS = {
    "SpecForge__qwen3-8b-domino": "Domino",
    "SpecForge__qwen3.5-4b-domino": "Domino",
    "SpecForge__qwen3.6-27b-domino-full-attention": "Domino",
    "TorchSpec__kimi_k25_eagle3_mla": "latent attention",
    "TorchSpec__qwen3_8b_eagle3_mla": "latent attention",
}

Row = dict[str, str]


def rows(table: str) -> list[Row]:
    path = DATA / table
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def config_of(row: Row) -> Path | None:
    name = row["config_file"]
    path = DATA / name if "/" in name else DATA / "hf_drafts" / name
    return path if name and path.is_file() else None


def wrong(model: Model, row: Row) -> list[str]:
    """What differs from the row, as `what: computed, expected`."""
    count = count_parameters(model)
    shares = {  # within 1 %
        "params_total_B_transformers_meta": count.total / 1e9,
        "params_total_B_analytic": count.total / 1e9,
        "params_active_B_derived": active_parameters(model) / 1e9,
        "mtp_unique_params_B_derived": count.mtp / 1e9,
    }
    exact = {
        "kv_bytes_per_token_bf16_growing_layers": kv_bytes_per_token(model, "bf16"),
        "window_kv_bytes_fixed_bf16": window_kv_bytes(model, "bf16"),
        "indexer_k_bytes_per_token_bf16": indexer_bytes_per_token(model, "bf16"),
        "recurrent_state_bytes_per_seq": recurrent_state_bytes(model),
    }
    if row["model_type"] == "deepseek_v4":  # the table's figure holds the index keys too
        exact["kv_bytes_per_token_bf16_growing_layers"] += exact.pop("indexer_k_bytes_per_token_bf16")
    found = [f"{key}: {value}, {row[key]}" for key, value in shares.items()
             if row[key] and value != pytest.approx(float(row[key]), rel=0.01)]  # fmt: skip
    counted = row["params_total_B_transformers_meta"] or row["params_total_B_analytic"]
    return found + [
        f"{key}: {value}, {row[key]}"
        for key, value in exact.items()
        if (row[key] and value != float(row[key])) or (counted and not row[key] and value != 0)
    ]


@needs_data
def test_every_model() -> None:
    problems = []
    checked = refused = 0
    for row in rows("models.csv"):
        path = config_of(row)
        assert path is not None, row["config_file"]
        side = path.with_name(path.stem + ".hf_quant_config.json")
        reason = REFUSED_MODELS.get(row["model_type"])
        try:
            model = model_from_config(read_json(path), name="x", side_file=read_json(side) if side.is_file() else None)
        except ProfileError as error:
            refused += 1
            if reason is None or reason not in str(error):
                problems.append(f"{row['model']}: {error}")
            continue
        checked += 1
        problems += [f"{row['model']}: {text}" for text in wrong(model, row)]
        if reason is not None:
            problems.append(f"{row['model']}: expected a refusal: {reason}")
    assert problems == []
    assert checked >= 110
    assert refused >= len(REFUSED_MODELS)


@needs_data
def test_every_shipped_profile() -> None:
    """What stands in profiles/models agrees with the collected counts of the checkpoints that it names."""
    by_id = {row["model"].lower(): row for row in rows("models.csv")}
    problems = []
    checked = 0
    for path in sorted((REPO / "profiles" / "models").glob("*.yaml")):
        model: Model = load_file(path, "model").record
        for alias in model.aliases:
            row = by_id.get(alias.lower())
            if row is not None:
                checked += 1
                problems += [f"{model.name}: {text}" for text in wrong(model, row)]
    assert problems == []
    assert checked >= 100


@needs_data
def test_every_drafter() -> None:
    problems = []
    checked = 0
    for row in rows("drafters.csv"):
        path = config_of(row)
        if path is None or path.parent.name != "hf_drafts":
            continue
        reason = REFUSED_DRAFTS.get(row["id"])
        try:
            drafter = drafter_from_config(read_json(path), name="x", targets=[])
        except ProfileError as error:
            if reason is None or reason not in str(error):
                problems.append(f"{row['id']}: {error}")
            continue
        checked += 1
        expected = float(row["own_params_M_derived"])
        if drafter_parameters_m(drafter) != pytest.approx(expected, rel=0.01) or reason is not None:
            problems.append(f"{row['id']}: {drafter_parameters_m(drafter)}, {expected}")
    assert problems == []
    assert checked >= 75
