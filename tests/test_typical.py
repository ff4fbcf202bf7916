"""The labelled prior: medians over measured pairs, each pair once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import toy_acceptance, toy_drafter, toy_model
from hypothesis import given
from hypothesis import strategies as st
from toys import shipped, toy_library, toy_options

from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.explore.grid import evaluate
from specdec_cli.explore.scenario import Options, resolve
from specdec_cli.explore.typical import TypicalAcceptance, measured_pairs, typical_acceptance, typical_lengths
from specdec_cli.profiles import search
from specdec_cli.profiles.schema import AcceptancePoint, AcceptanceProfile, Source


def profile(name: str, points: dict[int, float], drafter: str = "head", **changes: Any) -> AcceptanceProfile:
    return AcceptanceProfile(
        format=1,
        name=name,
        sources={"*": Source(from_="a test", checked="2026-01-31", kind="assumed")},
        target=changes.get("target", "model"),
        drafter=drafter,
        data_set="toy",
        measured_by="this test",
        points=[
            AcceptancePoint(draft_length=d, acceptance_length=al, verify_width=changes.get("width"))
            for d, al in points.items()
        ],
    )


def test_medians_by_hand() -> None:
    found = typical_lengths([{1: 1.5, 2: 2.0}, {1: 1.7, 2: 2.4}, {1: 1.9}])
    assert {d: (one.median, one.low, one.high, one.pairs) for d, one in found.items()} == {
        1: (1.7, 1.5, 1.9, 3),
        2: (pytest.approx(2.2), 2.0, 2.4, 2),
    }


def test_four_pairs_give_quartiles() -> None:
    # 1.1 1.2 1.3 1.4 1.5: quartiles at the second and the fourth
    found = typical_lengths([{1: 1.1 + n / 10} for n in range(5)])[1]
    assert (found.low, found.median, found.high) == (pytest.approx(1.2), pytest.approx(1.3), pytest.approx(1.4))


def test_quartiles_begin_with_four_pairs() -> None:
    # three steps of 0.1 between four values: quartiles after 0.75 and 2.25 of them; of three pairs the outer ones
    found = typical_lengths([{1: 1.1 + n / 10} for n in range(4)])[1]
    assert (found.low, found.median, found.high) == pytest.approx((1.175, 1.25, 1.325))
    found = typical_lengths([{1: 1.1 + n / 10} for n in range(3)])[1]
    assert (found.low, found.median, found.high) == pytest.approx((1.1, 1.2, 1.3))


def test_rates_by_position_are_a_length_too() -> None:
    one = profile("rates", {})
    rates = msgspec.structs.replace(one, points=[AcceptancePoint(draft_length=2, per_position=[0.7, 0.5])])
    assert measured_pairs([rates], frozenset(["head"])) == [{2: pytest.approx(2.2)}]


def test_the_band_of_a_prior_is_its_quartiles() -> None:
    prior = TypicalAcceptance("eagle3", typical_lengths([{1: 1.5, 2: 2.0}, {1: 1.7, 2: 2.4}, {1: 1.9}]))
    found = prior.estimate(1)
    assert (found.low, found.acceptance_length, found.high, found.basis) == (1.5, 1.7, 1.9, "assumed")
    assert prior.estimate(3).basis == "extrapolated"
    assert prior.pairs == 3


def test_lengths_that_few_pairs_reach_are_left_out() -> None:
    pairs = [{1: 1.7}, {1: 1.7}, {1: 1.7}, {1: 1.7, 5: 3.0}]
    assert list(typical_lengths(pairs)) == [1]
    assert list(typical_lengths([{1: 1.7}, {1: 1.7, 3: 2.5}])) == [1, 2, 3]
    assert typical_lengths([]) == {}


def test_a_tail_of_weaker_pairs_does_not_make_longer_drafts_look_worse() -> None:
    found = typical_lengths([{1: 1.9}, {1: 1.9}, {1: 1.4, 2: 1.6}, {1: 1.4, 2: 1.6}])
    assert found[2].median == found[1].median == pytest.approx(1.65)
    assert found[2].low == 1.6


@given(
    st.lists(
        st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6).map(
            # unconditional rates from conditional ones: a possible curve
            lambda rates: {d: 1 + sum(_product(rates[:i]) for i in range(1, d + 1)) for d in range(1, len(rates) + 1)}
        ),
        min_size=1,
        max_size=6,
    )
)
def test_medians_are_possible_and_never_fall(pairs: list[dict[int, float]]) -> None:
    found = typical_lengths(pairs)
    before = 1.0
    for draft_length, one in found.items():
        assert before <= one.median <= 1 + draft_length + 1e-9
        assert one.low <= one.median <= one.high
        assert 2 * one.pairs >= len(pairs)
        before = one.median
    assert typical_lengths(list(reversed(pairs))) == found


def _product(values: list[float]) -> float:
    result = 1.0
    for value in values:
        result *= value
    return result


def test_a_pair_counts_once_and_trees_and_taken_over_figures_do_not() -> None:
    profiles = [
        profile("a", {1: 1.5, 2: 2.0}),
        profile("b", {1: 1.7}),
        profile("c", {1: 1.9}),
        profile("tree", {3: 3.5}, width=10),
        profile("chain", {3: 2.4}, width=4),
        profile("sister", {1: 1.7, 2: 2.0, 3: 2.4}, target="sister"),
        profile("other-mechanism", {1: 1.1}, drafter="ngram"),
    ]
    assert measured_pairs(profiles, frozenset(["head"])) == [{1: 1.7, 2: 2.0, 3: 2.4}]


def test_shipped_pairs_give_plausible_priors() -> None:
    eagle3, mtp, ngram = (typical_acceptance(shipped(), word) for word in ("eagle3", "mtp", "ngram"))
    assert eagle3 is not None
    assert mtp is not None
    assert ngram is not None
    assert eagle3.pairs >= 10
    assert 1.5 < eagle3.lengths[1].median < 2.0
    assert ngram.lengths[1].median < eagle3.lengths[1].median < mtp.lengths[1].median
    assert typical_acceptance(shipped(), "medusa") is None


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a toy library that has no shipped profiles behind it."""
    monkeypatch.setattr(search, "_PACKAGE", tmp_path / "repo" / "specdec_cli")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "repo" / "profiles").mkdir(parents=True)
    return tmp_path / "toys"


