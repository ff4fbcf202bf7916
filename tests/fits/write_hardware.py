"""Write every fitted figure of profiles/hardware from measured kernel tables, and the figures that follow from them.

    python tests/fits/write_hardware.py [--fitted fitted.json | --tables DIR] [--check] [NAME...]

Fits (fit_kernels.py), decides (rules.py), rewrites the entries and their `sources` lines in place. Figures with
another source are left alone, but for those whose source names a rule of derived.py: they are computed again. Needs
aiconfigurator-core 0.12.0, pyarrow and scipy (`pip install -e .[fits]`), unless --fitted names what
`fit_kernels.py -o` wrote. --check writes nothing and exits with 1 where a profile differs by more than 1 %.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import hardware_file
from derived import figures, follows
from hardware_file import Entry, HardwareFile, Key, Values, dotted
from rules import SETS, Figure, Fits, decide, needed, sources

PROFILES = Path(__file__).parents[2] / "profiles" / "hardware"
ROUNDING = 0.01
"""Relative; another machine's fit moves the third digit, and a constant that the rows leave open a little more."""
NUMBER = re.compile(r"\d+\.?\d*(?= (?:%|us ))")


class Writer:
    """New state of every profile, computed on demand: one chip's figures may follow from another's."""

    def __init__(self, fits: dict[str, Fits]) -> None:
        self.fits = fits
        self.files = {path.stem: hardware_file.load(path) for path in sorted(PROFILES.glob("*.yaml"))}
        self.decided = {name: decide(name, fits, self.files[name].peaks) for name in fits}
        self.done: dict[tuple[str, Key], Values] = {}

    def figure(self, chip: str, key: Key) -> Figure | None:
        """What the fits say of an entry; None: the file's own source stands."""
        file, figure = self.files[chip], self.decided.get(chip, {}).get(key)
        if figure is None or figure.kind == "fitted" or key not in file.entries:
            return figure
        source = file.source(key)  # a gap that someone has filled with a figure of its own is no gap
        return figure if source.get("kind") == "fitted" or follows(source.get("from", "")) else None

    def look(self, chip: str, key: Key) -> Values:
        """The new figures of one entry."""
        if (chip, key) not in self.done:
            file, figure = self.files[chip], self.figure(chip, key)
            now = file.entries[key].values if key in file.entries else {}
            if figure is not None and figure.kind == "fitted":
                self.done[chip, key] = figure.values
            else:
                text = figure.text if figure is not None else file.source(key).get("from", "")
                engines = tuple(SETS.values())
                follow = follows(text)
                self.done[chip, key] = figures(chip, key, text, now, self.look, engines) if follow else now
                if not self.done[chip, key]:
                    raise SystemExit(f"{chip}: {dotted(key)} follows from an entry that does not exist")
        return self.done[chip, key]

    def state(self, chip: str) -> HardwareFile:
        """The profile as it should be."""
        old = self.files[chip]
        new = HardwareFile(old.path, old.head, old.headers, {}, old.scalars, dict(old.sources), old.sources_at)
        decided = {key: figure for key in self.decided.get(chip, {}) if (figure := self.figure(chip, key))}
        if chip in self.decided:
            gone = {key for key in old.entries if old.source(key).get("kind") == "fitted"} - set(decided)
        else:
            gone = set()
        for key in [*old.entries, *(key for key in decided if key not in old.entries)]:
            if key not in gone:
                comment = old.entries[key].comment if key in old.entries else ""
                new.entries[key] = Entry(self.look(chip, key), comment)
        stale = {dotted(key) for key in gone | set(decided)}
        if chip in self.decided:
            stale |= {key for key, source in old.sources.items() if source["kind"] == "fitted"}
        new.sources = {key: source for key, source in old.sources.items() if key not in stale}
        for place, source in sources(decided).items():
            new.sources[".".join(("kernels", *(part for part in place if part)))] = source
        return new


def same_note(a: str, b: str) -> bool:
    """Equal but for errors and shares that differ by less than half a percentage point."""
    numbers = [[float(x) for x in NUMBER.findall(text)] for text in (a, b)]
    near = all(abs(x - y) <= 0.5 for x, y in zip(*numbers, strict=False))
    return NUMBER.sub("", a) == NUMBER.sub("", b) and near


def differences(old: HardwareFile, new: HardwareFile) -> list[str]:
    """What a reader would see change beyond rounding."""
    lines = []
    for key in sorted(set(old.entries) | set(new.entries)):
        before, after = ({} if key not in f.entries else f.entries[key].values for f in (old, new))
        for name in sorted(set(before) | set(after)):
            a, b = before.get(name), after.get(name)
            if isinstance(a, float) and isinstance(b, float) and abs(a - b) <= ROUNDING * max(abs(a), abs(b)) + 1e-9:
                continue
            if a != b:
                lines.append(f"{old.path.stem}: {dotted(key)}.{name}: {a} in the profile, {b} by the fit")
    for name in sorted(set(old.sources) | set(new.sources)):
        notes = [file.sources.get(name, {}).get("note", "") for file in (old, new)]
        if not same_note(*notes):
            lines.append(f"{old.path.stem}: note of {name}: `{notes[0]}`, should be `{notes[1]}`")
        kinds = [file.sources.get(name, {}).get("kind") for file in (old, new)]
        texts = [file.sources.get(name, {}).get("from") for file in (old, new)]
        if kinds[0] != kinds[1] or texts[0] != texts[1]:
            lines.append(
                f"{old.path.stem}: sources of {name}: {kinds[0]} `{texts[0]}`, should be {kinds[1]} `{texts[1]}`"
            )
    return lines


def fit_chips(tables: Path | None, names: list[str]) -> dict[str, Any]:
    """Fit what the named profiles need, every chip without names. Imported here: --fitted does without scipy."""
    from fit_kernels import FAMILIES, fit_chip
    from tables import CHIPS, datasheet, packaged_tables

    folder = tables or packaged_tables()
    wanted = needed(set(names)) if names else set(CHIPS)
    return {name: fit_chip(folder, datasheet(name), list(FAMILIES)) for name in CHIPS if name in wanted}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    given = parser.add_mutually_exclusive_group()
    given.add_argument("--fitted", type=Path, help="constants that fit_kernels.py -o wrote")
    given.add_argument("--tables", type=Path, help="folder of <chip>/<operation>/<framework>/<version>/*.parquet")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where a profile differs")
    parser.add_argument("names", nargs="*", metavar="NAME", help="hardware profiles; all without")
    options = parser.parse_args()
    fits = (
        json.loads(options.fitted.read_text(encoding="utf-8"))
        if options.fitted
        else fit_chips(options.tables, options.names)
    )
    writer = Writer(fits)
    if unknown := set(options.names) - set(writer.files):
        parser.error(f"no hardware profile {', '.join(sorted(unknown))}")
    wrong = []
    states = {name: writer.state(name) for name in options.names or writer.files}
    for name, state in states.items():
        changes = differences(writer.files[name], state)
        wrong += changes
        text = hardware_file.render(state)
        if not options.check and text != state.path.read_text(encoding="utf-8"):
            state.path.write_text(text, encoding="utf-8")
            print(f"{name}: {len(changes)} changes beyond rounding")
    if options.check:
        print("\n".join(wrong) if wrong else f"{len(states)} profiles agree with the fit", file=sys.stderr)
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
