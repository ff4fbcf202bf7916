"""Command lines made wrong: every option of every command with values that nobody means, and options at odds."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from specdec_cli.cli.app import app

VALUES: dict[str, str] = {
    "empty": "",
    "blank": " ",
    "zero": "0",
    "minus one": "-1",
    "minus zero": "-0",
    "half": "0.5",
    "1e9": "1e9",
    "1e308": "1e308",
    "1e-320": "1e-320",
    "1e999": "1e999",
    "nan": "nan",
    "infinity": "inf",
    "minus infinity": "-inf",
    "ten": "10",
    "a million": "1000000",
    "1e17": str(10**17),
    "10**30": str(10**30),
    "5,000 digits": "9" * 5000,
    "underscores": "1_000",
    "thousands": "1,000",
    "Arabic digits": "١٢",
    "full-width digits": "１６",
    "superscript": "²",
    "hexadecimal": "0x10",
    "a range": "1..8",
    "backwards": "8..1",
    "a step of 0": "1..8:0",
    "a factor of 1": "1..8:x1",
    "a factor from 0": "0..8:x2",
    "to a billion": "1..1000000000",
    "to 10**30": f"1..{10**30}",
    "by doubling": "1..1000000000000000:x2",
    "from below": "-3..3",
    "three dots": "1...8",
    "a trailing comma": "1,2,",
    "a comma": ",",
    "repeated": "1,1,1",
    "2,000 entries": ",".join(map(str, range(1, 2001))),
    "100 kB": "x" * 100_000,
    "a pair": "1=2",
    "half a pair": "1=",
    "no key": "=1",
    "not a number": "1=nan",
    "past the largest": "1=1e400",
    "given twice": "1=1.5,1=1.6",
    "too many": "1=3",
    "far out": "1000000000=2",
    "terminal escape": "\x1b[31mred\x07",
    "a line break": "a\nerror: b",
    "turned round": "\u202egnp.exe",
    "parent folders": "../../../etc/passwd",
    "a device": "/dev/null",
    "the root": "/",
    "a home that is not": "~nobody-here/x",
    "a folder": ".",
    "a missing file": "missing.yaml",
    "a missing json": "missing.json",
    "a name of another kind": "h100-sxm",
    "a look-alike": "llаma-3.1-8b",
    "upper case": "LLAMA-3.1-8B",
    "none": "none",
    "True": "True",
    "a placeholder": "%s{}*?",
    "a dash": "-",
    "an option": "--help-me",
    "not UTF-8": "\udcff",
}

COMMANDS: dict[str, tuple[str, ...]] = {
    "sweep": (),
    "recommend": (),
    "compare": (),
    "explain": (),
    "plot": (),
    "validate": ("club-3090",),
    "acceptance": ("runs.csv",),
    "calibrate": ("runs.csv",),
    "profiles list": (),
    "profiles show": ("l40s",),
    "profiles check": ("toy.yaml",),
    "profiles import": ("config.json",),
    "profiles new": ("model", "my-model", "--force"),
    "profiles schema": ("model",),
}
"""Each command with what it cannot do without."""

RUNS = """batch,draft_length,acceptance_length,step_ms,context
16,0,1.0,9.1,1500
16,1,1.74,11.2,1500
16,4,2.81,13.6,1500
"""

AT_ODDS = """
sweep --acceptance-rate 0.7 --acceptance-length 1=1.7
sweep --acceptance llama-3.1-8b-eagle3-mt-bench-vllm-20780 --acceptance-rate 0.7
sweep --drafter none --acceptance-rate 0.7
sweep --drafter none --draft-lengths 1..4
sweep --context 100 --input-tokens 10 --output-tokens 10
sweep --input-tokens 10
sweep --output-tokens 10
sweep --tp 4 --gpus 2
sweep --gpus 3 --tp 2
sweep --ep 3 --gpus 4
sweep --ep 8
sweep --tp 1000000
sweep --gpus 1000000 --tp 1000000
sweep --verify-width 4
sweep --tree-topk 4 --verify-width 1
sweep --tree-topk 1000000000 --verify-width 1000000000
sweep --drafter ngram --tree-topk 4 --acceptance-rate 0.5
sweep --draft-lengths 0..1000000 --batches 1..10
sweep --draft-lengths 0..100000 --batches 1 --tree-topk 2
sweep --batches 1..100000 --draft-lengths 0..100000
sweep --batches 1000000000000000000 --draft-lengths 1 --context 1
sweep --batches 1 --context 100000000000000000
sweep --batches 1 --input-tokens 100000000000000000 --output-tokens 1
sweep --batches 1 --input-tokens 1 --output-tokens 100000000000000000
sweep --model llama-3.1-8b --drafter qwen3-8b-dflash-b16
sweep --model llama-3.1-8b,qwen3-8b
sweep --engine vllm,sglang
sweep --hardware h100-sxm,h100-sxm
sweep --hardware h100-sxm,
sweep --drafter eagle3,eagle3
sweep --drafter none,none
sweep --kv-dtype fp3
sweep --weight-dtype bf61
sweep --format jsn
sweep --format table --format json
sweep --batch 3
sweep --min-interactivity 3
sweep --schedule
sweep extra words
sweep --batches
sweep --batchs 1,2
sweep --calibration vllm-issue-20780-eagle --model qwen3-8b
sweep --assume-acceptance typicl
recommend --batch 8 --batches 1,2
recommend --batch 8 --schedule
recommend --batch 8 --min-interactivity 10
recommend --min-interactivity 10 --min-throughput 10
recommend --min-interactivity 1e308
recommend --min-throughput 1e308
recommend --max-tpot-ms 1e-320
recommend --max-tpot-ms 0
recommend --tie -1
recommend --tie 1e308
recommend --min-gain nan
recommend --min-gain -1
recommend --emit vlm
recommend --emit vllm --drafter none
recommend --contexts 1k
recommend --schedule --contexts 0k
recommend --schedule --contexts 1k,8k --context 4
recommend --draft-lengths 0
explain --batch 0
explain --draft-length 1000000000
explain --batch 1000000000000000000
explain --batches 1,2
explain --draft-length 3 --drafter none
compare --drafter none
compare --drafter eagle3
plot --view spedup
plot -o chart.bmp
plot -o chart
plot --format json
validate nosuch
validate club-3090 club-3090
validate h100-sxm
acceptance
acceptance missing.log
acceptance .
acceptance runs.csv --from vlm
calibrate
calibrate --plan runs.csv
calibrate --plan --engine vlm
profiles
profiles lst
profiles list --kind hardwar
profiles list --vendor ''
profiles show nosuch
profiles show h100-sxm --kind model
profiles show ../../etc/passwd
profiles check
profiles check nosuch.yaml
profiles check .
profiles import runs.csv
profiles import config.json --kind drafter
profiles import config.json --kind hardware
profiles import config.json --kind drafter --target nosuch
profiles import config.json --kind drafter --target llama-3.1-8b --mechanism egle
profiles import config.json --bits-per-weight 4 --llama-bench runs.csv
profiles import config.json --bits-per-weight 0
profiles import config.json --bits-per-weight nan
profiles import config.json --name ../x
profiles import config.json --name x/y
profiles import config.json --name CON
profiles import config.json --name .x
profiles import config.json --name ''
profiles import config.json -o ../Nope.yaml
profiles new model ../x
profiles new model /tmp/x
profiles new model 'a b'
profiles new model ''
profiles new model none
profiles new model -x
profiles new engin my-engine
profiles new model my-model --like h100-sxm
profiles new hardware my-chip --like nosuch
profiles schema hardwar
swep
--batches 1
-x
--version --version
sweep --hardware
sweep -o
sweep -o .
sweep -o missing/x.json
sweep -o ''
sweep --profiles missing
sweep --profiles runs.csv
sweep --profiles ''
"""
"""One command line each."""


def lines() -> list[list[str]]:
    """The command lines of options at odds."""
    return [shlex.split(line) for line in AT_ODDS.strip().splitlines()]


def options(command: str) -> list[str]:
    """The options of a command that take a value, by their long names."""
    found: Any = typer.main.get_command(app)
    context = None
    for word in command.split():
        context = typer.Context(found, parent=context)
        found = found.get_command(context, word)
    return [one.opts[0] for one in found.params if one.opts[0].startswith("--") and not one.is_flag]


def cases() -> Iterator[list[str]]:
    """Every option of every command with every value."""
    for command, needed in COMMANDS.items():
        # `check -o` writes what it has to say into the file.
        for option in sorted({*options(command)} - ({"--output"} if command == "profiles check" else set())):
            for value in VALUES.values():
                yield [*command.split(), *needed, f"{option}={value}"]


def codes(words: list[str]) -> tuple[int, ...]:
    """The exit codes that may be."""
    return (0, 2, 3, 4, 5) if words[:1] == ["validate"] else (0, 2, 3, 4)


def furnish(folder: Path) -> None:
    """The files that the command lines name."""
    from bad_inputs.texts import CONFIG

    (folder / "runs.csv").write_text(RUNS, encoding="utf-8")
    (folder / "config.json").write_text(CONFIG, encoding="utf-8")
    (folder / "toy.yaml").write_text("format: 1\n", encoding="utf-8")
