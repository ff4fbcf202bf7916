"""A block of a vLLM log at once, where its metrics lines have their usual form: paired, converted and folded together.

Says the same as `vllm_log` does line by line, which takes over where a line has any other form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from specdec_cli.engines.read.columns import (
    Flags,
    Floats,
    Folded,
    Ints,
    Lines,
    alike,
    followed,
    found,
    named,
    numbered,
    numbers_in,
)
from specdec_cli.engines.read.pool import FEW, WindowPool
from specdec_cli.engines.read.vllm_lines import LOAD, SPEC, USUAL_LOAD, USUAL_SPECS
from specdec_cli.engines.read.vllm_windows import (
    ENGINES,
    LENGTH_ROUNDED,
    PREFILL_SHARE,
    Load,
    State,
    above,
    adds_up_within,
    told_within,
)

_PROCESS = re.compile(rb"(pid=[^)\n]*)\)")
_AGGREGATED = b"Engines Aggregated"
_RANK = b" DP"
UNSAID = -1.0
"""Running requests of a window whose throughput line is not there, or says none."""


class _Loads(NamedTuple):
    """Throughput lines by column."""

    prompt: Floats
    generation: Floats
    running: Floats
    waiting: Floats
    cached: Floats
    """NaN: not said."""
    line: Ints


class _Windows(NamedTuple):
    """Speculation lines of one draft length by column; n, accepted, drafted: of the window."""

    line: Ints
    load: Ints
    """Place among the loads; -1: none."""
    length: Floats
    n: Floats
    accepted: Floats
    drafted: Floats
    rates: Floats
    """By position."""

    def only(self, where: Flags) -> _Windows:
        return _Windows(
            self.line[where],
            self.load[where],
            self.length[where],
            self.n[where],
            self.accepted[where],
            self.drafted[where],
            self.rates[where],
        )


def fold_usual(state: State, block: bytes, first_line: int, others: Sequence[bytes]) -> int | None:
    """Take in all lines of a block that ends in a line feed, and count them.

    Args:
        others: markers that are read line by line.

    Returns:
        None: a line is unusual, and nothing has been taken.

    Raises ProfileError for an AL above D + 1.
    """
    loads_found, specs_found = found(block, LOAD, (USUAL_LOAD,)), found(block, SPEC, USUAL_SPECS)
    if loads_found is None or specs_found is None:
        return None
    (load_at, load_texts), (spec_at, spec_texts) = loads_found, specs_found
    try:
        load_values, spec_values = numbers_in(load_texts, 6), _by_length(spec_texts)
    except ValueError:
        return None
    at = np.concatenate([load_at, spec_at])
    order = np.argsort(at, kind="stable")
    lines = Lines(block)
    # Lines that are all of the usual two kinds hold nothing else.
    alone = len(at) == len(lines) and bool(np.all(np.diff(lines.of(at[order])) > 0))
    if not alone and any(marker in block for marker in others):
        return None
    specs = len(spec_at)
    names, process = named(block, lines.begins(at[order]), at[order], b"pid=", _PROCESS)
    if _RANK in block and not process.all():
        return None
    names, known = numbered([*names, *state.loads])
    held = list(zip(known[len(known) - len(state.loads) :].tolist(), state.loads.values(), strict=True))
    loads = _loads(held, load_values, _shares(block, lines, load_at), first_line + lines.of(load_at))
    # Tokens in order: what was held first; kind 0 is a load, 1 a speculation line; place among its kind.
    kind = np.concatenate([np.zeros(len(held), np.intp), np.repeat([0, 1], [len(load_at), specs])[order]])
    place = np.concatenate([np.arange(len(load_at)) + len(held), np.arange(specs)])[order]
    place = np.concatenate([np.arange(len(held)), place])
    process = np.concatenate([np.array([name for name, _ in held], np.intp), process])
    by_process, follows, leads = followed(process)
    kind, place, process = kind[by_process], place[by_process], process[by_process]
    paired = follows & (kind == 1) & (np.roll(kind, 1) == 0)
    load_of = np.full(specs, -1)
    load_of[place[paired]] = place[np.flatnonzero(paired) - 1]
    unpaired = leads & (kind == 0) & (np.roll(kind, -1) == 0)
    _plain(state, loads, np.sort(place[unpaired]))
    spec_lines = first_line + lines.of(spec_at)
    for own, longest, values in spec_values:
        windows = _Windows(
            spec_lines[own],
            load_of[own],
            values[:, 0],
            values[:, 2] / longest,
            values[:, 1],
            values[:, 2],
            values[:, 3:],
        )
        sound = _sound(state, windows, longest)
        if len(sound.line):
            _window(state, loads, sound, longest)
    ends = np.flatnonzero(~leads & (kind == 0))
    state.loads = {names[process[end]]: _load(loads, place[end]) for end in ends.tolist()}
    return len(lines)


def _shares(block: bytes, lines: Lines, at: Ints) -> Floats:
    """An engine's share of each throughput line: those of several may be added up."""
    if _AGGREGATED not in block:
        return np.ones(len(at))
    leads = (block[begin:end] for begin, end in zip(lines.begins(at).tolist(), at.tolist(), strict=True))
    engines = (ENGINES.search(lead) for lead in leads)
    return np.array([1.0 / (float(found[1]) or 1.0) if found else 1.0 for found in engines])