def two_models(root: Path) -> Any:
    """Acceptance of one pair, and a second model with a drafter of the same mechanism and one of another."""
    return toy_library(
        root,
        toy_acceptance(default=True),
        toy_model("other-model"),
        toy_drafter("other-eagle3", target="other-model"),
        toy_drafter("other-dflash", "dflash", target="other-model"),
    )


def test_without_acceptance_the_error_says_how_to_give_it(root: Path) -> None:
    with pytest.raises(ProfileError) as caught:
        resolve(two_models(root), toy_options(model="other-model", drafter="other-eagle3"))
    for option in ("--acceptance-length", "--acceptance-rate", "--acceptance FILE", "--assume-acceptance typical"):
        assert option in str(caught.value)


def test_the_prior_is_labelled_assumed_and_warned_about(root: Path) -> None:
    asked = toy_options(model="other-model", drafter="other-eagle3", assume_acceptance="typical")
    question = resolve(two_models(root), asked)
    (scenario,) = question.scenarios
    # the toy pair: 1.7, 2.2 and 2.8 at D = 1, 2 and 4
    grid = evaluate(scenario)
    assert list(grid.acceptance_length[:3]) == [1.0, pytest.approx(1.7), pytest.approx(2.2)]
    assert scenario.draft_lengths == (0, 1, 2, 3, 4)
    assert question.inputs["acceptance"].origin == "option"
    assert question.inputs["acceptance"].value["typical"]["eagle3"]["1"] == 1.7
    (note,) = [note for note in question.notes if note.code == "acceptance_assumed"]
    assert "median of 1 measured eagle3 pair;" in note.message
    estimate = scenario.acceptance.estimate(2) if scenario.acceptance is not None else None
    assert estimate is not None
    assert estimate.basis == "assumed"


def test_a_pair_that_was_measured_keeps_its_measurement(root: Path) -> None:
    asked = toy_options(model="toy-model", drafter="toy-model-eagle3", assume_acceptance="typical")
    question = resolve(two_models(root), asked)
    assert question.inputs["acceptance"].value == toy_acceptance()["name"]
    assert all(note.code != "acceptance_assumed" for note in question.notes)


def test_what_it_refuses(root: Path) -> None:
    library = two_models(root)
    for options, words in (
        ({"drafter": "other-eagle3", "assume_acceptance": "high"}, "knows `typical` alone"),
        ({"drafter": "other-dflash", "assume_acceptance": "typical"}, "no pair was measured with dflash"),
        ({"drafter": "none", "assume_acceptance": "typical"}, "conflicts with --drafter none"),
        ({"drafter": "other-eagle3", "assume_acceptance": "typical", "acceptance_rate": 0.7}, "conflict"),
    ):
        with pytest.raises(UsageError, match=words):
            resolve(library, toy_options(model="other-model", **options))


def test_a_copy_says_whose_acceptance_it_takes_and_offers_the_other_data_sets() -> None:
    notes = {note.code: note.message for note in resolve(shipped(), Options(model="qwen3-235b-a22b-fp8")).notes}
    assert notes["acceptance_of_base"].startswith("acceptance measured on qwen3-235b-a22b, of which")
    notes = {note.code: note.message for note in resolve(shipped(), Options(model="llama-3.1-8b")).notes}
    assert "other data sets: `specdec profiles list" in notes["acceptance_source"]
    assert "also known for llama-3.1-8b" in notes["drafter_chosen"]
