"""A replica that prefills and decodes: by hand on toy hardware, in its limits, and against published serving runs.

The toy chip: 1e12 FLOP/s, 1e11 B/s, parts add up. The toy model in us, T tokens, B requests at 1500 tokens of context:
    layer: 14.5e6 weights, so 290 to read them + T (29 compute + 0.37 activations + 0.2 small kernels) = 290 + 29.57 T
    head: 10e6 weights, 200 + B (20 + 0.22); logits 3.5 x 4 bytes x 10,000 = 1.4 B
    attention of a layer: 15 B to read 1.5 MB, 24 B for 16 padded rows: their root of squares, 28.302 B
    step = 10 x 290 + 200 + B (295.7 + 21.62 + 283.02) = 3100 + 600.34 B
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from builders import as_record, toy_drafter, toy_engine, toy_hardware, toy_kernels, toy_model, toy_overheads
from conftest import REPO
from toys import column, cost_of, shipped, shipped_scenario, step_of

from specdec_cli.explore.grid import Grid, evaluate
from specdec_cli.explore.recommend import Limits, run_recommend
from specdec_cli.explore.scenario import Options
from specdec_cli.physics.layers import Layout, resolve_dtypes, target_operations
from specdec_cli.physics.memory import MemoryBill, memory_bill
from specdec_cli.physics.operations import AllReduceHidden
from specdec_cli.physics.serving import (
    ServingTimes,
    Workload,
    prefill_attention_s,
    prompt_s,
    prompts_waited_for,
    serving_step_model,
    serving_times,
)
from specdec_cli.physics.step import StepModel, pass_cost

US, MS = 1e-6, 1e-3
LOAD = Workload(input_tokens=1000, output_tokens=1000)
PROMPT_US = 1000 * 295.7  # the layers on 1000 tokens more: the weights are read anyway
# Causal attention: 10 layers x 2 FLOP x 8 heads x (125 + 125) x 1000^2 / 2 pairs = 2e10, at 0.45 of 1e12 FLOP/s.
PROMPT_ATTENTION_US = 2e10 / 0.45e12 / US


def bill(model: dict[str, Any] | None = None, *, context: float = 1500.0, **hardware: Any) -> MemoryBill:
    target = as_record(model or toy_model())
    operations = target_operations(target, Layout(), resolve_dtypes(target.dtypes))
    engine = as_record(toy_engine())
    return memory_bill(
        as_record(toy_hardware(**hardware)), engine, target, operations, "bf16", Layout(), None, context, "bf16"
    )


def served(
    *concurrency: float,
    load: Workload = LOAD,
    prefill: Literal["mixed", "separate"] = "mixed",
    step: StepModel | None = None,
    memory: MemoryBill | None = None,
) -> ServingTimes:
    one = np.ones((1, 1))
    model = serving_step_model(step or step_of())
    return serving_times(model, memory or bill(), load, column(*concurrency), 0 * one, one, one, prefill)


def first_us(values: np.ndarray) -> float:
    return float(values[0, 0]) / US


# ------------------------------------------------------------------------------------------------- by hand


def test_two_requests_by_hand() -> None:
    # dT_pre = 295,700 + 44,444 = 340,144. B = 2: step 4300.7, TPOT 4300.7 + 340,144 / 1000 = 4640.8; a request then
    # decodes for 4640.8 / (4640.8 + 1.5 x 340.144) = 0.90096 of its time and sees 1.90096 decoding: step 4241.2,
    # TPOT 4241.2 + 0.90096 x 340.144 = 4547.7; decoding 4547.7 / (4547.7 + 510.2) = 0.89913 of the time.
    found = served(2)
    assert first_us(found.prefill_s) == pytest.approx(PROMPT_US + PROMPT_ATTENTION_US, rel=1e-4)
    assert first_us(found.tpot_s) == pytest.approx(4547.7, rel=1e-4)
    assert float(found.decode_batch[0, 0]) == pytest.approx(2 * 0.89913, rel=1e-4)


def test_a_prompt_in_a_step_of_its_own_reads_the_weights_again() -> None:
    # 2900 for the layers' weights; no head: only the answer's first token needs it. The step's host time comes on top.
    host = toy_engine(overheads=toy_overheads(serving_step_ms=1.0))
    added = served(2, prefill="separate", step=step_of(engine=host)).prefill_s
    assert first_us(added) == pytest.approx(2900 + PROMPT_US + PROMPT_ATTENTION_US + 1000, rel=1e-4)


def test_one_request_waits_for_nobody() -> None:
    found = served(1)
    assert float(found.decode_batch[0, 0]) < 1  # it is prefilled for a part of the time
    assert first_us(found.tpot_s) == pytest.approx(3100 + 600.34, rel=1e-4)


def test_share_of_the_prompts_is_the_engines() -> None:
    def waited(share: float) -> float:
        step = step_of(engine=toy_engine(overheads=toy_overheads(prefill_share=share)))
        found = served(8, step=step)
        seen = 1 + 7 / 8 * float(found.decode_batch[0, 0])
        return first_us(found.tpot_s) - 3100 - 600.34 * seen

    assert waited(0.0) == pytest.approx(0.0, abs=60)  # the last pass's batch is a little off the one before
    assert waited(1.0) > 1.5 * waited(0.5) > 0


def test_equal_answers_started_together_wait_for_half_of_the_prompts() -> None:
    # Prefill first, chunks of 8192 tokens: 8.192 prompts of 1000 are taken in together. Of 64 requests each waits on
    # average for (64 - 8.192) / 2 = 27.9 prompts instead of 63.
    def waited(load: Workload) -> float:
        found = served(64, load=load, prefill="separate")
        seen = 1 + 63 / 64 * float(found.decode_batch[0, 0])
        return (first_us(found.tpot_s) - 3100 - 600.34 * seen) / first_us(found.prefill_s) * 1000

    assert waited(LOAD) == pytest.approx(63, rel=0.02)
    assert waited(Workload(1000, 1000, lock_step=True)) == pytest.approx(27.9, rel=0.02)
    mixed = [served(64, load=Workload(1000, 1000, lock_step=on)).tpot_s for on in (False, True)]
    assert np.array_equal(*mixed)  # chunks that ride in decode steps stop nobody


def test_prompts_that_the_first_chunk_holds_wait_for_none() -> None:
    step = step_of(engine=toy_engine(overheads=toy_overheads(prefill_share=0.5)))
    together, batch = Workload(1000, 1000, lock_step=True), np.array([1.0, 4.0, 8.192, 64.0])
    halves = prompts_waited_for(step, together, batch, "separate")
    assert halves == pytest.approx([0, 0, 0, 0.5 * (64 - 8.192) / 2])
    assert prompts_waited_for(step, together, batch, "mixed") == pytest.approx(0.5 * (batch - 1))
    # a prompt longer than the chunk is taken in alone
    long = Workload(10_000, 1000, lock_step=True)
    assert prompts_waited_for(step, long, batch, "separate") == pytest.approx(0.5 * (batch - 1) / 2)


def test_two_requests_that_draft_by_hand() -> None:
    # A look-up drafts 2 tokens for nothing: 3 verified, AL 2. Steps of B requests at 3 tokens each:
    #     layers 10 x (290 + 29.57 x 3 B), attention 10 x sqrt(15^2 + 24^2) B (12 rows, padded to 16 as one token's 4),
    #     head 200 + 20.22 x 3 B, logits 1.4 x 3 B: 3100 + B (887.1 + 60.66 + 4.2 + 283.02) = 3100 + 1234.98 B
    # dT_pre = 340.144 ms as above. B = 2: TPOT 5569.96 / 2 + 340.144 = 3125.1 us: decoding 3125.1 / (3125.1 + 510.2) =
    # 0.85965 of the time, so seen 1.85965: 5396.7 / 2 + 0.85965 x 340.144 = 2990.8; decoding 0.85427.
    one = np.ones((1, 1))
    step = serving_step_model(step_of(drafter=toy_drafter("toy-ngram", "ngram")))
    found = serving_times(step, bill(), LOAD, column(2), 2 * one, 3 * one, 2 * one, "mixed")
    assert first_us(found.tpot_s) == pytest.approx(2990.8, rel=1e-4)
    assert float(found.decode_batch[0, 0]) == pytest.approx(2 * 0.85427, rel=1e-4)


def test_prefill_attention_sees_a_window_and_an_indexers_choice() -> None:
    windowed = toy_model(attention={"full": {"type": "gqa", "heads": 8, "kv_heads": 2, "head_dim": 125, "window": 200}})
    # 200 x 1000 - 200^2 / 2 = 180,000 pairs in place of 500,000.
    assert prefill_attention_s(step_of(windowed), 1000) / US == pytest.approx(PROMPT_ATTENTION_US * 0.36)
    assert prefill_attention_s(step_of(windowed), 200) == prefill_attention_s(step_of(), 200)
    latent = {"type": "mla", "heads": 8, "q_lora_rank": 256, "kv_lora_rank": 128, "nope_head_dim": 64}
    mla = toy_model(attention={"full": {**latent, "rope_head_dim": 32, "v_head_dim": 64}})
    sizes = {"heads": 8, "head_dim": 125, "q_lora_rank": 64, "o_lora_rank": 16, "o_groups": 4, "window": 200}
    pooled = toy_model(attention={"full": {"type": "compressed", **sizes, "ratio": 4}})
    # The window's 180,000 pairs, and an entry for each 4 tokens before: 500,000 / 4.
    assert prefill_attention_s(step_of(pooled), 1000) / US == pytest.approx(PROMPT_ATTENTION_US * (0.36 + 0.25))
    indexer = {"heads": 8, "head_dim": 125, "top_k": 50}
    chosen = toy_model(attention={"full": {"type": "compressed", **sizes, "ratio": 4, "indexer": indexer}})
    # 50 entries are 200 tokens: 180,000 / 4 pairs.
    assert prefill_attention_s(step_of(chosen), 1000) / US == pytest.approx(PROMPT_ATTENTION_US * (0.36 + 0.09))
    # Outside the latent space: keys of 64 + 32, values of 64. 160 in place of 250.
    assert prefill_attention_s(step_of(mla), 1000) / US == pytest.approx(PROMPT_ATTENTION_US * 160 / 250)
    # An indexer's choice of 200 tokens sees as many pairs as a window of 200.
    sparse = toy_model(
        attention={
            "full": {
                **latent,
                "rope_head_dim": 32,
                "v_head_dim": 64,
                "indexer": {"heads": 8, "head_dim": 128, "top_k": 200},
            }
        }
    )
    assert prefill_attention_s(step_of(sparse), 1000) / US == pytest.approx(PROMPT_ATTENTION_US * 0.36 * 160 / 250)
    # Layers add up, whatever their kind: 4 of all tokens, 6 pooled.
    full = {"type": "gqa", "heads": 8, "kv_heads": 2, "head_dim": 125}
    mixed = toy_model(
        attention={"full": full, "pooled": {"type": "compressed", **sizes, "ratio": 4}},
        blocks=[{"repeat": n, "attention": kind, "ffn": "dense"} for n, kind in ((4, "full"), (6, "pooled"))],
    )
    assert prefill_attention_s(step_of(mixed), 1000) / US == pytest.approx(PROMPT_ATTENTION_US * (0.4 + 0.6 * 0.61))
    assert prefill_attention_s(step_of(mixed), 0) == 0.0


def test_serving_constants_take_the_place_of_the_decode_set() -> None:
    overheads = toy_overheads(step_ms=5.0, per_request_us=70.0, serving_step_ms=2.0)
    step = serving_step_model(step_of(engine=toy_engine(overheads=overheads)))
    assert float(step.host_s(np.array(10.0))) == pytest.approx(2.7 * MS)  # per request: the decode set's
    own = step_of(engine=toy_engine(overheads=overheads | {"serving_per_request_us": 30.0}))
    assert float(serving_step_model(own).host_s(np.array(10.0))) == pytest.approx(2.3 * MS)


def test_no_more_requests_decode_than_memory_holds() -> None:
    # 165e6 bf16 weights = 0.33 GB; 10 kB a token and request: 15 MB at 1500 tokens. 0.48 GB hold 10 requests.
    memory = bill(memory_bytes=0.48e9)
    found = served(4, 10, 40, memory=memory)
    assert float(found.decode_batch[0, 0]) < 4
    assert float(found.decode_batch[2, 0]) < 10
    assert float(found.tpot_s[2, 0]) == pytest.approx(float(found.tpot_s[1, 0]))


def test_ranks_share_the_requests_and_prefill_side_by_side() -> None:
    two = step_of(layout=Layout(tp=1, gpus=2))
    found = served(4, step=two)
    # Dense layers are whole on both ranks: two requests each, and a prompt on each at once, as one rank with two; but
    # of 2 x 1.90096 requests the fuller rank runs two: 4300.7 + 0.90096 x 340.144.
    assert first_us(found.tpot_s) == pytest.approx(4607.1, rel=1e-4)
    assert float(found.decode_batch[0, 0]) > 3


# ---------------------------------------------------------------------------------------------- directions


def test_directions() -> None:
    loads = served(1, 2, 4, 8, 16, 32)
    assert np.all(np.diff(loads.tpot_s[:, 0]) > 0)
    assert np.all(np.diff(loads.decode_batch[:, 0]) > 0)
    assert np.all(loads.decode_batch[:, 0] < [1, 2, 4, 8, 16, 32])
    prompts = [served(8, load=Workload(i, 1000)).tpot_s[0, 0] for i in (100, 1000, 4000)]
    assert prompts == sorted(prompts)
    answers = [served(8, load=Workload(1000, o)).tpot_s[0, 0] for o in (2000, 500, 100)]
    assert answers == sorted(answers)  # the shorter the answers, the more often a prompt comes
    mixed, separate = (served(8, prefill=how).prefill_s[0, 0] for how in ("mixed", "separate"))
    assert separate > mixed


def test_more_decode_tokens_leave_less_for_a_prompt_to_add() -> None:
    """A chunk fills a step that waits for its weights anyway: compute and memory overlap on real chips."""
    scenario = shipped_scenario(model="qwen3-8b", hardware="h100-sxm", drafter="none", context=1500)
    added = prompt_s(scenario.step, Workload(64, 1000), column(1, 32, 256), "mixed")[:, 0]
    assert np.all(np.diff(added) >= 0)  # the first chunk hides under the weights, later ones do not
    assert 0 < added[0] < added[2]
    # so does a wider verify pass, by its own tokens
    one, widths = np.ones((1, 1)), np.array([[1.0, 33.0]])
    load = Workload(64, 1000)
    memory = bill()
    wide = serving_times(scenario.step, memory, load, column(1), 0 * widths, widths, one, "mixed")
    assert wide.prefill_s[0] == pytest.approx(prompt_s(scenario.step, load, np.array([1.0, 33.0]), "mixed"))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3"])
def test_a_serving_run_gains_less_than_its_steps(model: str, engine: str) -> None:
    gpus = 8 if model == "deepseek-v3" else 1
    found: Grid = evaluate(
        shipped_scenario(
            model=model,
            hardware="h200-sxm",
            gpus=gpus,
            engine=engine,
            input_tokens=1024,
            output_tokens=512,
            acceptance_length="1=1.8,3=2.8",
            drafter={"llama-3.1-8b": "eagle3", "qwen3-30b-a3b": "eagle3", "deepseek-v3": "mtp"}[model],
            draft_lengths="0,1,3",
            batches="1,4,16,64",
        )
    )
    assert found.serving is not None
    assert np.allclose(found.serving.speedup[:, 0], 1.0)
    gains = found.speedup > 1.0
    assert gains[:, 1:].any()
    assert np.all(found.serving.speedup[gains] <= found.speedup[gains] + 1e-9)
    crowded = gains & (found.batches >= 16)
    crowded[:, 0] = False
    if crowded.any():
        assert np.all(found.serving.speedup[crowded] < found.speedup[crowded])


# ------------------------------------------------------------------------------------------ the parts of a step


def test_a_large_all_reduce_goes_to_the_library() -> None:
    # 10 us + 2 x 1/2 x bytes / 10 GB/s against 100 us + the same / 20 GB/s: equal at 90 us x 20 GB/s = 1.8 MB,
    # which is 900 tokens of 1000 x 2 bytes.
    kernels = {
        "default": toy_kernels(
            all_reduce={2: {"latency_us": 10.0, "efficiency": 0.5}},
            collective_library={2: {"latency_us": 100.0, "efficiency": 1.0}},
        )
    }
    link = {"technology": "toy link", "gb_per_s": 20.0, "peer_gb_per_s": 20.0, "domain_gpus": 4}

    def us(tokens: int, **more: Any) -> float:
        reduce = AllReduceHidden(name="all-reduce", hidden=1000, gpus=2)
        hardware = toy_hardware(link=link, kernels={"default": {**kernels["default"], **more}})
        return cost_of(reduce, requests=tokens, hardware=hardware).seconds / US

    assert us(450) == pytest.approx(10 + 90)
    assert us(900) == pytest.approx(190)
    assert us(1800) == pytest.approx(100 + 180)
    assert us(1800, collective_library={}) == pytest.approx(10 + 360)


# Llama-3.1-70B in bf16 on H100, a decode step at about 1K of context, composed from measured kernels
# (aiconfigurator-core 0.12.0): ms at B = 1, 8, 32, 128. No host time in it, none in the prediction.
COMPOSED = {
    ("tensorrt-llm", 4): (15.81, 16.02, 18.43, 25.93),
    ("tensorrt-llm", 8): (9.95, 10.28, 12.73, 19.04),
    ("vllm", 4): (14.89, 16.12, 17.24, 23.59),
    ("vllm", 8): (10.14, 10.17, 11.08, 15.00),
}


def test_decode_steps_stay_with_the_kernels_they_are_made_of() -> None:
    """A serving fit could trade kernels for host time and keep the total: speculation would pay for it."""
    errors = []
    for (engine, tp), measured in COMPOSED.items():
        scenario = shipped_scenario(model="llama-3.1-70b", engine=engine, tp=str(tp), drafter="none", context=1024)
        step = scenario.step
        shape = step.shape(column(1, 8, 32, 128), np.ones((1, 1)), np.asarray(1024.0))
        kernels = pass_cost(step.target, shape, step.chip).seconds[:, 0] / MS
        errors += list(kernels / np.array(measured) - 1)
    assert np.median(np.abs(errors)) < 0.07


# ------------------------------------------------------------------------------------- published serving runs


def load(folder: Path) -> tuple[list[Any], list[Any]]:
    import sys

    sys.path.insert(0, str(REPO / "tests" / "fits"))
    from serving_runs import compared, load_runs

    every = load_runs(folder / "serving_base.csv")
    return every, compared(every)


def test_published_runs_are_read_as_they_were_run(shared_data: Path) -> None:
    every, runs = load(shared_data)
    assert len(every) == 1991
    assert sum(bool(run.unfit) for run in every) <= 0.13 * len(every)
    assert {run.layout.gpus % run.layout.tp for run in runs} == {0}
    assert len({(r.configuration, r.concurrency, f"{r.tpot_s:.4g}") for r in runs}) == len(runs)
    halves = [{run.configuration for run in runs if run.held_out is side} for side in (False, True)]
    assert not halves[0] & halves[1]
    assert min(map(len, halves)) > 0.4 * sum(map(len, halves))
    spread = {run.layout for run in runs if run.checkpoint.model == "deepseek-r1"}
    assert {Layout(8, 8, 8), Layout(4, 4, 4), Layout(1, 8, 8), Layout(8, 8, 1), Layout(4, 4, 1)} <= spread


def test_tpot_of_runs_that_no_fit_saw(shared_data: Path) -> None:
    """`python tests/fits/fit_serving.py FILE` prints them by chip, engine and model."""
    every, runs = load(shared_data)
    from serving_runs import compared, predictor

    held_out = [run for run in runs if run.held_out]
    errors = predictor(shipped(), held_out).tpot_s() / np.array([run.tpot_s for run in held_out]) - 1
    assert np.median(np.abs(errors)) < 0.09
    assert np.mean(np.abs(errors)) < 0.18
    assert abs(np.median(errors)) < 0.03
    for engine, limit in (("vllm", 0.09), ("tensorrt-llm", 0.10), ("sglang", 0.12)):
        own = [abs(error) for run, error in zip(held_out, errors, strict=True) if run.engine == engine]
        assert np.median(own) < limit, engine

    # Nor does it hang on the runs left out (speculating under another label, stalled, served from a cache).
    marked = [run for run in compared(every, marked=True) if run.held_out]
    assert len(marked) > len(held_out)
    errors = predictor(shipped(), marked).tpot_s() / np.array([run.tpot_s for run in marked]) - 1
    assert np.median(np.abs(errors)) < 0.09
    assert np.mean(np.abs(errors)) < 0.18


def test_limits_hold_under_load_not_for_decoding_alone() -> None:
    """A ceiling on TPOT means the time between tokens that users see, prefill included."""
    asked = Options(input_tokens=4096, output_tokens=256)
    found = run_recommend(shipped(), asked, Limits(max_tpot_ms=8.0))
    assert found.choice is not None
    points = found.sweep.points
    assert points.serving_tpot_s is not None
    assert points.serving_tpot_s[found.choice] <= 8.0e-3
    assert found.users is not None
    assert found.users.served >= points.batch[found.choice]
