"""Records as YAML: read again equal, whatever the text in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from specdec_cli.profiles.load import load_file
from specdec_cli.profiles.schema import (
    Block,
    DenseFfn,
    Drafter,
    Gqa,
    Model,
    PartDtypes,
    PublishedParameters,
    Source,
)
from specdec_cli.profiles.writer import to_yaml

PROFILES = Path(__file__).parent.parent / "profiles"


def toy(**changes: Any) -> Model:
    model = Model(
        format=1,
        name="toy",
        maker="Maker",
        hidden=512,
        vocabulary=1000,
        tied_embeddings=False,
        max_context=4096,
        attention={"full": Gqa(heads=8, kv_heads=2, head_dim=64)},
        ffn={"dense": DenseFfn(intermediate=1024)},
        blocks=[Block(repeat=4, attention="full", ffn="dense")],
        dtypes=PartDtypes(weights="bf16"),
        parameters=PublishedParameters(total_b=8.03),
        sources={"*": Source(from_="a file", checked="2026-09-30", kind="published")},
    )
    return msgspec.structs.replace(model, **changes)


def read(text: str) -> Model:
    return msgspec.convert(yaml.safe_load(text), Model)


def test_a_model_as_a_contributor_would_write_it() -> None:
    text = to_yaml(toy(), header="A toy.\nOf two lines.")
    assert text == (
        "# A toy.\n"
        "# Of two lines.\n"
        "format: 1\n"
        "kind: model\n"
        "name: toy\n"
        "maker: Maker\n"
        "hidden: 512  # width of the residual stream\n"
        "vocabulary: 1000\n"
        "tied_embeddings: false  # whether embedding and lm_head are one matrix\n"
        "max_context: 4096  # tokens\n"
        "attention:  # one entry for each kind of layer\n"
        "  full: {type: gqa, heads: 8, kv_heads: 2, head_dim: 64}\n"
        "ffn:\n"
        "  dense: {type: dense, intermediate: 1024}\n"
        "blocks:  # layers alike together: their order does not change the cost\n"
        "  - {repeat: 4, attention: full, ffn: dense}\n"
        "dtypes: {weights: bf16}  # as the first alias ships them; `weights` is every part not named\n"
        "parameters:  # to check the computed counts against; 1e9, embedding to lm_head, no MTP, no vision\n"
        "  total_b: 8.03\n"
        "sources:\n"
        '  "*":\n'
        "    from: a file\n"
        '    checked: "2026-09-30"\n'
        "    kind: published\n"
    )


@pytest.mark.parametrize(
    "text",
    ["no", "yes", "null", "1e9", "1.5", "2026-09-30", "12:30", "a: b", "a #b", "[x]", "{x}", "*", "&x", "!x", "- x",
     "'", '"', "ends:", "", " padded ", "two\nlines", "é", "%", "@x", "`x`", "?", "|", ">", "~", "=", "<<"],
)  # fmt: skip
def test_any_text_is_read_again(text: str) -> None:
    model = toy(title=text, notes=[text], aliases=[text], maker=text)
    assert read(to_yaml(model)) == model


@pytest.mark.parametrize("number", [8.03, 1e-05, 1e15, 671.026, 100.0, 3.35e12])
def test_numbers_stay_numbers(number: float) -> None:
    model = toy(parameters=PublishedParameters(total_b=number))
    assert read(to_yaml(model)) == model


def test_a_default_that_a_source_names_is_written() -> None:
    source = Source(from_="a file", checked="2026-09-30", kind="published")
    drafter = Drafter(format=1, name="toy", mechanism="ngram", targets=[], sources={"weight_dtype": source})
    assert "weight_dtype: bf16" in to_yaml(drafter)
    nested = toy(sources={"*": source, "dtypes.kv": source})
    assert "kv: bf16" in to_yaml(nested)
    assert "kv: bf16" not in to_yaml(toy())


def test_long_records_take_a_line_for_each_key() -> None:
    text = to_yaml(toy(attention={"a_kind_of_attention_with_a_long_name": Gqa(
        heads=8, kv_heads=2, head_dim=64, window=128, output_gate=True, bias=True, value_head_dim=32)}))  # fmt: skip
    assert "\n  a_kind_of_attention_with_a_long_name:\n    type: gqa\n    heads: 8\n" in text
    assert all(len(line) <= 110 for line in text.splitlines() if "#" not in line)


@pytest.mark.parametrize("kind", ["model", "drafter"])
def test_every_shipped_profile_is_read_again_equal(kind: str, tmp_path: Path) -> None:
    paths = sorted((PROFILES / f"{kind}s").glob("*.yaml"))
    assert paths
    for path in paths:
        record = load_file(path, kind).record
        copy = tmp_path / path.name
        copy.write_text(to_yaml(record), encoding="utf-8")
        assert load_file(copy, kind).record == record, path.name
