"""Shapes of drafts: trees, look-ups with repetition as acceptance, blocks below and above their trained length."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import Data, toy_acceptance, toy_drafter, toy_engine, toy_overheads
from cli_runs import Runner, write_toys
from toys import step_of, toy_library, toy_options

from specdec_cli.engines.settings import read_settings
from specdec_cli.errors import ProfileError, UsageError
from specdec_cli.explore.compare import run_compare
from specdec_cli.explore.explain import explain
from specdec_cli.explore.recommend import Limits, run_recommend
from specdec_cli.explore.scenario import resolve
from specdec_cli.explore.sweep import Sweep, run_sweep
from specdec_cli.physics.acceptance import AcceptanceCurve
from specdec_cli.physics.trees import Tree, TreeAcceptance


def sweep(root: Path, *more: Data, **options: Any) -> Sweep:
    return run_sweep(resolve(toy_library(root, *more), toy_options(**options)))


def codes(found: Sweep) -> set[str]:
    return {note.code for note in found.notes}


def tree_points(**widths: Any) -> Data:
    """A second data set of the toy pair, measured with a tree of 6 nodes at depth 3."""
    points = [{"draft_length": 3, "acceptance_length": 2.9, "verify_width": 6}]
    return toy_acceptance("toy-model-eagle3-tree", data_set="toy trees", points=points, **widths)


# ----------------------------------------------------------------------------------------------------- widths


@pytest.mark.parametrize(
    ("topk", "width", "expected"),
    [
        (4, None, [1, 5, 9, 13]),  # 1 + K D
        (4, 8, [1, 5, 8, 8]),  # one level of 4 holds 4 candidates beside the root
        (2, 64, [1, 3, 7, 11]),  # K + (D - 1) K^2 of them: 2, 6, 10
        (8, 64, [1, 9, 64, 64]),
    ],
)
def test_width_by_depth(topk: int, width: int | None, expected: list[int]) -> None:
    assert [Tree(topk, width).width(depth) for depth in range(4)] == expected


def test_a_path_takes_a_node_a_level_beside_the_root() -> None:
    assert [Tree(2, 4).reaches(depth) for depth in (2, 3, 4)] == [True, True, False]
    assert Tree(2, None).reaches(50)
    assert TreeAcceptance(Tree(2, 4), AcceptanceCurve({3: 2.5, 4: 2.7})).estimate(4) is None


def test_a_tree_costs_its_nodes_its_branches_and_its_fees(tmp_path: Path) -> None:
    overheads = toy_overheads(speculation_ms=0.5, tree_speculation_ms=0.9, draft_pass_ms=0.1, tree_draft_pass_ms=0.3)
    engine = toy_engine(overheads=overheads)
    asked = {"batches": "4", "draft_lengths": "0,3", "acceptance_length": "3=2.5"}
    chain = sweep(tmp_path / "chain", engine, **asked)
    tree = sweep(tmp_path / "tree", engine, tree_topk=4, verify_width=9, **asked)
    # as many verified tokens as a chain of 8 drafts, and 0.4 ms more of an entry fee
    long = sweep(tmp_path / "long", engine, batches="4", draft_lengths="0,8", acceptance_length="8=2.5")
    assert tree.points.verify_width.tolist() == [1, 9]
    assert tree.points.verify_s[1] == pytest.approx(long.points.verify_s[1] + 0.4e-3)
    # three passes, 0.2 ms more each; the kernels of 4 rows a request take no less than those of one
    assert tree.points.draft_s[1] > chain.points.draft_s[1] + 3 * 0.2e-3
    scenario = tree.grids[0].scenario
    assert scenario.plan is not None
    one = np.ones(())
    phases = {
        phase.name: float(phase.shape.width)
        for phase in scenario.step.draft_phases(scenario.plan, 4 * one, 3 * one, 9 * one, 2.5 * one, 1000 * one)
    }
    assert phases["further passes"] == phases["head of each pass"] == 4.0
    assert "tree_overheads_unknown" not in codes(tree)
    assert tree.points.acceptance_length[1] == 2.5
    assert "tree_acceptance_unknown" not in codes(tree)  # given for this tree


@pytest.mark.parametrize(("topk", "rows"), [(1, 3.0), (2, 2.0), (4, 4.0)])
def test_each_level_expands_its_best_tokens(topk: int, rows: float) -> None:
    # of 10 verified nodes three levels hold three each, where nobody says how many are expanded
    step = dataclasses.replace(step_of(drafter=toy_drafter()), branches=float(topk))
    assert step.plan is not None
    one = np.ones(())
    phases = step.draft_phases(step.plan, one, 3 * one, 10 * one, 2.0 * one, 1000 * one)
    widths = {phase.name: float(phase.shape.width) for phase in phases}
    assert widths["further passes"] == widths["head of each pass"] == rows


def test_off_is_plain_decoding_beside_a_tree(tmp_path: Path) -> None:
    plain = sweep(tmp_path / "a", batches="1,8", draft_lengths="0")
    tree = sweep(tmp_path / "b", batches="1,8", draft_lengths="0", tree_topk=4)
    assert tree.points.interactivity.tolist() == plain.points.interactivity.tolist()


def test_topk_1_is_a_chain(tmp_path: Path) -> None:
    chain = sweep(tmp_path / "a", batches="1,8")
    same = sweep(tmp_path / "b", batches="1,8", tree_topk=1)
    assert same.points.interactivity.tolist() == chain.points.interactivity.tolist()
    assert same.points.verify_width.tolist() == chain.points.verify_width.tolist()


# ------------------------------------------------------------------------------------------------- acceptance


def test_without_its_own_measurement_a_tree_accepts_at_least_what_a_chain_does(tmp_path: Path) -> None:
    found = sweep(tmp_path, batches="1", tree_topk=2)
    grid = found.grids[0]
    assert grid.acceptance_length.tolist()[:3] == [1.0, 1.7, 2.2]
    assert grid.basis[:3] == ("measured", "assumed", "assumed")
    assert grid.acceptance_low[2] == 2.2
    assert grid.acceptance_high[2] == 3.0  # 1 + D: no tree accepts more than its depth
    (note,) = [note for note in found.notes if note.code == "tree_acceptance_unknown"]
    assert "D = 1 to 4" in note.message
    assert "tree_overheads_unknown" in codes(found)


def test_a_measured_tree_of_the_same_depth_and_width_is_taken(tmp_path: Path) -> None:
    chains = toy_acceptance(default=True)
    found = sweep(tmp_path, chains, tree_points(), batches="1", tree_topk=2, verify_width=6)
    at = found.grids[0].draft_lengths.tolist().index(3)
    assert (found.grids[0].basis[at], found.grids[0].acceptance_length[at]) == ("measured", 2.9)
    assert any("toy-model-eagle3-tree" in note.message for note in found.notes if note.code == "acceptance_source")
    other = sweep(tmp_path / "b", chains, tree_points(), batches="1", tree_topk=2, verify_width=7)
    assert other.grids[0].basis[at] == "assumed"
    assert not any("toy-model-eagle3-tree" in note.message for note in other.notes)


def test_of_several_measured_trees_the_likest_is_taken(tmp_path: Path) -> None:
    def tree(name: str, data_set: str, *depths: int, **changes: Any) -> Data:
        points = [{"draft_length": d, "acceptance_length": 2.0 + d / 10, "verify_width": 6} for d in depths]
        return toy_acceptance(f"toy-model-eagle3-{name}", data_set=data_set, points=points, **changes)

    def taken(folder: str, *more: Data) -> str:
        chains = toy_acceptance(default=True)  # of the data set `toy chat`
        found = sweep(tmp_path / folder, chains, *more, batches="1", tree_topk=2, verify_width=6)
        (said,) = [n.message for n in found.notes if n.code == "acceptance_source" and "eagle3-tree" in n.message]
        return said

    own, other = tree("tree-z", "toy chat", 3), tree("tree-a", "toy code", 3, 4)
    assert "(toy-model-eagle3-tree-z)" in taken("data-set", own, other)
    longer = tree("tree-y", "toy chat", 3, 4)
    assert "(toy-model-eagle3-tree-y)" in taken("points", own, other, longer)
    assert "(toy-model-eagle3-tree-x)" in taken("name", own, tree("tree-x", "toy chat", 3))
    retrained = tree("tree-b", "toy chat", 3, 4, draft_checkpoint="someone/head")
    assert "(toy-model-eagle3-tree-z)" in taken("checkpoint", own, retrained)
    assert ", with" not in taken("checkpoint-2", own, retrained)
    assert taken("alone", retrained).endswith("(toy-model-eagle3-tree-b), with someone/head")


def test_one_depth_without_a_measurement_is_named_alone(tmp_path: Path) -> None:
    found = sweep(tmp_path, batches="1", tree_topk=2, draft_lengths="0,3")
    (note,) = [note for note in found.notes if note.code == "tree_acceptance_unknown"]
    assert "at D = 3;" in note.message


def test_a_larger_measured_tree_says_nothing_of_a_smaller_one() -> None:
    measured = AcceptanceCurve({3: 2.9}, tree_widths={3: 12})
    assert TreeAcceptance(Tree(4, 8), measured, source_is_tree=True).estimate(3) is None
    same = TreeAcceptance(Tree(4, 12), measured, source_is_tree=True).estimate(3)
    assert same is not None
    assert (same.basis, same.acceptance_length) == ("measured", 2.9)
    wider = TreeAcceptance(Tree(4, 13), measured, source_is_tree=True)
    found = wider.estimate(3)
    assert found is not None
    assert (found.basis, found.low, found.verify_width) == ("assumed", 2.9, 13)
    assert wider.lower_bound(3)


def test_a_chain_of_as_many_nodes_bounds_a_tree_and_measures_none() -> None:
    # 4 nodes, 3 deep: the drafter may as well have spent them on branches
    tree = TreeAcceptance(Tree(2, 4), AcceptanceCurve({3: 2.5}))
    found = tree.estimate(3)
    assert found is not None
    assert (found.basis, found.low, found.high, found.verify_width) == ("assumed", 2.5, 4.0, 4)
    assert tree.lower_bound(3)
    off = tree.estimate(0)
    assert off is not None
    assert (off.acceptance_length, off.verify_width) == (1.0, 1)


def test_extrapolated_stays_extrapolated(tmp_path: Path) -> None:
    found = sweep(tmp_path, batches="1", tree_topk=2, draft_lengths="0,6")
    assert found.grids[0].basis == ("measured", "extrapolated")


# ------------------------------------------------------------------------------------------------- conflicts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tree_topk": 0}, "--tree-topk must lie between 1 and 1024, got 0"),
        ({"tree_topk": 4, "verify_width": 0}, "--verify-width must lie between 1 and 1024, got 0"),
        ({"verify_width": 8}, "give --tree-topk too"),
        ({"tree_topk": 1, "verify_width": 5}, "--tree-topk 1 is a chain"),
        ({"tree_topk": 4, "drafter": "none"}, "--tree-topk conflicts with --drafter none"),
        ({"tree_topk": 4, "drafter": "toy-ngram", "acceptance_rate": 0.4}, "toy-ngram: ngram draws no trees"),
        ({"tree_topk": 4, "drafter": "toy-dflash", "acceptance_rate": 0.4}, "toy-dflash: dflash draws no trees"),
        ({"tree_topk": 4, "drafter": "toy-model-eagle3,toy-ngram", "acceptance_rate": 0.4}, "only eagle and eagle3 do"),
        ({"tree_topk": 4, "verify_width": 4, "draft_lengths": "2..4"}, "--draft-lengths 4: a path .* takes 5"),
    ],
)
def test_trees_that_cannot_be(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        sweep(tmp_path, toy_drafter("toy-dflash", "dflash"), **options)


def test_default_depths_end_where_the_verified_nodes_do(tmp_path: Path) -> None:
    found = sweep(tmp_path, batches="1", tree_topk=2, verify_width=4)
    assert found.grids[0].draft_lengths.tolist() == [0, 1, 2, 3]
    question = resolve(toy_library(tmp_path / "b"), toy_options(tree_topk=2, verify_width=4))
    with pytest.raises(UsageError, match="--verify-width 4 conflicts with --draft-length 4"):
        explain(question, 1, 4)


def test_compare_by_default_takes_those_that_draw_trees(tmp_path: Path) -> None:
    library = toy_library(tmp_path, toy_drafter("toy-dflash", "dflash"))
    found = run_compare(library, toy_options(tree_topk=2, acceptance_rate=0.5, batches="8"))
    assert {row.scenario.drafter_name for row in found.rows} == {"toy-model-eagle3"}
    assert all(row.grid.scenario.tree == Tree(2, None) for row in found.rows)


def test_guideline_5s_rivals_stay_chains(tmp_path: Path) -> None:
    rival = toy_drafter("toy-ngram-2", "ngram", targets=["toy-model"])
    acceptance = toy_acceptance("toy-model-ngram-2-chat", drafter="toy-ngram-2", default=True)
    library = toy_library(tmp_path, rival, acceptance)
    found = run_recommend(library, toy_options(tree_topk=2), Limits(batch=4))
    assert "drafter_not_compared" not in {note.code for note in found.notes}


def test_what_the_guidelines_leave_out_of_a_tree_is_said(tmp_path: Path) -> None:
    limits = Limits(batch=1, min_gain=0.0)
    asked = {"draft_lengths": "0,2", "acceptance_length": "2=2.9"}
    tree = run_recommend(toy_library(tmp_path / "a"), toy_options(tree_topk=3, **asked), limits)
    (note,) = [note for note in tree.notes if note.code == "guidelines_of_chain"]
    assert "3 rows a request at D = 2; this tree verifies 7" in note.message
    chain = run_recommend(toy_library(tmp_path / "b"), toy_options(**asked), limits)
    assert "guidelines_of_chain" not in {note.code for note in chain.notes}


# ------------------------------------------------------------------------------------------------ the commands


@pytest.fixture
def specdec(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Runner:
    return Runner(write_toys(tmp_path), capsys)


def test_the_width_is_a_column_where_it_is_a_trees(specdec: Runner) -> None:
    tree = specdec("sweep", "--batches", "1", "--draft-lengths", "0,2", "--tree-topk", "3")
    assert re.search(r"^ +1 +2 +7 +2\.20\?", tree.out, re.MULTILINE), tree.out
    assert "verified" not in specdec("sweep", "--batches", "1", "--draft-lengths", "0,2").out
    inputs = specdec("sweep", "--batches", "1", "--tree-topk", "3", format="json").data["inputs"]
    assert inputs["tree_topk"] == {"value": 3, "origin": "option"}
    assert inputs["verify_width"] == {"value": "1 + 3 D", "origin": "default"}


@pytest.mark.parametrize("family", ["sglang", "tensorrt-llm"])
def test_what_is_pasted_is_the_tree(specdec: Runner, family: str) -> None:
    asked = ("--batch", "1", "--tree-topk", "3", "--verify-width", "5", "--draft-lengths", "2", "--min-gain", "0")
    answer = specdec("recommend", *asked, "--acceptance-length", "2=2.9", format="json").data
    assert answer["choice"]["draft_length"] == 2
    setting = answer["engine_settings"][family]
    found = read_settings(family, setting["text"])
    assert found.draft_length == 2
    width = {"sglang": r"--speculative-num-draft-tokens 5\b", "tensorrt-llm": r"max_total_draft_tokens: 4\b"}
    topk = {"sglang": r"--speculative-eagle-topk 3\b", "tensorrt-llm": r"dynamic_tree_max_topK: 3\b"}
    assert re.search(width[family], setting["text"])
    assert re.search(topk[family], setting["text"])


def test_a_tree_that_one_engine_lacks_leaves_the_others(specdec: Runner) -> None:
    # 3 + 9 candidates in two levels; TensorRT-LLM takes no more than 3 x 2
    asked = ("--batch", "1", "--tree-topk", "3", "--verify-width", "12", "--draft-lengths", "2", "--min-gain", "0")
    given = ("--acceptance-length", "2=2.9")
    settings = specdec("recommend", *asked, *given, format="json").data["engine_settings"]
    assert "--speculative-num-draft-tokens 12" in settings["sglang"]["text"]
    assert settings["tensorrt-llm"]["text"] == ""
    assert [w["code"] for w in settings["tensorrt-llm"]["warnings"]] == ["tree_not_in_engine"]
    assert [w["code"] for w in settings["vllm"]["warnings"]] == ["tree_not_in_engine"]


# --------------------------------------------------------------------------------------------------- look-ups


@pytest.mark.parametrize("mechanism", ["ngram", "suffix"])
def test_a_lookup_asks_for_repetition(tmp_path: Path, mechanism: str) -> None:
    with pytest.raises(ProfileError, match=r"how far your text repeats itself.*--acceptance-rate 0\.4"):
        sweep(tmp_path, toy_drafter("toy-lookup", mechanism), drafter="toy-lookup")
    found = sweep(
        tmp_path / "b",
        toy_drafter("toy-lookup", mechanism),
        drafter="toy-lookup",
        acceptance_rate=0.5,
        batches="1",
        draft_lengths="0,2",
    )
    assert found.points.acceptance_length.tolist() == [1.0, 1.75]


# ----------------------------------------------------------------------------------------------------- blocks


def block_sweep(root: Path, **options: Any) -> Sweep:
    asked = {"drafter": "toy-dflash", "batches": "8", **options}
    return sweep(root, toy_drafter("toy-dflash", "dflash"), **asked)


def test_a_shorter_draft_than_the_block_costs_its_own_rows(tmp_path: Path) -> None:
    found = block_sweep(tmp_path, acceptance_rate=0.7, draft_lengths="0,3,7")
    scenario = found.grids[0].scenario
    assert scenario.plan is not None
    one = np.ones(())
    for length in (3, 7):
        phases = scenario.step.draft_phases(
            scenario.plan, 8 * one, length * one, (length + 1) * one, 2 * one, 1000 * one
        )
        (block,) = [phase for phase in phases if phase.name == "block pass"]
        assert float(block.shape.width) == 1 + length
    assert 0 < found.points.draft_s[1] <= found.points.draft_s[2]
    assert "beyond_trained_block" not in codes(found)


def test_past_the_trained_block_only_when_asked(tmp_path: Path) -> None:
    lengths = {"acceptance_length": "3=2.3,7=3.1", "draft_lengths": "0,7,9"}
    refused = block_sweep(tmp_path, **lengths)
    assert refused.points.draft_length.tolist() == [0, 7]
    assert "--assume lets longer drafts in" in refused.infeasible[0].detail
    taken = block_sweep(tmp_path / "b", assume=True, **lengths)
    assert taken.points.draft_length.tolist() == [0, 7, 9]
    assert taken.grids[0].basis[2] == "extrapolated"
    (note,) = [note for note in taken.notes if note.code == "beyond_trained_block"]
    assert "blocks of 8, which draft 7 tokens; acceptance at D = 9" in note.message
    assert "beyond_trained_block" not in codes(refused)
    explained = explain(
        resolve(
            toy_library(tmp_path / "c", toy_drafter("toy-dflash", "dflash")),
            toy_options(drafter="toy-dflash", acceptance_length="3=2.3,7=3.1", assume=True),
        ),
        8,
        9,
    )
    assert "beyond_trained_block" in {note.code for note in explained.question.notes}
