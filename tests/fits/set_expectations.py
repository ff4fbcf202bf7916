"""Write into each file of profiles/measurements the errors that `specdec validate` holds it to.

    python tests/fits/set_expectations.py            every source, only downwards: an expectation may fall, never rise
    python tests/fits/set_expectations.py --raise    upwards too: a change that makes a source worse, and says so
    python tests/fits/set_expectations.py --check    write nothing; exit 1 where an expectation is missing or exceeded

Each figure is the median |error| of a quantity over the source's points (faults left out), rounded up to 0.1 %.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from specdec_cli.explore.validate import HELD, SLACK, medians, validate
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.measurement import Expectation

STEP = 1000  # figures are multiples of 1 / STEP
BLOCK = re.compile(r"^expected:.*\n(?:[ \t]+.*\n|(?=\n[ \t])\n)*", re.MULTILINE)


def rounded_up(error: float) -> float:
    """The next multiple of 0.001 that is not below the error."""
    return math.ceil(error * STEP - SLACK) / STEP


def next_expectation(now: Expectation, found: dict[str, float], *, may_rise: bool) -> dict[str, float]:
    """What a source is to be held to; quantities without points have none."""
    after = {}
    for quantity in HELD:
        if quantity not in found:
            continue
        limit, value = getattr(now, quantity), rounded_up(found[quantity])
        after[quantity] = value if limit is None or may_rise else min(limit, value)
    return after


def with_expectation(text: str, expected: dict[str, float]) -> str:
    """The file's text with this `expected`, every other line as it was."""
    line = f"expected: {{{', '.join(f'{name}: {value:.3f}' for name, value in expected.items())}}}\n"
    if BLOCK.search(text):
        return BLOCK.sub(lambda _: line, text, count=1)
    head, found, tail = text.partition("\nsetups:")
    if not found:
        raise SystemExit("a measurement file without `setups:` at the start of a line")
    return f"{head}\n{line}setups:{tail}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raise", dest="may_rise", action="store_true", help="let expectations rise")
    parser.add_argument("--check", action="store_true", help="write nothing")
    asked = parser.parse_args(arguments)
    library = Library()
    loaded, bad = library.every("measurement")
    if bad:
        raise SystemExit(str(bad[0]))
    report = validate(library, [one.record for one in loaded])
    problems = 0
    for one, result in zip(loaded, report.sources, strict=True):
        now, found = one.record.expected, medians(result)
        missing = [name for name in found if getattr(now, name) is None]
        worse = [name for name in found if getattr(now, name) is not None and found[name] > getattr(now, name) + SLACK]
        after = next_expectation(now, found, may_rise=asked.may_rise)
        if asked.check or (worse and not asked.may_rise):
            for name in [*(missing if asked.check else ()), *worse]:
                problems += 1
                print(f"{one.record.name}: {name} {found[name]:.4f}, held to {getattr(now, name)}")
        if not asked.check and after != {name: getattr(now, name) for name in after}:
            path = Path(one.path)
            path.write_text(with_expectation(path.read_text("utf-8"), after), "utf-8")
            print(f"{one.record.name}: {after}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
