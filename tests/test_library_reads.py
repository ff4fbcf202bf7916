"""What the library reads to answer a short question: rules that keep start-up quick, and the answers that they keep."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import toy_acceptance, toy_drafter, toy_model, write_library, write_yaml

from specdec_cli.profiles import find
from specdec_cli.profiles.library import Library, shipped_profiles_dir

SHIPPED_ACCEPTANCE = sorted((shipped_profiles_dir() / "acceptance").rglob("*.yaml"))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that are parsed, as they are."""
    names: list[str] = []
    load = find.load_file

    def counted(path: Path, *rest: str) -> object:
        names.append(path.stem)
        return load(path, *rest)

    monkeypatch.setattr(find, "load_file", counted)
    return names


def test_shipped_acceptance_lies_in_the_folder_of_its_target() -> None:
    assert SHIPPED_ACCEPTANCE
    library = Library()
    wrong = [
        path.stem for path in SHIPPED_ACCEPTANCE if library.acceptance(path.stem).record.target != path.parent.name
    ]
    assert wrong == []


@pytest.mark.parametrize("target", sorted({path.parent.name for path in SHIPPED_ACCEPTANCE}))
def test_screened_search_finds_what_parsing_everything_finds(target: str) -> None:
    library = Library()
    everything = [loaded.record for loaded in library.every("acceptance")[0]]
    for drafter in {record.drafter for record in everything if record.target == target}:
        expected = {r.name for r in everything if (r.target, r.drafter) == (target, drafter)}
        assert {found.record.name for found in Library().acceptance_for(target, drafter)} == expected


def test_default_drafter_of_one_marked_reads_no_acceptance(tmp_path: Path, parsed: list[str]) -> None:
    write_library(
        tmp_path,
        toy_model(),
        toy_drafter(default=True),
        toy_drafter("toy-model-dflash", "dflash"),
        toy_acceptance(),
        toy_acceptance("other", drafter="toy-model-dflash", default=True),
    )
    assert Library([tmp_path]).default_drafter("toy-model").record.name == "toy-model-eagle3"
    assert not {"toy-model-eagle3-chat", "other"} & set(parsed)


def test_marked_acceptance_settles_it_without_the_others(tmp_path: Path, parsed: list[str]) -> None:
    write_library(
        tmp_path,
        toy_model(),
        toy_drafter(),
        toy_drafter("toy-model-dflash", "dflash"),
        *(toy_acceptance(f"chat-{number}") for number in range(5)),
        toy_acceptance("marked", default=True),
    )
    assert Library([tmp_path]).default_drafter("toy-model").record.name == "toy-model-eagle3"
    assert "marked" in parsed
    assert not {f"chat-{number}" for number in range(5)} & set(parsed)


@pytest.mark.parametrize("spelling", ["default: true", '"default" : yes', "'default': on # mine"])
def test_every_spelling_of_the_mark_is_seen(tmp_path: Path, spelling: str) -> None:
    write_library(
        tmp_path,
        toy_model(),
        toy_drafter(),
        toy_drafter("toy-model-dflash", "dflash"),
        toy_acceptance("first"),
        toy_acceptance("second"),
    )
    with (tmp_path / "acceptance" / "second.yaml").open("a") as file:
        file.write(f"{spelling}\n")
    assert Library([tmp_path]).default_drafter("toy-model").record.name == "toy-model-eagle3"


def test_later_mechanism_with_acceptance_wins_over_an_earlier_one_without(tmp_path: Path) -> None:
    write_library(
        tmp_path,
        toy_model(),
        toy_drafter(),
        toy_drafter("toy-model-dflash", "dflash"),
        toy_acceptance("of-dflash", drafter="toy-model-dflash"),
    )
    assert Library([tmp_path]).default_drafter("toy-model").record.name == "toy-model-dflash"


def test_a_users_acceptance_may_lie_in_any_folder(tmp_path: Path) -> None:
    write_library(tmp_path, toy_model(), toy_drafter())
    write_yaml(tmp_path / "acceptance" / "mine" / "toy-model-eagle3-chat.yaml", toy_acceptance())
    found = Library([tmp_path]).acceptance_for("toy-model", "toy-model-eagle3")
    assert [one.record.name for one in found] == ["toy-model-eagle3-chat"]
