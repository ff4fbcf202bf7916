"""What an answer must satisfy, as options that `plot` and `report` share with `recommend`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from specdec_cli.explore.recommend import Limits
    from specdec_cli.explore.scenario import Input

Batch = Annotated[int | None, typer.Option("--batch", metavar="N", help="Requests decoding together on one replica.")]
MinInteractivity = Annotated[
    float | None,
    typer.Option(
        "--min-interactivity", metavar="X", help="The most tokens/s/GPU that still gives each user X tokens/s."
    ),
]
MinThroughput = Annotated[
    float | None,
    typer.Option("--min-throughput", metavar="Y", help="The fastest for a user that still gives Y tokens/s/GPU."),
]
MaxTpotMs = Annotated[
    float | None, typer.Option("--max-tpot-ms", metavar="T", help="At most T ms for each output token of a user.")
]
Tie = Annotated[
    float | None,
    typer.Option("--tie", metavar="F", help="Draft lengths this fraction from the best count as equal. Default: 0.03."),
]
MinGain = Annotated[
    float | None,
    typer.Option("--min-gain", metavar="F", help="Off unless the gain exceeds this fraction. Default: 0.02."),
]

BOUNDS = ("batch", "min_interactivity", "min_throughput", "max_tpot_ms")
TOLERANCES = ("tie", "min_gain")


def limits_of(said: Mapping[str, Any]) -> tuple[Limits, dict[str, Input]]:
    """The limits out of a command's arguments, and those that belong in the answer's inputs, with their origins.

    Raises:
        UsageError: a limit that cannot be meant.
    """
    from specdec_cli.explore.recommend import Limits
    from specdec_cli.explore.scenario import DEFAULTS, Input

    tolerances = {name: getattr(DEFAULTS, name) if said.get(name) is None else said[name] for name in TOLERANCES}
    limits = Limits(**{name: said[name] for name in BOUNDS}, **tolerances)
    asked = {name: Input(said[name], "option") for name in BOUNDS if said[name] is not None}
    for name, value in tolerances.items():
        asked[name] = Input(value, "default" if said.get(name) is None else "option")
    return limits, asked
