"""Figures that cannot be right are named; every shipped profile passes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from builders import BUILDERS, Data, put, toy_drafter, toy_hardware, toy_model, write_yaml
from conftest import REPO

from specdec_cli.profiles.plausible import check_profile
from specdec_cli.profiles.search import profile_files

SHIPPED = profile_files([REPO / "profiles"])


def problems(tmp_path: Path, data: Data) -> list[tuple[str | None, str]]:
    path = write_yaml(tmp_path / f"{data['name']}.yaml", data)
    return [(error.key, error.message) for error in check_profile(path)]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_shipped_profile(path: Path) -> None:
    assert check_profile(path) == []


@pytest.mark.parametrize("kind", sorted(BUILDERS))
def test_toys_pass(tmp_path: Path, kind: str) -> None:
    assert problems(tmp_path, BUILDERS[kind]()) == []


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"memory_bandwidth_gb_per_s": 3.35}, "memory_bandwidth_gb_per_s"),  # TB/s
        ({"memory_bandwidth_gb_per_s": 3.35e6}, "memory_bandwidth_gb_per_s"),  # MB/s
        ({"memory_gb": 8e4, "memory_bytes": 8e13}, "memory_gb"),  # MB
        ({"peak_tflops": {"bf16": 989e3, "fp8": 1979e3}}, "peak_tflops.bf16"),  # GFLOP/s
        ({"peak_tflops": {"bf16": 0.1, "fp8": 0.2}}, "peak_tflops.bf16"),  # PFLOP/s
        (
            {"link": {"technology": "x", "gb_per_s": 900.0, "peer_gb_per_s": 900.0, "domain_gpus": 8}},
            "link.gb_per_s",
        ),
    ],
)
def test_slips_of_units(tmp_path: Path, changes: Data, key: str) -> None:
    chip = toy_hardware(**changes)
    assert key in [found for found, _ in problems(tmp_path, chip)]


def test_a_link_that_joins_nothing_may_be_any(tmp_path: Path) -> None:
    link = {"technology": "none", "gb_per_s": 900.0, "peer_gb_per_s": 900.0, "domain_gpus": 1}
    assert problems(tmp_path, toy_hardware(link=link)) == []


def test_a_size_that_does_not_give_the_count(tmp_path: Path) -> None:
    """Ten layers more than the 165e6 of the toy: 145e6 on top."""
    (found,) = problems(tmp_path, put(put(toy_model(), "blocks[0].repeat", 20), "parameters.published_total", None))
    assert found[0] == "parameters.total_b"
    assert "give 0.310e9 parameters, the file says 0.165e9" in found[1]


@pytest.mark.parametrize(
    ("printed", "fits"),
    [("165M", True), ("0.2B", True), ("152M", True), ("140M", False), ("0.16B", True), ("1B", True), ("3B", False)],
)
def test_a_printed_count_within_its_last_digit_or_a_tenth(tmp_path: Path, printed: str, fits: bool) -> None:
    found = problems(tmp_path, put(toy_model(), "parameters.published_total", printed))
    assert [key for key, _ in found] == ([] if fits else ["parameters.published_total"])


def test_a_printed_count_that_is_none(tmp_path: Path) -> None:
    ((key, message),) = problems(tmp_path, put(toy_model(), "parameters.published_total", "about 8"))
    assert (key, message) == ("parameters.published_total", "expected a count such as 8B, found `about 8`")


def test_a_head_that_does_not_give_the_count(tmp_path: Path) -> None:
    # fusion 3 + attention 2 + 0.5 + 0.5 + 1 + ffn 12 + head 2 = 21e6 (see builders)
    assert problems(tmp_path, toy_drafter(parameters_m=21.0)) == []
    ((key, message),) = problems(tmp_path, toy_drafter(parameters_m=30.0))
    assert key == "parameters_m"
    assert "this head give 21.00e6 parameters, the file says 30e6" in message


def test_errors_of_loading_come_alone_and_in_the_order_of_lines(tmp_path: Path) -> None:
    data: Any = put(toy_hardware(memory_bandwidth_gb_per_s=3.35), "vendor", 1)
    data = put(put(data, "sources", {"*": {"from": "x", "checked": "x", "kind": "x"}}), "confidence", "none")
    path = write_yaml(tmp_path / "toy-chip.yaml", data)
    lines = [error.line for error in check_profile(path)]
    assert len(lines) == 3
    assert lines == sorted(lines)  # type: ignore[type-var]
