"""Windows of one operating point added up, in constant memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from specdec_cli.engines.read.source import Hit
from specdec_cli.errors import ProfileError
from specdec_cli.profiles.measured_run import MeasuredRun, Skipped, Windows

MOST_DRAFTED = 4096
"""Tokens a draft; several times the longest that engines allow, and lists of so many entries cost nothing."""

MOST_RUNS = 10_000
"""Of a file. Thousands of settings are no measurement but a log taken for one, and would be fitted for minutes."""


FEW = 3
"""Distinct AL that are kept, to tell a forced acceptance, which has one."""


class WindowPool:
    """Sums over the windows of one (batch, draft length)."""

    __slots__ = (
        *("count", "n", "a", "drafted", "nn", "na", "aa", "aa_n", "positions", "positions_n", "steps", "step_sum"),
        *("speed", "speed_count", "context", "context_n", "graphs", "graphs_seen", "first", "last"),
    )

    def __init__(self) -> None:
        self.count = self.speed_count = self.graphs = self.graphs_seen = 0
        self.n = self.a = self.drafted = self.nn = self.na = self.aa = self.aa_n = 0.0
        self.steps = self.step_sum = self.speed = self.context = self.context_n = self.positions_n = 0.0
        self.positions: list[float] = []
        self.first: int | None = None
        self.last: int | None = None

    def at(self, line: int) -> None:
        """Note a source line."""
        if self.first is None:
            self.first = line
        self.last = line

    def accept(self, n: float, a: float, drafted: float = 0.0, rates: Sequence[float] | None = None) -> None:
        """A window of n iterations that accepted a of its drafted tokens; rates: unconditional, by position."""
        self.count += 1
        self.n += n
        self.a += a
        self.drafted += drafted
        self.nn += n * n
        self.na += n * a
        self.aa += a * a
        self.aa_n += a * a / n if n else 0.0
        if rates:
            self.rated(n, rates)

    def rated(self, n: float, rates: Sequence[float]) -> None:
        """Unconditional acceptance by position of n iterations that were counted already."""
        if len(rates) > len(self.positions):
            self.positions += [0.0] * (len(rates) - len(self.positions))
        for index, rate in enumerate(rates):
            self.positions[index] += n * rate
        self.positions_n += n

    def accept_alike(self, count: int, n: float, a: float) -> None:
        """So many windows of the same n and a."""
        self.count += count
        self.n += count * n
        self.a += count * a
        self.nn += count * n * n
        self.na += count * n * a
        self.aa += count * a * a
        self.aa_n += count * a * a / n

    def timed(self, step_s: float, steps: float) -> None:
        """A window whose step time is known, of so many steps."""
        self.step_sum += step_s * steps
        self.steps += steps

    def ran(self, tokens_per_s: float) -> None:
        """Output tokens per second of a window."""
        self.speed += tokens_per_s
        self.speed_count += 1

    def held(self, context_tokens: float, weight: float = 1.0) -> None:
        """Mean context of a request in a window."""
        self.context += context_tokens * weight
        self.context_n += weight

    def windows(self) -> Windows | None:
        """The sums; None where no window was counted."""
        if not self.count:
            return None
        return Windows(self.count, self.n, self.a, self.nn, self.na, self.aa, self.aa_n)

    def values(self) -> dict[str, Any]:
        """What a MeasuredRun takes from here."""
        rates = tuple(total / self.positions_n for total in self.positions) if self.positions_n else None
        return {
            "acceptance_length": 1.0 + self.a / self.n if self.n else None,
            "per_position": rates,
            "iterations": self.n or None,
            "accepted_tokens": self.a if self.n else None,
            "drafted_tokens": self.drafted or None,
            "windows": self.windows(),
            "step_s": self.step_sum / self.steps if self.steps else None,
            "output_tokens_per_s": self.speed / self.speed_count if self.speed_count else None,
            "context_tokens": self.context / self.context_n if self.context_n else None,
            "cuda_graphs": None if not self.graphs_seen else self.graphs * 2 > self.graphs_seen,
            "first_line": self.first,
            "last_line": self.last,
        }


class Tally:
    """What was left out of a file, by reason."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._first: dict[str, int] = {}

    def add(self, reason: str, line: int | None = None, count: int = 1) -> None:
        """Count one more."""
        self._counts[reason] += count
        if line is not None:
            self._first.setdefault(reason, line)

    def __getitem__(self, reason: str) -> int:
        return self._counts[reason]

    def skipped(self) -> tuple[Skipped, ...]:
        """Reasons, most frequent first."""
        return tuple(Skipped(reason, count, self._first.get(reason)) for reason, count in self._counts.most_common())


def whole_draft_length(drafted: float | None, iterations: float | None) -> int | None:
    """D where every iteration drafted as many: the whole number within 2 % of drafted / iterations, else None."""
    if not drafted or not iterations:
        return None
    ratio = drafted / iterations
    nearest = round(ratio)
    return nearest if nearest >= 1 and abs(ratio - nearest) <= 0.02 * nearest else None


def possible_draft_length(length: float, file: str, line: int | None) -> int:
    """The draft length as a whole number. Raises ProfileError for one that no engine drafts."""
    if length > MOST_DRAFTED:
        message = f"draft length {length:g}: no engine drafts more than {MOST_DRAFTED} tokens"
        raise ProfileError(message, file=file, line=line)
    return int(length)


def process_of(hit: Hit) -> bytes:
    """The part of a line's prefix that tells one process from another: `(APIServer pid=4711)`, `DP1 TP0`."""
    lead = hit.lead
    at = lead.find(b"pid=")
    if at >= 0:
        return lead[at : lead.find(b")", at)]
    at = lead.find(b" DP")
    return lead[at : at + 5] if at >= 0 else b""


def run_from(pool: WindowPool, **facts: Any) -> MeasuredRun:
    """The run of a pool and what else is known."""
    return MeasuredRun(**{**pool.values(), **facts})
