"""Shipped drafters and acceptance: sizes add up, defaults are unique, curves are possible.

Parametrised over the folders, so a newcomer's file is tested with no change here.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from specdec_cli.profiles import schema
from specdec_cli.profiles.draft_parameters import drafter_parameters_m, head_parameters
from specdec_cli.profiles.library import Library
from specdec_cli.profiles.parameters import count_parameters, mtp_parameters

LIBRARY = Library()
DRAFTERS = {name: LIBRARY.drafter(name).record for name in LIBRARY.names("drafter")}
ACCEPTANCE = {name: LIBRARY.acceptance(name).record for name in LIBRARY.names("acceptance")}
MODELS = set(LIBRARY.names("model"))

PARAMETER_TOLERANCE = 0.01
PARAMETER_EXCEPTIONS: dict[str, str] = {}
"""Drafters whose computed count may differ from `parameters_m` by more, each with its reason."""


def llama_eagle3_head(**changes: int | bool) -> schema.DraftHead:
    """The EAGLE-3 head of Llama-3.1-8B, as SafeAILab's training config states it."""
    sizes: dict[str, int | bool] = {
        "layers": 1,
        "hidden": 4096,
        "intermediate": 14336,
        "heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "attention_input": 8192,
        "fc_in": 12288,
        "draft_vocabulary": 32000,
        "own_lm_head": True,
    }
    return schema.DraftHead(**{**sizes, **changes})  # type: ignore[arg-type]


def test_an_eagle3_head_by_hand() -> None:
    # fc 3*4096*4096 = 50.33 M; q, k, v 8192*(4096 + 2*1024) = 50.33 M and o 4096*4096 = 16.78 M;
    # gate, up, down 3*4096*14336 = 176.16 M; head 4096*32000 = 131.07 M: the published file holds 811 MB in fp16.
    parts = head_parameters(llama_eagle3_head())
    assert parts == {
        "fusion": 50_331_648,
        "attention": 67_108_864,
        "ffn": 176_160_768,
        "parallel_heads": 0,
        "markov_head": 0,
        "lm_head": 131_072_000,
    }


def test_only_the_first_layer_reads_the_doubled_input() -> None:
    one, two = (head_parameters(llama_eagle3_head(layers=n))["attention"] for n in (1, 2))
    assert two - one == 4096 * (4096 + 2 * 1024) + 4096 * 4096


def test_a_shared_head_is_not_the_drafters_own() -> None:
    assert head_parameters(llama_eagle3_head(own_lm_head=False))["lm_head"] == 0


def test_a_mixture_counts_every_expert_and_its_router() -> None:
    ffn = schema.MoeFfn(experts=4, top_k=2, intermediate=100)
    head = llama_eagle3_head()
    dense, moe = head_parameters(head), head_parameters(schema_replace(head, ffn))
    assert moe["ffn"] == 4 * 3 * 4096 * 100 + 4096 * 4
    assert {k: v for k, v in moe.items() if k != "ffn"} == {k: v for k, v in dense.items() if k != "ffn"}


def schema_replace(head: schema.DraftHead, ffn: schema.MoeFfn) -> schema.DraftHead:
    fields = {name: getattr(head, name) for name in head.__struct_fields__}
    return schema.DraftHead(**{**fields, "ffn": ffn})


@pytest.mark.parametrize("name", sorted(DRAFTERS))
def test_a_drafter_has_the_parameters_it_states(name: str) -> None:
    drafter = DRAFTERS[name]
    stated = drafter.parameters_m
    computed = drafter_parameters_m(drafter)
    if drafter.mechanism == "mtp":
        computed = mtp_parameters(LIBRARY.model(drafter.targets[0]).record) / 1e6
    elif drafter.mechanism == "draft_model":
        assert drafter.model is not None
        computed = count_parameters(LIBRARY.model(drafter.model).record).total / 1e6
    if stated is None:
        assert drafter.head is None or drafter.sources["head"].kind == "assumed", "a published head states its count"
        return
    assert computed == pytest.approx(stated, rel=PARAMETER_TOLERANCE) or name in PARAMETER_EXCEPTIONS


@pytest.mark.parametrize("name", sorted(DRAFTERS))
def test_a_drafters_models_exist_and_fit(name: str) -> None:
    drafter = DRAFTERS[name]
    assert {*drafter.targets, *filter(None, [drafter.model])} <= MODELS
    if drafter.head is None:
        return
    for target in drafter.targets:
        model = LIBRARY.model(target).record
        assert drafter.head.draft_vocabulary <= model.vocabulary
        if not drafter.head.own_lm_head:  # it reads the target's head, so both are as wide
            assert (drafter.head.draft_vocabulary, drafter.head.hidden) == (model.vocabulary, model.hidden)


def test_one_default_for_each_target_and_mechanism() -> None:
    of: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, drafter in DRAFTERS.items():
        for target in drafter.targets or ["any"]:
            if drafter.default:
                of[(target, drafter.mechanism)].append(name)
    assert {pair: names for pair, names in of.items() if len(names) > 1} == {}
    pairs = {(target, drafter.mechanism) for drafter in DRAFTERS.values() for target in drafter.targets or ["any"]}
    assert pairs - set(of) <= {pair for pair in pairs if pair[1] == "draft_model"}


@pytest.mark.parametrize("name", sorted(ACCEPTANCE))
def test_an_acceptance_profile_names_a_pair_that_exists(name: str) -> None:
    record = ACCEPTANCE[name]
    drafter = DRAFTERS[record.drafter]
    assert record.target in MODELS
    assert not drafter.targets or record.target in drafter.targets
    assert record.default is False or any(note.startswith("Default of this pair: ") for note in record.notes)


@pytest.mark.parametrize("name", sorted(ACCEPTANCE))
def test_chains_and_trees_are_apart(name: str) -> None:
    assert len({point.verify_width is None for point in ACCEPTANCE[name].points}) == 1


def test_one_default_for_each_measured_pair() -> None:
    of: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, record in ACCEPTANCE.items():
        of[(record.target, record.drafter)] += [name] if record.default else []
    assert {pair: names for pair, names in of.items() if len(names) != 1} == {}
    assert len(of) >= 8


def test_acceptance_measured_on_another_model_says_so() -> None:
    record = LIBRARY.default_acceptance("deepseek-v3", "deepseek-v3-mtp")
    assert record is not None
    assert record.record.title == "Measured on DeepSeek-R1"
    assert "DeepSeek-R1" in record.record.data_set
    assert record.record.points == ACCEPTANCE["deepseek-r1-mtp-1k-2k-trtllm"].points
