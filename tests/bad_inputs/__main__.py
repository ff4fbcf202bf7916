"""The whole catalogue: every change at every sort of place, every value of every option.

`python -m bad_inputs [--share 0.1] [PART...]` in `tests/`; prints what ends wrong, and leaves with 1 if anything does.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from conftest import REPO

from bad_inputs import arguments, configs, profiles
from bad_inputs.judge import answered, faults
from bad_inputs.judge import ended as run
from bad_inputs.trees import changed, every_change

MEMORY = 1200 * 2**20
"""Bytes of address space: the libraries' own and 500 MB."""
Case = tuple[str, Callable[[], list[str]]]


def profile_cases(folder: Path) -> Iterator[Case]:
    """Shipped profiles, changed."""
    for kind, names in profiles.SHIPPED.items():
        for name in names:
            tree = profiles.tree_of(name)
            for place, change in every_change(tree, profiles.representative(tree)):

                def judge(tree=tree, kind=kind, name=name, place=place, change=change) -> list[str]:  # type: ignore[no-untyped-def]
                    other = changed(tree, place, change)
                    return [] if other is None else profiles.judged(other, kind, name, folder)

                yield f"{name}: {change} at {place}", judge


def config_cases(folder: Path) -> Iterator[Case]:
    """Configurations of the tests' own, and the collected ones of SPECDEC_SHARED_DATA, changed."""
    every = [(name, config, False) for name, config in configs.MODELS.items()]
    every += [(name, config, True) for name, config in configs.DRAFTERS.items()]
    data = Path(os.environ.get("SPECDEC_SHARED_DATA") or REPO.parent / "shared" / "data")
    for below, drafter in (("hf_configs", False), ("hf_drafts", True)):
        seen = set()
        for path in sorted((data / below).glob("*.json")):
            config = json.loads(path.read_text("utf-8"))
            if config.get("model_type") not in seen and "hf_quant" not in path.name and path.stat().st_size < 50_000:
                seen.add(config.get("model_type"))
                every.append((path.name, config, drafter))
    for name, config, drafter in every:
        for place, change in every_change(config, configs.first_places(config)):

            def judge(config=config, drafter=drafter, place=place, change=change) -> list[str]:  # type: ignore[no-untyped-def]
                other = changed(config, place, change)
                return [] if other is None else configs.judged(other, folder, drafter=drafter)

            yield f"{name}: {change} at {place}", judge


def argument_cases(folder: Path) -> Iterator[Case]:
    """Every option of every command with every value."""
    arguments.furnish(folder)
    os.chdir(folder)
    for words in arguments.cases():

        def judge(words=words) -> list[str]:  # type: ignore[no-untyped-def]
            found = run(*words)
            return faults(found, arguments.codes(words), report=words[:2] == ["profiles", "check"]) + answered(found)

        yield " ".join(word[:80] for word in words), judge


PARTS = {"profiles": profile_cases, "configs": config_cases, "arguments": argument_cases}


def main() -> int:
    """Run the parts asked for; 1 where a case ends wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--share", type=float, default=1.0, help="of the cases, chosen at random")
    said = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    wrong = 0
    for part in said.parts or PARTS:
        chosen, count, start = random.Random(part), 0, time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            for name, judge in PARTS[part](Path(folder)):
                if chosen.random() >= said.share:
                    continue
                count += 1
                found = judge()
                wrong += bool(found)
                for text in found[:3]:
                    print(f"{name}\n    {text}", flush=True)
            os.chdir(REPO)
        print(f"{part}: {count} cases in {time.monotonic() - start:.0f} s", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
