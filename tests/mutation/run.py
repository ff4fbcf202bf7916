"""Change the code of physics and explore a little, many times, and see whether a test notices (mutmut).

    pip install -e '.[mutation]'
    python tests/mutation/run.py physics/acceptance explore/frontier
    python tests/mutation/run.py --most 100                  # a sample of every module; hours

Opt-in: CI does not run it. It works in a copy of the tree and prints what survived, as differences; a survivor is a
test that is missing, a line that is not needed, or a change that changes nothing. Functions under a decorator
(properties, caches) and constants of modules are not mutated.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import libcst as cst
from mutmut.mutation.file_mutation import create_mutations, mutate_file_contents
from mutmut.utils.format_utils import get_mutant_name

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]
PLAIN = (cst.Call, cst.Assign, cst.AnnAssign, cst.SimpleString)
NOT_TESTED, TIMED_OUT = 33, (24, 36, 152, 255)


def main() -> None:
    """Mutate the modules named, or all of them, and print what each pass left alive."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("modules", nargs="*", help="such as physics/acceptance; none: all")
    asked.add_argument("--most", type=int, default=100, help="mutants of a module, see `drawn`; 0: all")
    asked.add_argument("--seed", type=int, default=8)
    asked.add_argument("--wide", action="store_true", help="try what survives on the other tests too")
    asked.add_argument("--work", type=Path, help="folder for the copy, kept; a temporary one otherwise")
    said = asked.parse_args()
    table = tomllib.loads((HERE / "modules.toml").read_text())
    known = {
        f"{room}/{file.stem}": table[room].get(file.stem, table["wide"])
        for room in ("physics", "explore")
        for file in sorted((REPO / "specdec_cli" / room).glob("[!_]*.py"))
    }
    if unknown := [name for name in said.modules if name not in known]:
        asked.error(f"no such module of physics or explore: {', '.join(unknown)}")
    with tempfile.TemporaryDirectory() as temporary:
        work = (said.work or Path(temporary)).resolve()
        copy_tree(work)
        os.chdir(work)  # mutmut reads its settings and writes its mutants where it stands
        for module in said.modules or known:
            names = drawn(module, said.most, said.seed)
            codes = run(module, names, known[module])
            alive = [name for name, code in codes.items() if code in (0, NOT_TESTED)]
            if said.wide and alive:
                codes |= run(module, alive, table["wide"])
            report(module, codes)


def copy_tree(work: Path) -> None:
    """What git knows of the tree, as it stands now, uncommitted changes included."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=REPO, check=True, capture_output=True, text=True).stdout.split("\0"):
        if name and (REPO / name).is_file():
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPO / name, work / name)


def drawn(module: str, most: int, seed: int) -> list[str]:
    """The names of a module's mutants, or `most` that change arithmetic or logic and a quarter as many others."""
    file = Path("specdec_cli", f"{module}.py")
    configure(module, [])
    names = mutate_file_contents(str(file), file.read_text()).mutant_names
    mutations = [
        mutation
        for mutation in create_mutations(str(file), file.read_text())[1]
        if isinstance(mutation.contained_by_top_level_function, cst.FunctionDef)
    ]
    # An argument or a value made None mostly ends in an exception that any test sees.
    plain: tuple[list[str], list[str]] = [], []
    for name, mutation in zip(names, mutations, strict=True):
        plain[isinstance(mutation.original_node, PLAIN)].append(get_mutant_name(file, name))
    draw = random.Random(f"{seed} {module}")
    bounds = (most, most // 4) if most else (len(names), len(names))
    return [
        name for some, bound in zip(plain, bounds, strict=True) for name in draw.sample(some, min(bound, len(some)))
    ]


def configure(module: str, tests: list[str]) -> None:
    """Write mutmut's settings into the copy's pyproject.toml: this module, these tests."""
    settings = {
        "source_paths": ["specdec_cli"],
        "only_mutate": [f"specdec_cli/{module}.py"],
        "also_copy": ["profiles", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"],
        "pytest_add_cli_args": ["-p", "no:cacheprovider"],
        "pytest_add_cli_args_test_selection": [f"tests/test_{name}.py" for name in tests],
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    text = (REPO / "pyproject.toml").read_text()
    Path("pyproject.toml").write_text("\n".join([text, "[tool.mutmut]", *lines, ""]))


def run(module: str, names: list[str], tests: list[str]) -> dict[str, int]:
    """Exit code of the tests by mutant: 0 means that none noticed."""
    if not names:
        return {}
    configure(module, tests)
    shutil.rmtree("mutants", ignore_errors=True)
    done = mutmut("run", "--max-children", "1", *names)
    if done.returncode != 0:
        print(f"{module}: mutmut could not run\n{done.stdout[-2000:]}{done.stderr[-2000:]}", flush=True)
        return {}
    results = json.loads(Path("mutants", "specdec_cli", f"{module}.py.meta").read_text())
    return {name: results["exit_code_by_key"][name] for name in names}


def report(module: str, codes: dict[str, int]) -> None:
    """One line of counts, then the survivors."""
    alive = [name for name, code in codes.items() if code in (0, NOT_TESTED)]
    late = sum(code in TIMED_OUT or code < 0 for code in codes.values())
    print(f"{module}: {len(codes)} mutants, {len(codes) - len(alive)} killed ({late} by time), {len(alive)} survived")
    for name in alive:
        changed = mutmut("show", name).stdout.splitlines()
        print(f"  {name}{' (no test runs it)' if codes[name] == NOT_TESTED else ''}")
        print(*(f"    {line}" for line in changed if line[:1] in "+-" and line[:3] not in ("+++", "---")), sep="\n")
    sys.stdout.flush()


def mutmut(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run mutmut in the copy."""
    command = [str(Path(sys.executable).with_name("mutmut")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    main()
