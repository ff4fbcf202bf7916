"""Run the tests with the oldest dependencies that pyproject.toml allows.

    python tests/installs/lowest.py [PYTEST OPTION ...]

Every `>=` of the dependencies and of the `plot` and `dev` extras becomes `==`, in a fresh environment of $PYTHON, else
of this interpreter. The linters stay out of it: what they find is a matter of their version, not of ours. Opt-in, since
it asks the package index.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

REPO = Path(__file__).resolve().parents[2]
EXTRAS = ("plot", "dev")
LINTERS = {"ruff", "mypy", "types-pyyaml"}


def lowest(pyproject: Path) -> list[str]:
    """`name==version` for every requirement with a lower bound, linters left out."""
    project = tomllib.loads(pyproject.read_text("utf-8"))["project"]
    return list(_pins(project))


def _pins(project: dict[str, object]) -> Iterator[str]:
    extras = project["optional-dependencies"]
    for line in [*project["dependencies"], *(line for extra in EXTRAS for line in extras[extra])]:  # type: ignore
        requirement = Requirement(line)
        for bound in requirement.specifier:
            if bound.operator in (">=", "==") and requirement.name.casefold() not in LINTERS:
                yield f"{requirement.name}=={bound.version}"


def main(options: list[str]) -> int:
    """Install, say what, test."""
    with tempfile.TemporaryDirectory() as name:
        pins = Path(name) / "lowest.txt"
        pins.write_text("\n".join(lowest(REPO / "pyproject.toml")) + "\n", "utf-8")
        print(pins.read_text("utf-8"))
        subprocess.run([os.environ.get("PYTHON", sys.executable), "-m", "venv", f"{name}/venv"], check=True)
        python = f"{name}/venv/bin/python"
        subprocess.run([python, "-m", "pip", "install", "-q", "-c", pins, "-e", f"{REPO}[dev]"], check=True)
        command = [python, "-m", "pytest", "--ignore", "tests/test_style.py", *options]
        return subprocess.run(command, cwd=REPO, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
