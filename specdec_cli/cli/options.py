"""The options that commands share, each written once; defaults stand in `explore.scenario.DEFAULTS`.

The help texts state those defaults in words, so that `--help` need not load what computes; a test holds them together.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdec_cli.cli import completion

if TYPE_CHECKING:
    from specdec_cli.explore.scenario import Options

Hardware = Annotated[
    str | None,
    typer.Option(
        "--hardware",
        metavar="NAME|FILE",
        autocompletion=completion.names("hardware"),
        help="The chip, or a list to compare: h100-sxm,h200-sxm. Default: h100-sxm.",
    ),
]
Tp = Annotated[
    str | None,
    typer.Option("--tp", metavar="N", help="Tensor-parallel GPUs, or a list: 1,2,4. Default: --gpus, else 1."),
]
Gpus = Annotated[
    int | None,
    typer.Option(
        "--gpus",
        metavar="N",
        help="GPUs of one replica; gpus / tp attention data-parallel ranks share it. Default: --tp.",
    ),
]
Ep = Annotated[
    int | None,
    typer.Option("--ep", metavar="N", help="Expert-parallel GPUs; divides --gpus. Default: 1."),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="NAME|FILE",
        autocompletion=completion.names("model"),
        help="The target model: a name, a Hugging Face id, a profile, or a config.json. Default: llama-3.1-8b.",
    ),
]
Drafter = Annotated[
    str | None,
    typer.Option(
        "--drafter",
        metavar="NAME|FILE|none",
        autocompletion=completion.names("drafter", more=("none", "eagle3", "mtp", "dflash")),
        help="The drafter, a mechanism (eagle3, mtp, ngram), `none`, or a list of these. Default: the model's own.",
    ),
]
Engine = Annotated[
    str | None,
    typer.Option(
        "--engine",
        metavar="NAME|FILE",
        autocompletion=completion.names("engine"),
        help="The serving engine: vllm, sglang, tensorrt-llm, llama-cpp. Default: vllm.",
    ),
]
Context = Annotated[
    int | None,
    typer.Option("--context", metavar="TOKENS", help="Mean tokens in the KV cache of a request. Default: 2048."),
]
InputTokens = Annotated[
    int | None,
    typer.Option(
        "--input-tokens",
        metavar="I",
        help="Prompts of I tokens, prefilled between the decode steps; the batch is then the requests in flight.",
    ),
]
OutputTokens = Annotated[
    int | None,
    typer.Option(
        "--output-tokens", metavar="O", help="Answers of O tokens; the context is then I + O/2. With --input-tokens."
    ),
]
WeightDtype = Annotated[
    str | None,
    typer.Option(
        "--weight-dtype",
        metavar="DTYPE",
        autocompletion=completion.weight_dtypes,
        help="Weights in fp8, nvfp4, ... Default: as the model ships.",
    ),
]
KvDtype = Annotated[
    str | None,
    typer.Option(
        "--kv-dtype",
        metavar="DTYPE",
        autocompletion=completion.kv_dtypes,
        help="The KV cache in bf16, fp8, ... Default: as the model ships.",
    ),
]
Acceptance = Annotated[
    str | None,
    typer.Option(
        "--acceptance",
        metavar="NAME|FILE",
        autocompletion=completion.names("acceptance"),
        help="Measured acceptance. Default: the pair's profile marked default.",
    ),
]
AcceptanceRate = Annotated[
    float | None,
    typer.Option(
        "--acceptance-rate",
        metavar="R",
        help="Assume this chance, at every position, that a token is accepted where all before it were; for n-gram and "
        "suffix, how far your text repeats.",
    ),
]
AcceptanceLength = Annotated[
    str | None,
    typer.Option(
        "--acceptance-length",
        metavar="D=AL,...",
        help="Assume these tokens per step, bonus token included: 1=1.91,3=2.83.",
    ),
]
AssumeAcceptance = Annotated[
    str | None,
    typer.Option(
        "--assume-acceptance",
        metavar="typical",
        autocompletion=completion.words("typical"),
        help="Where nothing was measured: `typical` assumes the median of the measured pairs of the same mechanism.",
    ),
]
Calibration = Annotated[
    str | None,
    typer.Option(
        "--calibration",
        metavar="NAME|FILE",
        autocompletion=completion.names("calibration"),
        help="What `specdec calibrate` wrote of your own measurements; it moves every step time.",
    ),
]
Batches = Annotated[
    str | None,
    typer.Option(
        "--batches",
        metavar="AXIS",
        help="Requests decoding together: 1,2,4 or 1..64 or 1..64:8 or 1..256:x2. Default: 1..256:x2.",
    ),
]
DraftLengths = Annotated[
    str | None,
    typer.Option(
        "--draft-lengths",
        metavar="AXIS",
        help="Tokens drafted per step, 0 is off: 0..8. Default: up to the longest measured, 8 where acceptance is "
        "assumed.",
    ),
]
TreeTopk = Annotated[
    int | None,
    typer.Option(
        "--tree-topk",
        metavar="K",
        help="Draft trees: every level expands its best K tokens; the draft length is the depth. 1 is a chain. EAGLE "
        "and EAGLE-3.",
    ),
]
VerifyWidth = Annotated[
    int | None,
    typer.Option(
        "--verify-width",
        metavar="W",
        help="Tokens of a tree that each request verifies, the last accepted one among them. With --tree-topk. "
        "Default: 1 + K times the depth.",
    ),
]
Assume = Annotated[
    bool,
    typer.Option(
        "--assume",
        help="Trust acceptance past what was measured: longer drafts, past a trained block too, or a context past the "
        "drafter's.",
    ),
]
TableOrJson = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        autocompletion=completion.words("table", "json"),
        help="table or json, which holds everything. Default: table.",
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        autocompletion=completion.words("table", "json", "csv", "markdown"),
        help="table, json, csv or markdown. Default: by the ending of --output (.json, .csv, .md), else table.",
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write the answer here, whole or not at all; `-` is stdout, the default."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Let --output replace a file that exists.")]
Profiles = Annotated[
    list[str] | None,
    typer.Option(
        "--profiles", metavar="DIR", help="A folder of your own profiles, searched first; repeat it for several."
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of whatever goes wrong.")]


def options_of(said: Mapping[str, Any]) -> Options:
    """The shared options out of a command's arguments, by name; a test holds every asking command to having them."""
    from dataclasses import fields

    from specdec_cli.explore.scenario import Options

    return Options(**{field.name: said[field.name] for field in fields(Options) if field.name in said})
