"""The built wheel works by itself, from another folder, without the repository; the sdist holds the tests too."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import typer
from conftest import REPO
from installs.lowest import lowest
from packaging.requirements import Requirement
from smoke import COMMANDS, PICTURES, WITHOUT_EXTRA, Case, all_in_one, each_by_itself, prepare

from specdec_cli.cli.app import app, run


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


def test_every_profile_is_inside(unpacked: Path) -> None:
    inside = {path.relative_to(unpacked / "specdec_cli" / "shipped_profiles") for path in unpacked.rglob("*.yaml")}
    assert inside == {path.relative_to(REPO / "profiles") for path in (REPO / "profiles").rglob("*.yaml")}


def test_tests_and_fits_stay_outside(unpacked: Path) -> None:
    assert {path.name for path in unpacked.iterdir() if not path.name.endswith(".dist-info")} == {"specdec_cli"}


def test_its_types_are_for_others_too(unpacked: Path) -> None:
    assert (unpacked / "specdec_cli" / "py.typed").is_file()


def test_every_command_answers_from_another_folder(unpacked: Path, tmp_path: Path) -> None:
    prepare(tmp_path)
    installed = {"PYTHONPATH": str(unpacked), "XDG_CONFIG_HOME": str(tmp_path), "SPECDEC_PROFILES": ""}
    assert all_in_one(COMMANDS, [sys.executable, "-P"], tmp_path, installed) == []
    program = [sys.executable, "-P", "-m", "specdec_cli"]
    assert each_by_itself(COMMANDS[:1], [program], tmp_path, installed) == []


@pytest.mark.parametrize("case", WITHOUT_EXTRA, ids=lambda case: case.line)
def test_pictures_say_what_to_install(
    case: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run(case.line.split()) == case.code
    assert case.shows in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names of the files in an sdist built from the tree."""
    folder = tmp_path_factory.mktemp("sdist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)]
    subprocess.run(command, cwd=REPO, check=True, capture_output=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        return {name.partition("/")[2] for name in opened.getnames()}


@pytest.mark.parametrize("folder", ["specdec_cli", "profiles", "tests", ".ci"])
def test_the_sdist_holds_what_the_tests_need(sdist: set[str], folder: str) -> None:
    below = [path.relative_to(REPO / folder) for path in (REPO / folder).rglob("*") if path.is_file()]
    here = {
        f"{folder}/{path}" for path in below if not any(part.startswith((".", "__pycache__")) for part in path.parts)
    }
    assert here - sdist == set()


def test_every_dependency_says_from_which_version_on() -> None:
    """tests/installs/lowest.py runs the tests with these."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]
    pinned = {pin.partition("==")[0] for pin in lowest(REPO / "pyproject.toml")}
    assert {Requirement(line).name for line in project["dependencies"]} <= pinned


def test_every_command_is_in_the_smoke_run() -> None:
    tried = {case.line.split()[0] for case in (*COMMANDS, *PICTURES)}
    tried |= {" ".join(case.line.split()[:2]) for case in COMMANDS if case.line.startswith("profiles")}
    root = typer.main.get_command(app)
    listed = set(root.list_commands(None))  # type: ignore[attr-defined]
    listed |= {f"profiles {name}" for name in root.get_command(None, "profiles").commands}  # type: ignore[attr-defined]
    assert listed - tried == set()
