"""Shipped profiles of every kind made wrong, key by key, and every command with the wrong one in use."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from conftest import REPO

from bad_inputs.judge import ended, faults, number_faults
from bad_inputs.trees import Place, places, text_of
from specdec_cli.profiles.yaml_reader import read

SHIPPED: dict[str, tuple[str, ...]] = {
    "hardware": ("hardware/rtx-4090", "hardware/h100-sxm"),
    "model": ("models/llama-3.1-8b", "models/deepseek-v3", "models/qwen3-next-80b-a3b", "models/deepseek-v4-flash"),
    "drafter": ("drafters/llama-3.1-8b-eagle3", "drafters/qwen3-8b-dflash-b16"),
    "acceptance": (
        "acceptance/llama-3.1-8b/llama-3.1-8b-eagle3-mt-bench-vllm-20780",
        "acceptance/llama-3.1-8b/llama-3.1-8b-eagle3-gsm8k-lmsys-specbundle-tree",
    ),
    "engine": ("engines/vllm", "engines/llama-cpp"),
    "measurement": ("measurements/club-3090", "measurements/lucebox-dflash-tree"),
    "calibration": ("calibrations/vllm-issue-20780-eagle",),
}
"""By kind, the files that are changed."""

GRID = ("--batches", "1,32", "--draft-lengths", "0,2,4", "--format", "json")
IN_USE: dict[str, tuple[tuple[str, ...], ...]] = {
    "hardware": (("--hardware", "FILE"), ("--hardware", "FILE", "--tp", "2", "--model", "qwen3-30b-a3b")),
    "model": (("--model", "FILE", "--drafter", "ngram", "--acceptance-rate", "0.5", "--hardware", "h200-sxm"),),
    "drafter": (("--drafter", "FILE", "--acceptance-rate", "0.6"),),
    "acceptance": (("--acceptance", "FILE"),),
    "engine": (("--engine", "FILE"), ("--engine", "FILE", "--input-tokens", "512", "--output-tokens", "128")),
    "calibration": (("--calibration", "FILE"),),
}
"""By kind, options that put a file to use."""


def uses(kind: str, file: Path, model: str | None) -> Iterator[tuple[str, ...]]:
    """Every command line with the file in use."""
    if kind == "measurement":
        yield ("validate", str(file), "--format", "json")
        return
    for options in IN_USE[kind]:
        said = [str(file) if part == "FILE" else part for part in options]
        if kind == "drafter" and model:
            said += ["--model", model]
        yield ("sweep", *said, *GRID)
        if options is IN_USE[kind][0]:
            yield ("recommend", *said, "--format", "json")
            yield ("explain", *said, "--draft-length", "2", "--format", "json")
            if kind != "drafter":
                yield ("compare", *said, "--format", "json")


def representative(tree: Any) -> list[Place]:
    """Places of every sort: of entries alike (points of a list, dtypes of a table, sources) the first two."""
    seen: dict[tuple[str, ...], int] = {}
    chosen = []
    for place in places(tree):
        sort = tuple(_sort(place, index) for index in range(len(place)))
        seen[sort] = seen.get(sort, 0) + 1
        if seen[sort] <= (1 if len(place) > 1 and place[0] in ("sources", "kernels") else 2):
            chosen.append(place)
    return chosen


def _sort(place: Place, index: int) -> str:
    within = place[index - 1] if index else None
    open_keys = ("sources", "kernels", "gemm", "attention", "mla", "moe", "all_reduce", "collective_library", "ffn")
    return "*" if isinstance(place[index], int) or within in open_keys else str(place[index])


def tree_of(name: str) -> Any:
    """A shipped profile as plain data."""
    return read(REPO / "profiles" / f"{name}.yaml").data


def judged(tree: Any, kind: str, name: str, folder: Path, most: int | None = None) -> list[str]:
    """What is wrong with how `profiles check` and the commands (the first `most` of them) end on a changed profile."""
    file = folder / f"{name.rsplit('/', 1)[-1]}.yaml"
    file.write_text(text_of(tree, yaml=True), encoding="utf-8")
    found = ended("profiles", "check", str(file))
    wrong = [f"check: {text}" for text in faults(found, (0, 3), str(file), report=True)]
    for arguments in islice(uses(kind, file, "qwen3-8b" if "qwen3-8b" in name else None), most):
        used = ended(*arguments)
        codes = (0, 2, 3, 4, 5) if kind == "measurement" else (0, 2, 3, 4)
        here = faults(used, codes) + (number_faults(used.out)[:5] if used.code == 0 else [])
        wrong += [f"{' '.join(arguments)}: {text}" for text in here]
        if used.code == 3 and found.code == 3:
            break  # it does not load: no other command says more
    return wrong
