"""A block of an SGLang log at once, where its decode lines have a form that is known: converted and folded together.

Says the same as `sglang_log` does line by line, which takes over where a line has any other form.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from specdec_cli.engines.read.columns import (
    Flags,
    Floats,
    Folded,
    Ints,
    Lines,
    alike,
    followed,
    found_groups,
    named,
    numbered,
    numbers_in,
)
from specdec_cli.engines.read.pool import FEW, Tally, WindowPool
from specdec_cli.errors import ProfileError

DECODE, PREFILL = b"Decode batch", b"Prefill batch"
DECODE_LOG_INTERVAL = 40
"""Steps between two lines unless --decode-log-interval says otherwise (sglang/srt/server_args.py)."""
LONGEST_DECODE = 400  # bytes

# The punctuation of 2025 and 2026; versions differ in what stands between the tokens and the acceptance, and after it.
_N = rb"\d{1,15}(?:\.\d*)?"
_FIELDS = rb"(?:(?!accept)[#\w -]+: %s, )*+" % _N
_DECODE = re.compile(
    rb"Decode batch[.,]? #running-req: (\d{1,15}), #(?:full )?token: (\d{1,15}), "
    + _FIELDS
    + rb"(?:accept len: (\d{1,15}(?:\.\d*)?), (?:accept rate: \d{1,15}(?:\.\d*)?, )?)?"
    + _FIELDS
    + rb"(?:cuda graph: (True|False), )?gen throughput \(token/s\): (\d{1,15}(?:\.\d*)?), #queue-req"
)
# Both kinds of line in one search, from what they have in common on: with the rate or not,
# graphs on or off.
# What stands for a number is looked at when it is converted: one repeat of one class is quick to match.
_BOTH = tuple(
    (
        graph,
        re.compile(
            rb"batch[.,]? #(running-req: \d+, #token: \d+, token usage: [\d.]+, accept len: [\d.]+, "
            rb"%(rate)s%(graph)sgen throughput \(token/s\): [\d.]+, #queue-req"
            rb"|new-seq: \d+, #new-token: \d+, #cached-token: \d+)" % {b"rate": rate, b"graph": words}
        ),
    )
    for rate in (rb"accept rate: [\d.]+, ", b"")
    for graph, words in ((1, b"cuda graph: True, "), (0, b"cuda graph: False, "), (-1, b""))
)
PREFILL_LINE = re.compile(rb"Prefill batch(?:[^\n]*?#new-token: (\d{1,15})[^\n]*?#cached-token: (\d{1,15}))?")
_GRAPHS = {None: -1, b"False": 0, b"True": 1}
RANK = re.compile(rb" DP(\d+)")

Numbers = tuple[Floats, Floats, Floats, Floats]
"""Running requests, tokens, AL (1 where it does not speculate), tokens/s."""
Decoding = tuple[Ints, Numbers, Flags, Ints]
"""Places of lines, their numbers, whether they speculate, graphs (1: on, 0: off, -1: not said)."""


@dataclass(slots=True)
class State:
    """Of a file."""

    file: str
    pools: dict[tuple[int, bool], WindowPool] = field(default_factory=dict)
    """By running requests and whether they speculate."""
    prefilled: set[bytes] = field(default_factory=set)
    """Ranks that took prompts since their last decode line."""
    tally: Tally = field(default_factory=Tally)
    settings: dict[str, int] = field(default_factory=dict)
    forced: int | None = None
    rate_only: int = 0
    rate_ignored: bool = False
    after_prompts: int = 0
    new_tokens: int = 0
    cached_tokens: int = 0
    lengths: set[float] = field(default_factory=set)
    """Distinct AL of lines, while they are few: a forced acceptance has one."""
    windows: int = 0


def fold_usual(state: State, block: bytes, first_line: int) -> bool:
    """Take in all lines of a block that ends in a line feed. False: one is unusual, and nothing has been taken.

    Raises ProfileError for an AL above D + 1.
    """
    decoding = _known(block)
    if decoding is None:
        return False
    at, numbers, speculates, graphs = decoding
    prefills = list(PREFILL_LINE.finditer(block)) if PREFILL in block else []
    if not len(at) and not prefills:
        return True
    for match in prefills:
        if match[1] is not None:
            state.new_tokens += int(match[1])
            state.cached_tokens += int(match[2])
    lines = Lines(block)
    after = _after_prompts(state, block, lines, at, np.array([match.start() for match in prefills], np.intp))
    if len(at):
        state.rate_ignored |= b"accept rate" in block
        fold(state, first_line + lines.of(at), numbers, (speculates, graphs, after))
    return True


def fold_both(state: State, block: bytes, first_line: int) -> int | None:
    """Take in a block of nothing but lines that speculate, of one form, and prompts, of one rank: most of such a log.

    One search finds them in order, without their places. Returns how many lines; None: it is another block.
    """
    at = block.find(DECODE)
    graph, pattern = next((one for one in _BOTH if one[1].match(block, at + len(b"Decode "))), (-1, None))
    if at < 0 or pattern is None or b" DP" in block:
        return None
    texts: list[bytes] = pattern.findall(block)
    count = len(texts)
    if count != block.count(b"\n"):
        return None
    start = block[at : at + LONGEST_DECODE]
    decode = np.frombuffer(bytes([text[0] for text in texts]), np.uint8) == ord("r")
    decodes, prompts = texts, []
    if not decode.all():
        decodes, prompts = ([text for text in texts if text.startswith(kind)] for kind in (b"r", b"n"))
    try:
        values, taken = numbers_in(decodes, 6 if b"accept rate" in start else 5), numbers_in(prompts, 3)
    except ValueError:
        return None
    state.new_tokens += int(taken[:, 1].sum())
    state.cached_tokens += int(taken[:, 2].sum())
    numbers = (values[:, 0], values[:, 1], values[:, 3], values[:, -1])
    after = np.concatenate([[b"" in state.prefilled], ~decode[:-1]])[decode]
    state.prefilled -= {b""}
    state.prefilled |= set() if decode[-1] else {b""}
    state.rate_ignored |= b"accept rate" in start
    facts = (np.ones(len(decodes), bool), np.full(len(decodes), graph), after)
    fold(state, first_line + np.flatnonzero(decode), numbers, facts)
    return count


def _known(block: bytes) -> Decoding | None:
    """Lines of any form that is known."""
    known = found_groups(block, DECODE, _DECODE)
    if known is None:
        return None
    at, columns = known
    running, tokens, accepted, graphs, speeds = columns or [()] * 5
    speculates = np.array([text is not None for text in accepted], bool)
    length = np.ones(len(at))
    try:
        length[speculates] = numbers_in([text for text in accepted if text is not None], 1)[:, 0]
        numbers = (numbers_in(running, 1)[:, 0], numbers_in(tokens, 1)[:, 0], length, numbers_in(speeds, 1)[:, 0])
    except ValueError:  # a number of too many decimals
        return None
    return at, numbers, speculates, np.array([_GRAPHS[graph] for graph in graphs], np.intp)


def _after_prompts(state: State, block: bytes, lines: Lines, decodes: Ints, prefills: Ints) -> Flags:
    """Whether each decode line is the first of its rank after prompts: its interval holds them, or the idle time before
    them."""
    at = np.concatenate([prefills, decodes])
    order = np.argsort(at, kind="stable")
    decode = np.concatenate([np.zeros(len(state.prefilled), bool), (order >= len(prefills))])
    names, rank = named(block, lines.begins(at[order]), at[order], b" DP", RANK, last=True)
    waiting = sorted(state.prefilled)
    names, known = numbered([*names, *waiting])
    rank = np.concatenate([known[len(known) - len(waiting) :], rank])
    by_rank, follows, leads = followed(rank)
    sorted_decode = decode[by_rank]
    after = np.zeros(len(rank), bool)
    after[by_rank] = follows & sorted_decode & ~np.roll(sorted_decode, 1)
    state.prefilled = {names[place] for place in rank[by_rank][~leads & ~sorted_decode].tolist()}
    first: Flags = after[decode]
    return first


def fold(
    state: State,
    lines: Ints,
    numbers: Numbers,
    facts: tuple[Flags, Ints, Flags],
) -> None:
    """Decode lines in order.

    Args:
        facts: whether they speculate, graphs (1: on, 0: off, -1: not said), whether prompts came before.
    """
    idle = numbers[0] == 0
    if idle.any():
        state.tally.add("idle windows", int(lines[idle][0]), int(idle.sum()))
        lines = lines[~idle]
    running, tokens, length, speed = (column[~idle] for column in numbers)
    speculates, graphs, after = (column[~idle] for column in facts)
    steps = state.settings.get("speculative_num_steps")
    if steps is not None and np.any(length > steps + 1.005):
        first = int(np.argmax(length > steps + 1.005))
        message = f"accept len {length[first]:g} above D + 1 = {steps + 1}"
        raise ProfileError(message, file=state.file, line=int(lines[first]))
    keys, which = alike(2 * running + speculates)
    pools = Folded([state.pools.setdefault((int(key) // 2, bool(key % 2)), WindowPool()) for key in keys], which)
    pools.at(lines)
    pools.count("count", speculates)
    n = running * (state.settings.get("decode_log_interval") or DECODE_LOG_INTERVAL)
    a = (length - 1.0) * n
    for name, values in {"n": n, "a": a, "nn": n * n, "na": n * a, "aa": a * a, "aa_n": a * a / n}.items():
        pools.add(name, values, speculates)
    state.windows += int(speculates.sum())
    if len(state.lengths) < FEW:
        state.lengths |= set(np.unique(length[speculates])[:FEW].tolist())
    pools.count("graphs_seen", graphs >= 0)
    pools.count("graphs", graphs == 1)
    held = tokens > 0
    pools.add("context", tokens / running, held)
    pools.add("context_n", np.ones(len(n)), held)
    state.after_prompts += int(after.sum())
    timed = ~after & (speed > 0)
    pools.add("step_sum", running * length / np.where(timed, speed, 1.0), timed)
    pools.add("steps", np.ones(len(n)), timed)
    pools.add("speed", speed, timed)
    pools.count("speed_count", timed)
