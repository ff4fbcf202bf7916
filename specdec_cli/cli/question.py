"""What `sweep` and `recommend` share between the options and the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from specdec_cli.cli.output import Destination, note, note_warnings

if TYPE_CHECKING:
    from specdec_cli.explore.scenario import Options
    from specdec_cli.profiles.library import Library

SCENARIO = (
    "hardware",
    "model",
    "drafter",
    "engine",
    "acceptance",
    "acceptance_rate",
    "acceptance_length",
    "assume_acceptance",
    "calibration",
)


def ask(options: Options, profiles: Sequence[str] | None) -> Library:
    """The library in reach; says on stderr where nothing was asked and the default scenario answers."""
    from specdec_cli.explore.scenario import DEFAULTS
    from specdec_cli.profiles.library import Library

    if all(getattr(options, name) is None for name in SCENARIO):
        note(
            f"note: the default scenario: {DEFAULTS.model} with its drafter on {DEFAULTS.hardware}, {DEFAULTS.engine}; "
            "--model, --hardware, --drafter, --engine choose another"
        )
    return Library(profiles or ())


def deliver(record: dict[str, Any], render: Callable[..., str], style: str, target: Destination) -> None:
    """Write the answer, and its warnings on stderr unless a terminal shows them in the table already."""
    text = render(record, style, **target.look())
    if not (target.terminal and style == "table"):
        note_warnings(record["warnings"])
    target.write(text)