def _loads(held: list[tuple[int, Load]], values: Floats, shares: Floats, lines: Ints) -> _Loads:
    before = [load for _, load in held]

    def column(name: str, read: Floats) -> Floats:
        return np.concatenate([np.array([getattr(load, name) for load in before], np.float64), read])

    return _Loads(
        prompt=column("prompt", values[:, 0] * shares),
        generation=column("generation", values[:, 1] * shares),
        running=column("running", values[:, 2] * shares),
        waiting=column("waiting", values[:, 3]),
        cached=column("cached", values[:, 5] / 100),
        line=np.concatenate([np.array([load.line for load in before], np.intp), lines]),
    )


def _load(loads: _Loads, place: int) -> Load:
    prompt, generation, running, waiting, cached = (float(column[place]) for column in loads[:5])
    return Load(prompt, generation, running, waiting, None if np.isnan(cached) else cached, int(loads.line[place]))


def _plain(state: State, loads: _Loads, places: Ints) -> None:
    """`vllm_windows.plain_window` for these loads."""
    busy = (loads.running[places] > 0) & (loads.generation[places] > 0)
    if not busy.all():
        state.tally.add("idle windows", int(loads.line[places[~busy][0]]), int((~busy).sum()))
    places = places[busy]
    if not len(places):
        return
    prompt, generation, running, waiting = (column[places] for column in loads[:4])
    batches, which = alike(running)
    pools = Folded([state.plain.setdefault(batch, WindowPool()) for batch in batches], which)
    pools.at(loads.line[places])
    pools.add("speed", generation)
    pools.count("speed_count")
    timed = (waiting == 0) & (prompt <= PREFILL_SHARE * generation)
    pools.add("step_sum", running / generation, timed)
    pools.add("steps", np.ones(len(places)), timed)


def _by_length(texts: list[bytes]) -> list[tuple[Ints, int, Floats]]:
    """For each draft length which of the speculation lines have it, and their AL, tokens accepted and drafted, and
    rates by column. Raises ValueError for what is no number."""
    if not texts:
        return []
    # AL, throughputs where they are said, accepted, drafted; then the rates.
    ahead = 5 if b"throughput" in texts[0] else 3
    commas = np.fromiter((text.count(b",") for text in texts), np.intp, len(texts))
    found = []
    for count in np.unique(commas).tolist():
        own = np.flatnonzero(commas == count)
        longest = count - ahead + 1
        values = numbers_in(texts if len(own) == len(texts) else [texts[at] for at in own], ahead + longest)
        found.append((own, longest, np.delete(values, np.s_[1 : ahead - 2], axis=1)))
    return found


def _sound(state: State, windows: _Windows, longest: int) -> _Windows:
    """The windows that drafted and whose figures agree, n told by the printed AL where drafts are shorter."""
    idle = windows.drafted == 0
    if idle.any():
        state.tally.add("idle windows", int(windows.line[idle][0]), int(idle.sum()))
        windows = windows.only(~idle)
    high = np.flatnonzero(windows.length > 1 + longest + LENGTH_ROUNDED)
    if len(high):
        raise above(state, float(windows.length[high[0]]), longest, int(windows.line[high[0]]))
    total = np.zeros(len(windows.line))
    for position in range(longest):
        total = total + windows.rates[:, position]
    apart = np.abs(1 + total - windows.length) > adds_up_within(longest)
    if apart.any():
        reason = "windows whose rates do not add up to their AL"
        state.tally.add(reason, int(windows.line[apart][0]), int(apart.sum()))
        windows = windows.only(~apart)
    more = windows.length - 1
    told = (more > 0) & (windows.accepted > 0)
    n, safe = windows.n.copy(), np.where(told, more, 1.0)
    counted = windows.accepted / safe
    told &= np.abs(counted - n) > told_within(n, safe)
    n[told] = counted[told]
    return windows._replace(n=n)


def _window(state: State, loads: _Loads, windows: _Windows, longest: int) -> None:
    """`vllm_windows.window` for these."""
    n, accepted, at = windows.n, windows.accepted, windows.load
    there = at >= 0
    running = np.full(len(n), UNSAID)
    running[there] = loads.running[at[there]]
    running[running == 0] = UNSAID
    batches, which = alike(running)
    keys = [(longest, None if batch == UNSAID else batch) for batch in batches]
    pools = Folded([state.pools.setdefault(key, WindowPool()) for key in keys], which)
    pools.at(windows.line)
    pools.count("count")
    sums = {"n": n, "a": accepted, "drafted": windows.drafted, "nn": n * n, "na": n * accepted}
    for name, values in {**sums, "aa": accepted * accepted, "aa_n": accepted * accepted / n}.items():
        pools.add(name, values)
    pools.rated(n, windows.rates)
    state.windows += len(n)
    if len(state.lengths) < FEW:
        state.lengths |= {round(value, 3) for value in np.unique(np.round(accepted / n, 3))[:FEW].tolist()}
    known = running != UNSAID
    prompt, generation, waiting, cached = (
        np.where(known, np.append(column, 0.0)[at], 0.0)
        for column in (loads.prompt, loads.generation, loads.waiting, loads.cached)
    )
    said = known & ~np.isnan(cached)
    state.cached_sum = float(np.cumsum([state.cached_sum, *cached[said]])[-1])
    state.cached_count += int(said.sum())
    ran = known & (generation > 0)
    pools.add("speed", generation, ran)
    pools.count("speed_count", ran)
    heavy = ran & (prompt > PREFILL_SHARE * generation)
    queued = ran & ~heavy & (waiting > 0)
    state.prefill_heavy += int(heavy.sum())
    state.queued += int(queued.sum())
    timed = ran & ~heavy & ~queued
    steps = n / np.where(known, running, 1.0)
    seconds = running * (1 + accepted / n) / np.where(timed, generation, 1.0)
    pools.add("step_sum", seconds * steps, timed)
    pools.add("steps", steps, timed)
