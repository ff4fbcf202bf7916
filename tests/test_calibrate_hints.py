"""What a calibration suggests about the machine."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import toy_engine, toy_hardware, toy_kernels, toy_model, toy_overheads
from calibration_toys import measured_row, ms
from toys import shipped, toy_library, toy_options

from specdec_cli.explore.calibrate import Row, calibrate, predict_s
from specdec_cli.explore.calibrate_hints import hints, plain_split
from specdec_cli.explore.device_words import device_words
from specdec_cli.explore.scenario import Scenario, resolve
from specdec_cli.profiles.calibration import Constants
from specdec_cli.units import MS


def hinted(rows: list[Row], *more: Any, **options: Any) -> dict[str, str]:
    scenario = scenario_of(*more, **options)
    fit = calibrate(scenario.step, rows)
    return {one.code: one.message for one in hints(scenario, fit, plain_split(scenario, fit))}


def scenario_of(*more: Any, **options: Any) -> Scenario:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        asked = toy_options(**{"context": 1, "acceptance_rate": 0.5, "batches": "1", **options})
        return resolve(toy_library(Path(folder), *more), asked).scenarios[0]


def engine_of(**overheads: float) -> dict[str, Any]:
    return toy_engine(overheads=toy_overheads(**overheads))


def test_a_healthy_machine_gets_no_hints() -> None:
    scenario = scenario_of(engine_of(step_ms=1.0, speculation_ms=0.3, draft_pass_ms=0.1))
    shapes = [measured_row(1, d, 1.0, al=1 + d / 2) for d in (0, 1, 4)]
    rows = [replace(one, step_s=float(s)) for one, s in zip(shapes, predict_s(scenario.step, shapes), strict=True)]
    assert hinted(rows, engine_of(step_ms=1.0, speculation_ms=0.3, draft_pass_ms=0.1)) == {}


def test_a_slow_plain_step_is_measured_against_the_weights() -> None:
    """Weights, activations and a token of KV: 3.11 ms at 1e11 B/s. 9.3 ms are 3.0x that."""
    found = hinted([measured_row(1, 0, 9.3)])
    assert list(found) == ["step_above_prior"]
    assert "3.0x what the weights need (9.3 ms; they need 3.11 ms" in found["step_above_prior"]


def test_eager_launches_are_recognised_by_their_size() -> None:
    """Ten layers x 500 us: 5 ms more than in graphs; the step is 5.6 ms late."""
    kernels = toy_kernels(eager_us_per_layer=500.0)
    found = hinted([measured_row(1, 0, 9.0)], toy_hardware(kernels={"default": kernels}))
    assert list(found) == ["graphs_off"]
    assert "5 ms" in found["graphs_off"]
    eager = hinted([measured_row(1, 0, 30.0)], toy_hardware(kernels={"default": kernels}))
    assert list(eager) == ["step_above_prior"]  # five times what eager launches would cost


def test_steps_that_cannot_be_and_steps_too_quick() -> None:
    assert list(hinted([measured_row(1, 0, 2.0)])) == ["faster_than_possible"]
    slow = toy_hardware(
        kernels={
            "default": toy_kernels(
                gemm={"bf16": {"compute": "bf16", "eta_c": 0.5, "eta_m": 0.5, "tau_us": 0.0, "overlap_exponent": 1.0}}
            )
        }
    )
    assert list(hinted([measured_row(1, 0, 4.0)], slow)) == ["step_below_prior"]


def test_a_fee_and_a_pass_are_told_apart() -> None:
    fee = hinted([measured_row(1, 0, 3.41), measured_row(1, 1, 8.0, al=1.5), measured_row(1, 4, 10.5, al=2.5)])
    assert "entry_fee_high" in fee
    each = hinted([measured_row(1, 0, 3.41), measured_row(1, 1, 5.5, al=1.5), measured_row(1, 4, 12.5, al=2.5)])
    assert "draft_pass_slow" in each
    assert "verify_does_not_amortise" in each  # 2.3 ms a token on 3.4


DEVICES = {
    "cpu": (("AMD", "Zen4 AVX512-BF16"), {"cpus", "gpu", "graphs", "eager", "clock"}, "matrix-vector to matrix-matrix"),
    "a CPU of the user's own": (("as measured", "CPU"), {"gpu", "graphs", "eager"}, "matrix-vector to matrix-matrix"),
    "apple": (("Apple", "Apple GPU"), {"graphs", "cuda", "eager"}, "matrix-vector to matrix-matrix"),
    "nvidia": (("NVIDIA", "Hopper sm90 + Grace"), {"cpu", "hip"}, "CUDA graphs"),
    "amd": (("AMD", "CDNA3 gfx942"), {"cuda", "cpu"}, "HIP graphs"),
    "tpu": (("Google", "TPU"), {"cuda", "hip", "gpu", "cpu"}, "recorded graphs"),
}
"""Vendor and architecture -> words that would be strange, and what a dear first token is put down to."""


@pytest.mark.parametrize("device", DEVICES)
def test_hints_fit_the_device(device: str) -> None:
    (vendor, architecture), strange, entry = DEVICES[device]
    chip = toy_hardware(
        vendor=vendor, architecture=architecture, kernels={"default": toy_kernels(eager_us_per_layer=500.0)}
    )
    late = [measured_row(1, 0, 9.0), measured_row(1, 1, 19.0, al=1.5), measured_row(1, 4, 44.0, al=2.5)]
    dear = [measured_row(1, 0, 3.41), measured_row(1, 1, 8.0, al=1.5), measured_row(1, 4, 10.5, al=2.5)]
    alone = [measured_row(1, 0, 3.41), measured_row(1, 3, 12.0, al=2.0)]
    found = [hinted(rows, chip) for rows in (late, dear, alone)]
    said = " ".join(message for one in found for message in one.values())
    assert not strange & set(re.findall(r"[a-z]+", said.lower())), said
    assert entry in found[1]["entry_fee_high"]
    assert entry in found[2]["speculation_dear"]
    assert "verify_does_not_amortise" in found[0]
    assert ("graphs_off" in found[0]) == (device in ("nvidia", "amd", "tpu"))


def test_shipped_cpus_are_taken_for_cpus() -> None:
    chips = [loaded.record for loaded in shipped().every("hardware")[0]]
    assert {chip.name for chip in chips if device_words(chip).device == "CPU"} == {"epyc-9654", "xeon-8480"}


def test_a_draft_on_many_gpus() -> None:
    rows = [measured_row(1, 0, 3.0), measured_row(1, 1, 5.5, al=1.5), measured_row(1, 4, 12.5, al=2.5)]
    assert "draft_on_many_gpus" in hinted(rows, tp="2")


def test_recurrent_states_suggest_a_replay() -> None:
    delta = {
        "type": "gated_delta",
        "key_heads": 4,
        "value_heads": 4,
        "key_head_dim": 64,
        "value_head_dim": 64,
        "conv_width": 4,
    }
    hybrid = toy_model(
        attention={"full": {"type": "gqa", "heads": 8, "kv_heads": 2, "head_dim": 125}, "delta": delta},
        blocks=[
            {"repeat": 5, "attention": "full", "ffn": "dense"},
            {"repeat": 5, "attention": "delta", "ffn": "dense"},
        ],
        parameters={},
    )
    scenario = scenario_of(hybrid)
    base = ms(predict_s(scenario.step, [measured_row(1, 0, 1.0)]))[0]
    found = hinted(
        [measured_row(1, 0, base), measured_row(1, 1, base + 5, al=1.5), measured_row(1, 4, base + 7.5, al=2.5)], hybrid
    )
    assert "state_replay" in found
    assert "entry_fee_high" not in found


def test_one_draft_length_blames_neither() -> None:
    found = hinted([measured_row(1, 0, 3.41), measured_row(1, 3, 12.0, al=2.0)])
    assert "speculation_dear" in found
    assert not {"entry_fee_high", "draft_pass_slow"} & set(found)


@pytest.mark.parametrize(
    ("fitted", "usual", "message"),
    [
        # (entry, pass) in ms at D = 2, two passes, beside a plain step of 10 ms: from 3 ms on, and from twice the usual
        ((1.2, 0.95), (0.5, 0.5), "costs 3.1 ms beyond the kernels (31% of a plain step; the profiles say 1.5 ms)"),
        ((1.2, 0.85), (0.5, 0.5), None),
        ((1.2, 0.95), (0.6, 0.5), None),
        ((1.2, 0.0), (0.5, 0.5), "costs 3.2 ms"),  # and 0.1 of a plain step for each pass
    ],
)
def test_one_draft_length_tells_of_fee_and_passes_together(
    fitted: tuple[float, float], usual: tuple[float, float], message: str | None
) -> None:
    scenario = scenario_of()
    rows = [measured_row(1, 0, 10.0), measured_row(1, 2, 14.0, al=2.0)]
    fit = calibrate(scenario.step, rows)
    share = 0.1 if not fitted[1] else 0.0
    made = [
        Constants(step_ms=0, per_request_us=0, speculation_ms=entry, draft_pass_ms=each, draft_pass_target_fraction=f)
        for (entry, each), f in ((fitted, share), (usual, 0.0))
    ]
    fit = replace(fit, fitted=made[0], prior=made[1])
    found = {one.code: one.message for one in hints(scenario, fit, plain_split(scenario, fit))}
    assert ("speculation_dear" in found) is (message is not None)
    if message is not None:
        assert message in found["speculation_dear"]


def test_the_steepest_batch_says_what_a_token_costs() -> None:
    # 2.5 ms a token at one request, 3 at eight, whatever was measured between
    rows = [
        *(measured_row(1, d, t, al=2.0) for d, t in ((1, 5.5), (4, 13.0))),
        *(measured_row(8, d, t, al=2.0) for d, t in ((3, 16.0), (1, 10.0), (2, 11.0))),
    ]
    found = hinted([measured_row(1, 0, 4.0), *rows])
    assert "each further draft token costs 3 ms, 75% of a plain step" in found["verify_does_not_amortise"]


def test_a_plain_step_goes_before_a_smaller_batch_that_drafts() -> None:
    scenario = scenario_of()
    fit = calibrate(scenario.step, [measured_row(1, 2, 9.0, al=2.0), measured_row(4, 0, 10.0)])
    split = plain_split(scenario, fit)
    assert (split.batch, split.measured, split.step_s) == (4, True, 0.010)


def test_requests_are_held_against_the_profiles() -> None:
    scenario = scenario_of(engine_of(per_request_us=200.0))
    fit = calibrate(scenario.step, [measured_row(1, 0, 10.0), measured_row(64, 0, 80.0)])
    fit = replace(fit, fitted=msgspec.structs.replace(fit.fitted, per_request_us=1200.0))
    found = {one.code: one.message for one in hints(scenario, fit, plain_split(scenario, fit))}
    assert (
        "each request adds 1000 us to a step beyond the profiles' (64 ms at batch 64)"
        in found["requests_cost_host_time"]
    )


def test_a_busy_host_and_few_accepted_tokens() -> None:
    """1 ms a request; a verify pass of four tokens each costs no more than its FLOPs, so these are not what grows."""
    shapes = [measured_row(b, d, 1.0, al=2.0) for b, d in ((1, 0), (16, 0), (64, 0), (64, 3))]
    computed = ms(predict_s(scenario_of().step, shapes))
    rows = [replace(one, step_s=(t + one.batch) * MS) for one, t in zip(shapes, computed, strict=True)]
    assert "requests_cost_host_time" in hinted(rows)
    low = hinted([measured_row(1, 0, 3.41), measured_row(1, 4, 6.5, al=1.2), measured_row(1, 1, 4.5, al=1.1)])
    assert "AL = 1.10 at D = 1" in low["few_accepted"]
