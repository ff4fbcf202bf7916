"""Finding profiles: folders and their order, names, aliases, files, mechanisms, defaults, and refusals."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from builders import (
    BUILDERS,
    Data,
    drop,
    put,
    toy_acceptance,
    toy_drafter,
    toy_engine,
    toy_hardware,
    toy_model,
    write_library,
    write_yaml,
)

from specdec_cli.errors import ProfileError
from specdec_cli.profiles import load, search
from specdec_cli.profiles.library import MECHANISM_ORDER, Library, shipped_profiles_dir
from specdec_cli.profiles.schema import Drafter, Mechanism
from specdec_cli.profiles.yaml_reader import read as real_read


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the shipped folder, with nothing of this machine's own in reach."""
    monkeypatch.setattr(search, "_PACKAGE", tmp_path / "repo" / "specdec_cli")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("SPECDEC_PROFILES", raising=False)
    return write_library(tmp_path / "repo" / "profiles", *(build() for build in BUILDERS.values()))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files parsed from now on, in order."""
    paths: list[Path] = []

    def read(path: Path) -> object:
        paths.append(path)
        return real_read(path)

    monkeypatch.setattr(load, "read", read)
    return paths


def refusal(look_up: Callable[[], object]) -> ProfileError:
    with pytest.raises(ProfileError) as caught:
        look_up()
    assert caught.value.exit_code == 3
    return caught.value


# ------------------------------------------------------------------------------------------------- folders


def test_shipped_profiles_in_a_wheel_and_in_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "specdec_cli"
    monkeypatch.setattr(search, "_PACKAGE", package)
    assert "install specdec-cli again" in (refusal(shipped_profiles_dir).hint or "")
    (tmp_path / "profiles").mkdir()
    assert shipped_profiles_dir() == tmp_path / "profiles"
    (package / "shipped_profiles").mkdir(parents=True)
    assert shipped_profiles_dir() == package / "shipped_profiles"


def test_the_installed_package_finds_its_profiles() -> None:
    assert shipped_profiles_dir().is_dir()
    assert shipped_profiles_dir().name in ("profiles", "shipped_profiles")


@pytest.mark.usefixtures("shipped")
def test_a_nearer_folder_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def folder(name: str) -> Path:
        return write_library(tmp_path / name, toy_hardware(vendor=name))

    def winner(*user_dirs: Path) -> tuple[str, str]:
        found = Library(user_dirs).hardware("toy-chip")
        return found.record.vendor, found.origin

    assert winner() == ("Toy", "shipped")
    own = folder("config/specdec/profiles")
    assert winner() == ("config/specdec/profiles", f"user config ({own})")
    first, second = folder("env-1"), folder("env-2")
    monkeypatch.setenv("SPECDEC_PROFILES", f"{first}{os.pathsep}{os.pathsep}{second}")
    assert winner() == ("env-1", f"$SPECDEC_PROFILES ({first})")
    one, two = folder("option-1"), folder("option-2")
    assert winner(one, two) == ("option-1", f"--profiles {one}")
    assert winner(two, one) == ("option-2", f"--profiles {two}")


def test_folders_add_up(shipped: Path, tmp_path: Path) -> None:
    mine = write_library(tmp_path / "mine", toy_hardware("my-chip"))
    found = Library([mine])
    assert found.names("hardware") == ["my-chip", "toy-chip"]
    assert found.names("model") == ["toy-model"]
    assert found.hardware("toy-chip").path == shipped / "hardware" / "toy-chip.yaml"


@pytest.mark.usefixtures("shipped")
def test_home_folder_without_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    write_library(tmp_path / ".config" / "specdec" / "profiles", toy_hardware("home-chip"))
    assert Library().hardware("home-chip").origin.startswith("user config")
    assert Library(["~/.config/specdec/profiles"]).hardware("home-chip").origin.startswith("--profiles")


@pytest.mark.usefixtures("shipped")
def test_a_folder_that_was_asked_for_must_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "missing"
    error = refusal(lambda: Library([missing]))
    assert (error.file, error.message) == (
        missing,
        "--profiles expects a folder of profiles, found nothing of that name",
    )
    path = write_yaml(tmp_path / "toy-chip.yaml", toy_hardware())
    assert refusal(lambda: Library([path])).message.endswith("found a file")
    monkeypatch.setenv("SPECDEC_PROFILES", str(missing))
    assert refusal(Library).message.startswith("$SPECDEC_PROFILES expects")


@pytest.mark.usefixtures("shipped")
def test_files_below_kind_folders_and_at_the_top(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    write_yaml(mine / "hardware" / "rack" / "row" / "deep-chip.yaml", toy_hardware("deep-chip"))
    write_yaml(mine / "hardware" / "short-chip.yml", toy_hardware("short-chip"))
    write_yaml(mine / "top-chip.yaml", toy_hardware("top-chip"))
    write_yaml(mine / "top-model.yaml", toy_model("top-model"))
    write_yaml(mine / "hardware" / ".hidden.yaml", toy_hardware("hidden"))
    write_yaml(mine / "hardware" / ".git" / "old-chip.yaml", toy_hardware("old-chip"))
    write_yaml(mine / "elsewhere" / "stray.yaml", toy_hardware("stray"))
    (mine / "compose.yaml").write_text("services: {}\n")
    (mine / "notes.txt").write_text("kind: hardware\n")
    found = Library([mine])
    assert found.names("hardware") == ["deep-chip", "short-chip", "top-chip", "toy-chip"]
    assert found.names("model") == ["top-model", "toy-model"]
    for name in found.names("hardware"):
        assert found.hardware(name).record.name == name


@pytest.mark.usefixtures("shipped")
def test_kind_of_a_top_file_is_found_however_it_is_written(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    path = write_yaml(mine / "top-chip.yaml", toy_hardware("top-chip"))
    text = path.read_text()
    for line in ('"kind": "hardware"', "kind :  hardware  # a chip"):
        path.write_bytes(
            b"\xef\xbb\xbf" + text.replace("format: 1\n", "").replace("kind: hardware", f"{line}\nformat: 1").encode()
        )
        assert Library([mine]).hardware("top-chip").record.name == "top-chip"


@pytest.mark.usefixtures("shipped")
def test_symlink_loops_end_and_links_are_followed(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    write_library(mine, toy_hardware("near-chip"))
    write_yaml(other / "linked-chip.yaml", toy_hardware("linked-chip"))
    hardware = mine / "hardware"
    (hardware / "up").symlink_to(hardware, target_is_directory=True)
    (hardware / "more").symlink_to(other, target_is_directory=True)
    (other / "back").symlink_to(mine, target_is_directory=True)
    (hardware / "self.yaml").symlink_to(hardware / "self.yaml")
    (hardware / "selfdir").symlink_to(hardware / "selfdir")
    (hardware / "gone.yaml").symlink_to(tmp_path / "gone.yaml")
    found = Library([mine])
    assert found.names("hardware") == ["linked-chip", "near-chip", "toy-chip"]
    assert found.hardware("linked-chip").record.name == "linked-chip"


@pytest.mark.usefixtures("shipped")
def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = write_library(tmp_path / "mine", toy_hardware("my-chip"))

    def locked(folder: Path) -> object:
        raise PermissionError(13, "Permission denied")

    found = Library([mine])
    monkeypatch.setattr(os, "scandir", locked)
    assert refusal(lambda: found.names("hardware")).message == "cannot be read: Permission denied"


@pytest.mark.usefixtures("shipped")
def test_a_file_that_may_not_be_read_says_so_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    path = write_yaml(mine / "my-chip.yaml", toy_hardware("my-chip"))
    unlocked = Path.read_bytes

    def locked(file: Path) -> bytes:
        if file == path:
            raise PermissionError(13, "Permission denied")
        return unlocked(file)

    monkeypatch.setattr(Path, "read_bytes", locked)
    found = Library([mine])
    assert found.names("hardware") == ["toy-chip"]
    error = refusal(lambda: found.hardware("my-chip"))
    assert (error.file, error.message) == (path, "cannot be read: Permission denied")


def test_two_files_of_one_name_in_one_folder(shipped: Path) -> None:
    write_yaml(shipped / "hardware" / "old" / "toy-chip.yaml", toy_hardware())
    error = refusal(lambda: Library().hardware("toy-chip"))
    assert error.message.startswith("two profiles are named `toy-chip`: ")
    assert str(shipped / "hardware" / "old" / "toy-chip.yaml") in error.message
    assert Library().names("hardware") == ["toy-chip"]


# ------------------------------------------------------------------------------------------- one of each


def look_ups(found: Library) -> dict[str, Callable[[str], object]]:
    return {
        "hardware": found.hardware,
        "model": found.model,
        "drafter": found.drafter,
        "acceptance": found.acceptance,
        "engine": found.engine,
        "measurement": found.measurement,
        "calibration": found.calibration,
    }


@pytest.mark.parametrize("kind", sorted(BUILDERS))
def test_by_name_case_and_file(shipped: Path, tmp_path: Path, kind: str) -> None:
    name = BUILDERS[kind]()["name"]
    find = look_ups(Library())[kind]
    path = write_yaml(tmp_path / f"{name}.yaml", BUILDERS[kind]())
    for given, origin in ((name, "shipped"), (name.upper(), "shipped"), (str(path), "file")):
        found = find(given)
        assert isinstance(found, load.Loaded)
        assert (found.record.name, found.origin) == (name, origin)


@pytest.mark.parametrize("kind", sorted(BUILDERS))
@pytest.mark.usefixtures("shipped")
def test_unknown_names_are_answered_with_the_nearest(kind: str) -> None:
    name = BUILDERS[kind]()["name"]
    slip = name.replace("toy", "tiy")
    error = refusal(lambda: look_ups(Library())[kind](slip))
    assert error.message == f"unknown {kind} `{slip}`"
    assert error.hint == f"did you mean {name}? `specdec profiles list --kind {kind}` shows all"


@pytest.mark.usefixtures("shipped")
def test_unknown_names_with_nothing_like_them() -> None:
    assert refusal(lambda: Library().hardware("zzz")).hint == "`specdec profiles list --kind hardware` shows all"
    assert "did you mean toy-model" in (refusal(lambda: Library().model("maker/Toy-Modell")).hint or "")
    assert "did you mean toy-chip" in (refusal(lambda: Library().hardware("chi")).hint or "")  # a part of the name
    assert "no such file either" in refusal(lambda: Library().hardware("./toy-chop")).message


@pytest.mark.usefixtures("shipped")
def test_a_name_of_another_kind() -> None:
    error = refusal(lambda: Library().hardware("toy-model"))
    assert error.message == "`toy-model` is no hardware profile but a profile of kind model"


def test_missing_and_misplaced_files(shipped: Path, tmp_path: Path) -> None:
    error = refusal(lambda: Library().hardware("other.yaml"))
    assert (str(error.file), error.message, error.hint) == ("other.yaml", "no such file", None)
    error = refusal(lambda: Library().hardware("toy-chip.yaml"))
    assert error.hint == "the library's profile is named `toy-chip`, no ending"
    path = write_yaml(tmp_path / "toy-model.yaml", toy_model())
    assert "found one of kind model" in refusal(lambda: Library().hardware(str(path))).message
    (tmp_path / "folder.yaml").mkdir()
    assert "found a folder" in refusal(lambda: Library().hardware(str(tmp_path / "folder.yaml"))).message


@pytest.mark.usefixtures("shipped")
def test_a_top_file_that_does_not_say_its_kind_explains_itself(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    write_yaml(mine / "my-chip.yaml", toy_hardware("my-chip", kind="hardwear"))
    error = refusal(lambda: Library([mine]).hardware("my-chip"))
    assert (error.key, error.hint) == ("kind", "did you mean hardware?")
    write_yaml(mine / "my-chip.yaml", drop(toy_hardware("my-chip"), "kind"))
    assert refusal(lambda: Library([mine]).hardware("my-chip")).message == "missing key `kind`"


def test_aliases(shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_library(shipped, toy_model("toy-b", aliases=["Maker/Toy-B-Instruct"]), toy_engine("toy-e", aliases=["TE"]))
    write_library(shipped, toy_drafter("toy-d", aliases=["maker/toy-d-head"]))
    assert Library().model("maker/toy-b-INSTRUCT").record.name == "toy-b"
    assert Library().engine("te").record.name == "toy-e"
    assert Library().drafter("Maker/Toy-D-Head").record.name == "toy-d"
    # A folder of weights with the alias as path does not get in the way; a profile file there does.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Maker" / "Toy-B-Instruct").mkdir(parents=True)
    assert Library().model("Maker/Toy-B-Instruct").record.name == "toy-b"
    write_yaml(tmp_path / "Maker" / "toy-c.yaml", toy_model("toy-c"))
    assert Library().model("Maker/toy-c.yaml").origin == "file"


def test_an_alias_of_two(shipped: Path, tmp_path: Path) -> None:
    write_library(shipped, toy_model("toy-a", aliases=["maker/x"]), toy_model("toy-b", aliases=["maker/x"]))
    error = refusal(lambda: Library().model("maker/x"))
    assert error.message == "the alias `maker/x` belongs to several: toy-a, toy-b"
    mine = write_library(tmp_path / "mine", toy_model("toy-c", aliases=["maker/x"]))
    assert Library([mine]).model("maker/x").record.name == "toy-c"


def test_a_name_comes_before_an_alias(shipped: Path, tmp_path: Path) -> None:
    mine = write_library(tmp_path / "mine", toy_model("toy-b", aliases=["toy-model"]))
    assert Library([mine]).model("toy-model").path == shipped / "models" / "toy-model.yaml"


def test_an_engine_family_is_its_newest(shipped: Path) -> None:
    dated = [toy_engine(f"fast-{date}", family="fast", date=date) for date in ("2025-07", "2026-01", "2024-12")]
    write_library(shipped, *dated)
    found = Library().engine("Fast")
    assert found.record.name == "fast-2026-01"
    assert found.note == "Fast: fast-2026-01, the newest of 3"
    write_library(shipped, toy_engine("fast", date="2024-01"))
    assert Library().engine("fast").record.date == "2024-01"  # a name is a name


# ------------------------------------------------------------------------------------ reads what is asked for


def test_a_name_opens_one_file(shipped: Path, opened: list[Path]) -> None:
    write_library(shipped, *(toy_hardware(f"chip-{index}") for index in range(20)))
    (shipped / "hardware" / "broken.yaml").write_text("a: [")
    found = Library()
    assert opened == []
    found.hardware("chip-7")
    found.hardware("CHIP-7")
    assert opened == [shipped / "hardware" / "chip-7.yaml"]
    assert len(found.names("hardware")) == 22
    assert len(opened) == 1


def test_an_alias_opens_the_files_that_mention_it(shipped: Path, opened: list[Path]) -> None:
    write_library(shipped, *(toy_model(f"model-{index}", aliases=[f"maker/id-{index}."]) for index in range(20)))
    Library().model("maker/id-7.")
    assert opened == [shipped / "models" / "model-7.yaml"]


def test_a_target_opens_the_files_that_mention_it(shipped: Path, opened: list[Path]) -> None:
    write_library(shipped, *(toy_drafter(f"head-{index}", target=f"other-{index}") for index in range(20)))
    write_library(shipped, *(toy_acceptance(f"al-{index}", f"other-{index}", f"head-{index}") for index in range(20)))
    found = Library()
    assert [one.record.name for one in found.drafters_for("toy-model")] == ["toy-model-eagle3"]
    assert [one.record.name for one in found.acceptance_for("toy-model", "toy-model-eagle3")] == [
        "toy-model-eagle3-chat"
    ]
    assert {path.stem for path in opened} == {"toy-model-eagle3", "toy-model-eagle3-chat"}


def test_every_lists_the_good_and_reports_the_bad(shipped: Path) -> None:
    write_library(shipped, toy_hardware("chip-a"), put(toy_hardware("chip-b"), "vendor", 3))
    good, bad = Library().every("hardware")
    assert [one.record.name for one in good] == ["chip-a", "toy-chip"]
    assert [error.key for error in bad] == ["vendor"]


@pytest.mark.usefixtures("shipped")
def test_loaded_once(opened: list[Path]) -> None:
    found = Library()
    assert found.hardware("toy-chip") is found.hardware("toy-chip")
    assert len(opened) == 1


# ------------------------------------------------------------------------------------- drafters and acceptance


def of_target(shipped: Path, *profiles: Data) -> Library:
    """A library whose toy-model has just these drafters and acceptances."""
    for folder in ("drafters", "acceptance"):
        for path in (shipped / folder).glob("*.yaml"):
            path.unlink()
    write_library(shipped, *profiles)
    return Library()


EAGLE3_A = toy_drafter("head-a")
EAGLE3_B = toy_drafter("head-b")
MTP = toy_drafter("native", "mtp")
NGRAM = toy_drafter("ngram", "ngram")


def measured(drafter: str, name: str | None = None, *, default: bool = False) -> Data:
    return toy_acceptance(name or f"{drafter}-al", drafter=drafter, default=default)


def test_drafters_for_a_target(shipped: Path) -> None:
    other = toy_drafter("toy-model-2-head", target="toy-model-2")  # mentions toy-model, serves another
    many = toy_drafter("many", "draft_model", targets=["x", "Toy-Model"])
    found = of_target(shipped, EAGLE3_B, EAGLE3_A, MTP, NGRAM, other, many, toy_drafter("own", "self", targets=[]))
    assert [one.record.name for one in found.drafters_for("toy-model")] == [
        "native",
        "head-a",
        "head-b",
        "many",
        "own",
        "ngram",
    ]
    assert [one.record.name for one in found.drafters_for("TOY-MODEL")] == [
        "native",
        "head-a",
        "head-b",
        "many",
        "own",
        "ngram",
    ]
    assert [one.record.name for one in found.drafters_for("unheard-of")] == ["own", "ngram"]


def test_targets_by_alias(shipped: Path) -> None:
    write_library(shipped, toy_model(aliases=["Maker/Toy"]))
    found = Library()
    assert [one.record.name for one in found.drafters_for("maker/toy")] == ["toy-model-eagle3"]
    assert len(found.acceptance_for("maker/toy", "TOY-model-eagle3")) == 1
    assert found.drafter("toy-model-eagle3", target="Maker/Toy").record.name == "toy-model-eagle3"


def test_a_drafter_of_another_target(shipped: Path) -> None:
    found = of_target(shipped, EAGLE3_A, NGRAM, toy_drafter("stranger", target="toy-b"))
    error = refusal(lambda: found.drafter("stranger", target="toy-model"))
    assert error.message == "`stranger` drafts for toy-b, not for toy-model"
    assert error.hint == "drafters for toy-model: head-a, ngram"
    assert found.drafter("stranger").record.name == "stranger"
    assert found.drafter("stranger", target="toy-b").record.name == "stranger"
    assert found.drafter("ngram", target="toy-model").record.name == "ngram"
    lonely = of_target(shipped, toy_drafter("stranger", target="toy-b"))
    assert refusal(lambda: lonely.drafter("stranger", target="toy-model")).hint == "no drafter is known for toy-model"


@pytest.mark.parametrize("word", ["eagle3", "EAGLE-3", "Eagle_3"])
def test_a_mechanism_picks_the_targets_own(shipped: Path, word: str) -> None:
    found = of_target(shipped, EAGLE3_A, MTP, toy_drafter("stranger", target="toy-b")).drafter(word, target="toy-model")
    assert found.record.name == "head-a"
    assert found.note == "eagle3 drafter of toy-model: head-a"


def test_a_mechanism_of_several(shipped: Path) -> None:
    def pick(*profiles: Data) -> load.Loaded[Drafter]:
        return of_target(shipped, *profiles).drafter("eagle3", target="toy-model")

    error = refusal(lambda: pick(EAGLE3_A, EAGLE3_B))
    assert error.message == "which eagle3 drafter of toy-model? none is marked default: head-a, head-b"
    assert error.hint == "name one with --drafter"
    found = pick(EAGLE3_A, put(EAGLE3_B, "default", True))
    assert (found.record.name, found.note) == ("head-b", "eagle3 drafter of toy-model: head-b (others: head-a)")
    assert pick(EAGLE3_A, EAGLE3_B, measured("head-b")).record.name == "head-b"
    both = (put(EAGLE3_A, "default", True), put(EAGLE3_B, "default", True))
    assert "several are marked default: head-a, head-b" in refusal(lambda: pick(*both)).message
    assert pick(*both, measured("head-a")).record.name == "head-a"


def test_a_mechanism_that_is_a_name_is_the_name(shipped: Path) -> None:
    found = of_target(shipped, NGRAM, toy_drafter("prompt-lookup", "ngram"))
    assert found.drafter("ngram").note == ""
    assert found.drafter("NGRAM", target="toy-model").record.name == "ngram"


def test_a_mechanism_that_is_not_there(shipped: Path) -> None:
    found = of_target(shipped, EAGLE3_A)
    error = refusal(lambda: found.drafter("dflash", target="toy-model"))
    assert (error.message, error.hint) == ("no dflash drafter is known for toy-model", "drafters for toy-model: head-a")
    assert refusal(lambda: found.drafter("mtp", target="unheard-of")).hint is None
    assert "depends on the model" in refusal(lambda: found.drafter("dflash")).message


def test_many_names_are_counted_not_listed(shipped: Path) -> None:
    found = of_target(shipped, *(toy_drafter(f"head-{index}") for index in range(10)))
    assert refusal(lambda: found.drafter("eagle3", target="toy-model")).message.endswith("head-7 and 2 more")


def test_default_drafter(shipped: Path) -> None:
    def pick(*profiles: Data) -> str:
        return of_target(shipped, *profiles).default_drafter("toy-model").record.name

    marked = put(EAGLE3_B, "default", True)
    assert pick(EAGLE3_A) == "head-a"  # the only one
    assert pick(EAGLE3_A, MTP, marked, measured("native")) == "head-b"  # 1: marked
    assert pick(EAGLE3_A, EAGLE3_B, MTP, measured("head-b")) == "head-b"  # 1: known acceptance
    assert pick(EAGLE3_A, marked, put(MTP, "default", True), measured("head-b")) == "head-b"  # 2: marked and known
    assert pick(EAGLE3_A, MTP, measured("head-a"), measured("native")) == "native"  # 3: order of mechanisms
    assert pick(EAGLE3_A, MTP, NGRAM) == "native"
    two = (EAGLE3_A, EAGLE3_B, measured("head-a"), measured("head-b"))
    message = "which eagle3 drafter of toy-model? none is marked default: head-a, head-b"
    assert refusal(lambda: pick(*two)).message == message


def test_default_drafter_says_what_else_there_is(shipped: Path) -> None:
    found = of_target(shipped, EAGLE3_A, MTP, NGRAM).default_drafter("toy-model")
    assert found.note == "drafter of toy-model: native (others: head-a)"


def test_no_drafter_at_all(shipped: Path) -> None:
    error = refusal(lambda: of_target(shipped, NGRAM).default_drafter("toy-model"))
    assert error.message == "no drafter is known for toy-model"
    assert "--drafter none" in (error.hint or "")


def test_a_nearer_default_wins(shipped: Path, tmp_path: Path) -> None:
    of_target(shipped, put(EAGLE3_A, "default", True), measured("head-a", default=True))
    mine = write_library(
        tmp_path / "mine", put(EAGLE3_B, "default", True), measured("head-a", "my-al", default=True), measured("head-b")
    )
    found = Library([mine])
    assert found.default_drafter("toy-model").record.name == "head-b"
    assert found.drafter("eagle3", target="toy-model").record.name == "head-b"
    chosen = found.default_acceptance("toy-model", "head-a")
    assert chosen is not None
    assert (chosen.record.name, chosen.origin) == ("my-al", f"--profiles {mine}")
    assert chosen.note == "acceptance of head-a on toy-model: my-al (others: head-a-al)"


def test_acceptance_of_a_pair(shipped: Path) -> None:
    found = of_target(
        shipped,
        measured("head-a", "z", default=True),
        measured("head-a", "a"),
        measured("head-b", "b"),
        toy_acceptance("c", target="toy-b", drafter="head-a", data_set="toy-model"),
    )
    assert [one.record.name for one in found.acceptance_for("toy-model", "head-a")] == ["z", "a"]
    assert [one.record.name for one in found.acceptance_for("toy-model", "head-b")] == ["b"]
    assert found.acceptance_for("toy-model", "head-c") == []


def test_default_acceptance(shipped: Path) -> None:
    def pick(*profiles: Data) -> str | None:
        found = of_target(shipped, *profiles).default_acceptance("toy-model", "head-a")
        return None if found is None else found.record.name

    assert pick() is None
    assert pick(measured("head-b")) is None
    assert pick(measured("head-a", "a")) == "a"  # the only one
    assert pick(measured("head-a", "a"), measured("head-a", "b", default=True)) == "b"
    error = refusal(lambda: pick(measured("head-a", "a"), measured("head-a", "b")))
    assert error.message == "which acceptance of head-a on toy-model? none is marked default: a, b"
    assert error.hint == "name one with --acceptance"
    twice = (measured("head-a", "a", default=True), measured("head-a", "b", default=True))
    assert "several are marked default: a, b" in refusal(lambda: pick(*twice)).message


def test_the_order_of_mechanisms_names_each_once() -> None:
    mechanisms = get_args(Mechanism)
    assert sorted(MECHANISM_ORDER) == sorted(mechanisms)


# --------------------------------------------------------------------------------------- quantised copies


COPY = toy_model("toy-model-fp8", quantised_from="toy-model", dtypes={"weights": "fp8"})


def of_copy(shipped: Path, *profiles: Data) -> Library:
    return Library([write_library(shipped.parent / "mine", COPY, *profiles)])


def test_a_copy_has_the_drafters_and_the_acceptance_of_its_base(shipped: Path) -> None:
    library = of_copy(shipped)
    assert "toy-model-eagle3" in [one.record.name for one in library.drafters_for("toy-model-fp8")]
    assert library.default_drafter("toy-model-fp8").record.name == "toy-model-eagle3"
    assert library.drafter("toy-model-eagle3", target="toy-model-fp8").record.name == "toy-model-eagle3"
    assert library.drafter("eagle3", target="toy-model-fp8").record.name == "toy-model-eagle3"
    (measured,) = library.acceptance_for("toy-model-fp8", "toy-model-eagle3")
    assert measured.record.target == "toy-model"
    assert measured.note == "measured on toy-model, of which toy-model-fp8 is a quantised copy"
    chosen = library.default_acceptance("toy-model-fp8", "toy-model-eagle3")
    assert chosen is not None
    assert chosen.note.endswith("; measured on toy-model, of which toy-model-fp8 is a quantised copy")


def test_what_was_measured_on_the_copy_itself_comes_first(shipped: Path) -> None:
    own = toy_acceptance("own", target="toy-model-fp8")
    (measured,) = of_copy(shipped, own).acceptance_for("toy-model-fp8", "toy-model-eagle3")
    assert (measured.record.name, measured.note) == ("own", "")


def test_the_base_has_nothing_of_its_copy(shipped: Path) -> None:
    own = toy_acceptance("own", target="toy-model-fp8")
    library = of_copy(shipped, own, toy_drafter("fp8-head", target="toy-model-fp8"))
    assert [one.record.name for one in library.acceptance_for("toy-model", "toy-model-eagle3")] == [
        "toy-model-eagle3-chat"
    ]
    assert "fp8-head" not in [one.record.name for one in library.drafters_for("toy-model")]
    error = refusal(lambda: library.drafter("fp8-head", target="toy-model"))
    assert "drafts for toy-model-fp8, not for toy-model" in error.message


def test_native_mtp_only_where_the_copy_kept_the_layers(shipped: Path) -> None:
    layers = {"layers": 1, "attention": "full", "ffn": "dense"}
    mtp = toy_drafter("toy-mtp", "mtp")
    base = toy_model(mtp=layers)

    def names(copy: Data) -> list[str]:
        library = Library([write_library(shipped.parent / "mine", base, copy, mtp)])
        return [one.record.name for one in library.drafters_for("toy-model-fp8")]

    assert "toy-mtp" in names({**COPY, "mtp": layers})
    assert "toy-mtp" not in names(COPY)


def test_a_copy_given_as_a_file_has_them_too(shipped: Path, tmp_path: Path) -> None:
    library = Library()
    name = library.model(str(write_yaml(tmp_path / "mine-int4.yaml", {**COPY, "name": "mine-int4"}))).record.name
    assert library.default_drafter(name).record.name == "toy-model-eagle3"
    assert library.default_acceptance(name, "toy-model-eagle3") is not None


@pytest.mark.parametrize("name", sorted(one for one in Library().names("model")))
def test_shipped_copies_have_the_sizes_of_their_base(name: str) -> None:
    library = Library()
    copy = library.model(name).record
    suffix = next((end for end in ("-nvfp4", "-fp8", "-fp8-static-pertensor") if name.endswith(end)), None)
    if copy.quantised_from is None:
        assert suffix is None or name.removesuffix(suffix) not in library.names("model")
        return
    base = library.model(copy.quantised_from).record
    assert base.quantised_from is None
    for part in ("hidden", "vocabulary", "attention", "ffn", "blocks", "tied_embeddings"):
        assert getattr(copy, part) == getattr(base, part), part
    assert copy.dtypes != base.dtypes
