"""Build the wheel and the sdist, install each where nothing else is, and put every command through it.

    python tests/installs/clean.py [PYTHON ...] [--tests]

PYTHON: interpreters, `python3.13` or a path; else $PYTHON, else this one. For each: the wheel without its extras, the
sdist likewise (built there, as `pip install .` does), and the wheel with the `plot` extra, all from folders with no
repository in sight. --tests: the tests out of the unpacked sdist too, in an environment with the `dev` extra. Opt-in,
since it asks the package index; tests/test_package.py does what needs none. Exit code 1 where anything is wrong.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests"))

from smoke import COMMANDS, PICTURES, WITHOUT_EXTRA, Case, each_by_itself, prepare  # noqa: E402


def call(*command: str | Path, cwd: Path | None = None) -> None:
    """Run it; its output is shown where it fails, and the script ends."""
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def build(folder: Path) -> tuple[Path, Path]:
    """The sdist of the repository, and the wheel that is built out of it."""
    environment = new_environment(sys.executable, folder / "build")
    call(environment, "-m", "pip", "install", "build")
    call(environment, "-m", "build", "--outdir", folder / "dist", REPO)
    (sdist,), (wheel,) = (folder / "dist").glob("*.tar.gz"), (folder / "dist").glob("*.whl")
    return sdist, wheel


def new_environment(python: str, folder: Path) -> Path:
    """A fresh virtual environment; its interpreter."""
    call(python, "-m", "venv", folder)
    return folder / ("Scripts" if os.name == "nt" else "bin") / "python"


def try_out(python: Path, folder: Path, cases: Sequence[Case]) -> list[str]:
    """Run the cases in an empty folder, by the console script and by `-m` in turn; what is wrong."""
    folder.mkdir()
    prepare(folder)
    programs = ([str(python.with_name("specdec"))], [str(python), "-m", "specdec_cli"])
    return each_by_itself(cases, programs, folder, BARE)


BARE = {"PYTHONPATH": "", "SPECDEC_PROFILES": "", "XDG_CONFIG_HOME": os.devnull, "PYTHONWARNINGS": "error"}


def from_sdist(python: str, sdist: Path, folder: Path) -> list[str]:
    """Install the unpacked sdist for development and run its tests; what is wrong."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (root,) = (path for path in folder.iterdir() if path.is_dir())
    environment = new_environment(python, folder / "dev")
    call(environment, "-m", "pip", "install", "-e", f"{root}[dev]")
    done = subprocess.run([environment, "-m", "pytest"], cwd=root, check=False)
    return [f"the tests of the sdist left with {done.returncode}"] if done.returncode else []


def main() -> int:
    """Build once, then every interpreter."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", default=[os.environ.get("PYTHON", sys.executable)])
    parser.add_argument("--tests", action="store_true")
    asked = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sdist, wheel = build(folder)
        for number, python in enumerate(asked.pythons):
            for title, what, cases in (
                ("wheel", str(wheel), (*COMMANDS, *WITHOUT_EXTRA)),
                ("sdist", str(sdist), COMMANDS),
                ("wheel[plot]", f"{wheel}[plot]", PICTURES),
            ):
                here = folder / f"{title}-{number}"
                environment = new_environment(python, here)
                call(environment, "-m", "pip", "install", what)
                found = try_out(environment, folder / f"run-{title}-{number}", cases)
                print(f"{python} {title}: {len(cases)} commands, {len(found)} wrong", *found, sep="\n  ", flush=True)
                wrong += len(found)
            if asked.tests:
                found = from_sdist(python, sdist, folder / f"tests-{number}")
                print(f"{python} tests of the sdist: {len(found)} wrong", *found, sep="\n  ", flush=True)
                wrong += len(found)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
