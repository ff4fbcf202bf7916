"""What a file of a serving engine says about one operating point: a frozen record, facts only.

The readers in `engines.read` fill it, `explore` judges and pools it. SI inside: seconds, tokens, tokens per second.
None stands for what the file cannot say; a number is never guessed. Acceptance lengths count the bonus token,
per-position rates are unconditional (the share of iterations in which positions 1..i were all accepted).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from specdec_cli.errors import ProfileError

Measures = Literal["step", "verify_pass"]
"""step: the engine's whole iteration. verify_pass: one target pass over `verify_width` tokens, nothing else."""

NOTE_CODES = frozenset(
    {
        "accept_rate_ignored",
        "accepted_recounted",
        "chunks_counted",
        "cut_short",
        "draft_length_derived",
        "draft_length_given",
        "idle_windows",
        "iterations_assumed",
        "lifetime_scrape",
        "no_acceptance",
        "rate_as_fraction",
        "scrape_delta",
        "several_workloads",
        "target_from_file",
        "unweighted_mean",
    }
)
"""Findings that tell how a number came about; every other code warns that one may not mean what it seems to."""

CACHED_SHARE = 0.9
"""From this share of prompt tokens found in the prefix cache on, prompts are taken to be repeats."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to know about a run: a stable code, and a sentence that says why and what to do."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """Part of a file that was left out."""

    reason: str
    """A few words, the same for the same reason: `idle windows`, `unreadable lines`."""
    count: int
    first_line: int | None = None


@dataclass(frozen=True, slots=True)
class Windows:
    """Sums over windows (print intervals of a log, or requests), enough for an interval in constant memory.

    n: iterations of a window; a: draft tokens accepted in it.
    """

    count: int
    n: float
    a: float
    nn: float
    na: float
    aa: float
    aa_over_n: float
    """Sum of a^2 / n: with n and a, the spread of acceptance between windows."""

    def __add__(self, other: Windows) -> Windows:
        return Windows(
            self.count + other.count,
            self.n + other.n,
            self.a + other.a,
            self.nn + other.nn,
            self.na + other.na,
            self.aa + other.aa,
            self.aa_over_n + other.aa_over_n,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """One (batch, draft length) of one file."""

    file: str
    format: str
    """As `--from` names it."""
    engine: str | None = None
    """Family: vllm, sglang, tensorrt-llm, llama-cpp."""
    first_line: int | None = None
    last_line: int | None = None
    label: str = ""
    """Which part of the file, where it holds several."""
    workload: str | None = None
    """Data set or bench as the file names it; runs of different workloads are never pooled."""
    model: str | None = None
    """The target as the file names it."""
    measures: Measures = "step"

    batch: float | None = None
    """Requests decoding together on one replica."""
    draft_length: int | None = None
    """D; 0: speculation off."""
    verify_width: int | None = None
    """Tokens of a request in one target pass where that is not 1 + D (a tree), or where it is all that is known."""
    acceptance_length: float | None = None
    """Tokens per target iteration, bonus token included."""
    per_position: tuple[float, ...] | None = None
    """Unconditional a_1..a_D."""
    iterations: float | None = None
    """Target iterations counted, each request's own."""
    accepted_tokens: float | None = None
    drafted_tokens: float | None = None
    windows: Windows | None = None
    """None: the file holds only the totals."""

    step_s: float | None = None
    step_basis: str = ""
    """How `step_s` follows from the file's own fields."""
    draft_s: float | None = None
    """Drafting time of one iteration, where the file has it apart."""
    output_tokens_per_s: float | None = None
    """All requests of the replica together."""
    context_tokens: float | None = None
    """Mean tokens in the KV cache of a request while it decodes."""
    cuda_graphs: bool | None = None
    cached_prompt_share: float | None = None
    """Share of prompt tokens found in a prefix cache."""
    findings: tuple[Finding, ...] = ()

    @property
    def place(self) -> str:
        """File and lines, for a message."""
        if self.first_line is None:
            return self.file
        to = f"-{self.last_line}" if self.last_line not in (None, self.first_line) else ""
        return f"{self.file}:{self.first_line}{to}"

    def found(self, code: str, message: str) -> MeasuredRun:
        """The run with one more finding."""
        return replace(self, findings=(*self.findings, Finding(code, message)))

    def refused(self, message: str, hint: str | None = None) -> ProfileError:
        """An error about this run, with its place."""
        return ProfileError(message, file=self.file, line=self.first_line, hint=hint)


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file, its runs, and what was left out of it."""

    file: str
    format: str
    runs: tuple[MeasuredRun, ...]
    skipped: tuple[Skipped, ...] = ()
    findings: tuple[Finding, ...] = ()
    size: int = 0
    """Bytes read."""


def has_drafts(run: MeasuredRun) -> bool:
    """Whether anything in the run shows draft tokens."""
    counted = bool(run.drafted_tokens) or bool(run.accepted_tokens)
    return counted or (run.acceptance_length is not None and run.acceptance_length > 1.005)


def as_off(run: MeasuredRun) -> MeasuredRun:
    """The run as the arm without speculation, for one that its user says is off.

    Raises ProfileError where it holds drafts.
    """
    if run.draft_length or has_drafts(run):
        drafted = "" if not run.drafted_tokens else f", {run.drafted_tokens:.0f} draft tokens"
        length = "" if run.acceptance_length is None else f": AL = {run.acceptance_length:.2f}"
        raise run.refused(
            f"the run that should be without speculation drafted{length}{drafted}",
            "measure the base with speculation off; a draft length of 0 in a dynamic schedule is not that",
        )
    return replace(run, draft_length=0, acceptance_length=1.0, per_position=None, verify_width=None)
