"""Which draft length the model would have chosen on published sweeps, beside three simpler choosers.

    python tests/fits/decisions.py            the table
    python tests/fits/decisions.py --each     every sweep

Profiles alone, no calibration; acceptance as measured. Loss: measured speed given up by taking the chosen draft length
instead of the best measured one, off among them. Sweeps over several draft lengths stand apart from those with one,
whose only decision is on or off.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

from published_sweeps import Sweep, sweeps  # noqa: E402  (a script: tests/ joins the path first)

CLEAR = 0.03
"""A measured gain or loss below this leaves on and off both right: the plateau of `--tie`."""

Chooser = Callable[[Sweep], int]


def _best(speeds: dict[int, float]) -> int:
    return max(speeds, key=lambda length: speeds[length])


CHOOSERS: dict[str, Chooser] = {
    "specdec": lambda sweep: _best(sweep.predicted("model")),
    "always the deepest": lambda sweep: max(sweep.measured()),
    "constant round cost": lambda sweep: _best(sweep.predicted("constant_cost")),
    "plain roofline": lambda sweep: _best(sweep.predicted("datasheet_roofline")),
}


@dataclass(frozen=True)
class Score:
    """One chooser over some sweeps."""

    sweeps: int
    mean_loss: float
    worst_loss: float
    on_off_right: int
    on_off: int
    """Sweeps whose best gain or loss is clear."""

    @property
    def right(self) -> float:
        return self.on_off_right / self.on_off if self.on_off else 1.0


def loss(sweep: Sweep, chosen: int) -> float:
    speeds = sweep.measured()
    return 1.0 - speeds[chosen] / max(speeds.values())


def on_off_right(sweep: Sweep, chosen: int) -> bool | None:
    """None: neither is clearly better."""
    best_on = max(speed for length, speed in sweep.measured().items() if length)
    return None if abs(best_on - 1.0) <= CLEAR else (best_on > 1.0) == (chosen > 0)


def score(chooser: Chooser, over: Sequence[Sweep]) -> Score:
    chosen = [chooser(sweep) for sweep in over]
    losses = [loss(sweep, length) for sweep, length in zip(over, chosen, strict=True)]
    clear = [r for sweep, length in zip(over, chosen, strict=True) if (r := on_off_right(sweep, length)) is not None]
    return Score(len(over), sum(losses) / len(losses), max(losses), sum(clear), len(clear))


def groups() -> dict[str, list[Sweep]]:
    """What is scored apart."""
    several = [sweep for sweep in sweeps() if len(sweep.results) > 1]
    return {
        "several D, chains": [sweep for sweep in several if not sweep.tree],
        "several D, chains, ratios of steps": [sweep for sweep in several if not sweep.tree and sweep.of_steps],
        "several D, trees": [sweep for sweep in several if sweep.tree],
        "several D, nothing fitted to them": [s for s in several if not any(p.fitted for p in s.results)],
        "one D": [sweep for sweep in sweeps() if len(sweep.results) == 1],
        "all": list(sweeps()),
    }


def table() -> str:
    lines = [f"{'sweeps':36s} {'chooser':20s} {'n':>4s} {'mean loss':>10s} {'worst':>8s} {'on/off right':>14s}"]
    for name, members in groups().items():
        for chooser, choose in CHOOSERS.items():
            found = score(choose, members)
            right = f"{found.on_off_right} of {found.on_off}"
            lines.append(
                f"{name:36s} {chooser:20s} {found.sweeps:4d} {100 * found.mean_loss:8.2f} % "
                f"{100 * found.worst_loss:6.1f} % {right:>14s}"
            )
    return "\n".join(lines)


def each() -> str:
    lines = []
    for sweep in sweeps():
        chosen = CHOOSERS["specdec"](sweep)
        speeds = ", ".join(f"{length}: {speed:.2f}" for length, speed in sorted(sweep.measured().items()))
        lines.append(
            f"{sweep.name:70s} best {_best(sweep.measured()):2d} chosen {chosen:2d} "
            f"loss {loss(sweep, chosen):.3f} ({speeds})"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(each() if "--each" in sys.argv else table())
