"""Runs `specdec` in this process on a malformed input, and says what is wrong with how it ended."""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from specdec_cli.cli.app import run

SECONDS = 2.0
LONGEST_ERROR = 2000
"""Letters; whatever was found is cut short in an error."""
ANSWERED = (0, 5)


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    code: int
    out: str
    err: str
    seconds: float


class _TooLong(BaseException):
    """Nothing in the program catches it."""


def ended(*arguments: str, limit: float = 5 * SECONDS) -> Ended:
    """Run `specdec`; warnings are errors, and a run past `limit` seconds of computing is cut off with code -1."""

    def cut(*_: Any) -> NoReturn:
        raise _TooLong

    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGPROF, cut)
    signal.setitimer(signal.ITIMER_PROF, limit)
    start = time.process_time()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            warnings.simplefilter("error")
            code = run(arguments)
    except _TooLong:
        code = -1
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return Ended(code, out.getvalue(), err.getvalue(), time.process_time() - start)


def faults(found: Ended, codes: tuple[int, ...], *named: str, report: bool = False) -> list[str]:
    """What is wrong with a run's end, given the exit codes that may be and what an error must name.

    `report`: stdout holds a list of problems where the code is 3 (`profiles check`).
    """
    wrong = []
    if found.code not in codes:
        wrong.append(f"exit code {found.code}, expected {codes}: {found.err.strip()[-300:]}")
    if found.seconds > SECONDS:
        wrong.append(f"{found.seconds:.1f} s")
    if "Traceback" in found.err or "internal error" in found.err:
        wrong.append("a traceback or an internal error")
    said = found.out + found.err if report else found.err
    if found.code not in ANSWERED:
        if found.out and not report and found.code != 4:
            wrong.append(f"an error, yet stdout holds {found.out[:80]!r}")
        if not said.strip():
            wrong.append("an error without a word")
        wrong += [f"{name!r} is not named: {said[:300]!r}" for name in named if name not in said]
        longest = max((len(line) for line in said.splitlines()), default=0)
        if longest > LONGEST_ERROR:
            wrong.append(f"a line of {longest} letters")
    control = re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", found.out + found.err)
    if control:
        wrong.append(f"the control character {control.group()!r}")
    return wrong


SIGNED = re.compile(r"gain|ahead|saved|bias|error|difference|change|slope|extra|signed")


def number_faults(text: str) -> list[str]:
    """What cannot be in an answer's JSON: not finite, negative, an acceptance length or parts that do not fit."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is no JSON")

    try:
        data = json.loads(text, parse_constant=refuse)
    except ValueError as error:
        return [str(error)]
    return list(_numbers(data, ""))


def answered(found: Ended) -> list[str]:
    """What is wrong with the numbers of an answer in JSON; nothing where it is an error, or not JSON."""
    return number_faults(found.out) if found.code == 0 and found.out.startswith("{") else []


def _numbers(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, dict):
        if "what your calibration adds" in value.values():
            return  # or takes away
        if {"draft_length", "acceptance_length", "verify_ms", "step_ms"} <= value.keys():
            yield from _point(value)
        for name, item in value.items():
            yield from _numbers(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item, key)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if value < 0 and not SIGNED.search(key):
            yield f"{key} = {value}"
        if abs(value) > 1e100:
            yield f"{key} = {value}"


def _point(point: dict[str, Any]) -> Iterator[str]:
    drafted, length = point["draft_length"], point["acceptance_length"]
    if length is not None and drafted is not None and not 1 <= length <= (1 + drafted) * (1 + 1e-9):
        yield f"AL {length} at D = {drafted}"
    for name in ("target_ms", "verify_ms", "step_ms", "speedup", "interactivity_tokens_per_s_per_user"):
        if point.get(name) is not None and not point[name] > 0:
            yield f"{name} = {point[name]}"
    if None not in (point["verify_ms"], point["step_ms"], point.get("draft_ms"), point.get("target_ms")):
        if abs(point["verify_ms"] + point["draft_ms"] - point["step_ms"]) > 1e-6 * point["step_ms"]:
            yield f"{point['verify_ms']} + {point['draft_ms']} is not {point['step_ms']}"
        if point["verify_ms"] < point["target_ms"] * (1 - 1e-9):
            yield f"verifying takes {point['verify_ms']}, a plain step {point['target_ms']}"
