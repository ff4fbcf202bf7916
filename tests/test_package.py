"""The built wheel works by itself: its profiles, its web files, from another folder, without the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import REPO


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the tree and unpacked as pip would."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=REPO, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def specdec(unpacked: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "specdec_cli", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_profile_is_inside(unpacked: Path) -> None:
    inside = {path.relative_to(unpacked / "specdec_cli" / "shipped_profiles") for path in unpacked.rglob("*.yaml")}
    assert inside == {path.relative_to(REPO / "profiles") for path in (REPO / "profiles").rglob("*.yaml")}


def test_tests_and_fits_stay_outside(unpacked: Path) -> None:
    assert {path.name for path in unpacked.iterdir() if not path.name.endswith(".dist-info")} == {"specdec_cli"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("recommend", "--batch", "32"),
        ("sweep", "--batches", "1,8", "--format", "json"),
        ("profiles", "show", "h100-sxm", "--sources"),
        ("validate", "vllm-issue-20780"),
        ("--version",),
    ],
    ids=" ".join,
)
def test_it_answers_from_another_folder(unpacked: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = specdec(unpacked, tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert str(REPO) not in done.stdout + done.stderr
