"""The rooms: each import points left, the command line alone prints, profiles and engines alone read files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import REPO

PACKAGE = REPO / "specdec_cli"
MODULES = sorted(PACKAGE.rglob("*.py"))

MAY_IMPORT = {
    "errors": set(),
    "units": set(),
    "profiles": {"errors", "units"},
    "physics": {"errors", "units", "profiles"},
    "explore": {"errors", "units", "profiles", "physics"},
    "engines": {"errors", "units", "profiles"},
    "report": {"errors", "units", "profiles", "physics", "explore"},
    "cli": {"errors", "units", "profiles", "physics", "explore", "engines", "report"},
    "__main__": {"cli"},
    "__init__": set(),
}
PRINTING = {"print", "input", "typer.echo", "sys.stdout", "sys.stderr"}
FILES = {"open", "io.open", "os.open", "os.fdopen", "os.scandir", "os.listdir", "os.walk"}
FILE_METHODS = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "iterdir", "glob", "rglob"}
HEAVY = {"numpy", "rich", "yaml", "msgspec"}


def room_of(module: Path) -> str:
    """The folder below the package, or the module itself at its top."""
    parts = module.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else module.stem


def imports_of(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported, anywhere in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_at_load(tree: ast.Module) -> set[str]:
    """Top-level packages that loading the file imports; what stands under TYPE_CHECKING or in a function does not."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {name.partition(".")[0] for name in imports_of(node)}
    return found


def foreign_rooms(room: str, tree: ast.AST) -> set[str]:
    """Rooms that the file imports from and may not."""
    reached = {name.split(".")[1] for name in imports_of(tree) if name.startswith("specdec_cli.")}
    return reached & MAY_IMPORT.keys() - MAY_IMPORT[room] - {room}


def uses(tree: ast.AST, names: set[str]) -> set[str]:
    """Which of these names, dotted or not, the file uses."""
    found = set()
    for node in ast.walk(tree):
        text = ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
        if text in names:
            found.add(text)
    return found


def touches_files(tree: ast.AST) -> set[str]:
    """Calls that read, write or list files."""
    found = uses(tree, FILES)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FILE_METHODS:
            found.add(node.func.attr)
    return found


def test_the_rules_see_a_breach() -> None:
    source = "import numpy\nfrom specdec_cli.cli import app\nprint(1)\np.read_text()\nopen('x')\n"
    tree = ast.parse(source)
    assert foreign_rooms("physics", tree) == {"cli"}
    assert foreign_rooms("cli", tree) == set()
    assert uses(tree, PRINTING) == {"print"}
    assert touches_files(tree) == {"read_text", "open"}
    assert imports_at_load(tree) & HEAVY == {"numpy"}


def parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text("utf-8"))


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
class TestRooms:
    def test_imports_point_left(self, module: Path) -> None:
        assert room_of(module) in MAY_IMPORT, "a room without a place in the order"
        assert foreign_rooms(room_of(module), parsed(module)) == set()

    def test_only_the_command_line_prints(self, module: Path) -> None:
        if room_of(module) != "cli":
            assert uses(parsed(module), PRINTING) == set()

    def test_only_profiles_and_engines_read_files(self, module: Path) -> None:
        if room_of(module) not in ("profiles", "engines", "cli"):
            assert touches_files(parsed(module)) == set()

    def test_the_command_line_loads_nothing_heavy(self, module: Path) -> None:
        if room_of(module) == "cli" and module.stem != "settings":
            assert imports_at_load(parsed(module)) & HEAVY == set()

    def test_every_module_says_what_it_is_for(self, module: Path) -> None:
        text = module.read_text("utf-8")
        assert not text or ast.get_docstring(ast.parse(text))


def test_every_room_is_there() -> None:
    assert {room_of(module) for module in MODULES} == set(MAY_IMPORT)
