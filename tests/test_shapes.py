"""The shapes that measurements show, whatever the exact figures: where speculation falls, rises and turns."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

from toys import shipped

from specdec_cli.explore.scenario import Options, resolve
from specdec_cli.explore.sweep import run_sweep
from specdec_cli.explore.validate_points import recreate


def speedups(draft_length: int, **options: Any) -> dict[int, float]:
    """Batch -> speedup at one draft length."""
    sweep = run_sweep(resolve(shipped(), Options(draft_lengths=f"0,{draft_length}", **options)))
    points = sweep.points
    picked = points.draft_length == draft_length
    return dict(zip(points.batch[picked].tolist(), points.speedup[picked].tolist(), strict=True))


def test_a_dense_8b_with_long_drafts_falls_through_one_as_the_batch_grows() -> None:
    found = speedups(8, context=256, batches="1,8,32,64,128,256,512", acceptance_rate=0.6)
    assert found[1] > 1.3
    assert found[512] < 0.8
    assert all(later <= earlier for earlier, later in pairwise(found.values()))


def test_a_sparse_mixture_dips_rises_to_a_peak_and_falls() -> None:
    """Draft tokens bring new experts at B = 2 to 8; once all are read verification is nearly free, until compute."""
    asked = {"model": "qwen3-30b-a3b", "drafter": "qwen3-30b-a3b-eagle3", "tp": "2", "context": 512}
    found = speedups(3, batches="1..1024:x2", acceptance_rate=0.6, **asked)
    peak = max(found, key=lambda batch: found[batch])
    assert min(found[2], found[4]) < found[1]
    assert 16 <= peak <= 256
    assert found[peak] > 1.2 * found[4]
    assert found[1024] < found[peak]


def test_long_context_turns_a_loss_that_grows_into_a_gain_that_grows() -> None:
    """MagicDec: a draft with a bounded KV window gains with the batch where the cache is what a step reads."""
    by_context: dict[tuple[str, int], list[tuple[float, float, float]]] = defaultdict(list)
    for point in recreate(shipped(), shipped().measurement("magicdec").record):
        predicted = point.predicted["model"].speedup
        if point.measured.speedup is not None and predicted is not None:
            by_context[point.setup, point.context].append((point.batch, point.measured.speedup, predicted))
    trends = {}
    for key, rows in by_context.items():
        rows.sort()
        trends[key] = (rows[-1][1] / rows[0][1] - 1, rows[-1][2] / rows[0][2] - 1)
    long = {key: trend for key, trend in trends.items() if key[1] >= 8000 and abs(trend[0]) > 0.05}
    assert len(long) >= 7
    assert all(measured > 0 and computed > 0 for measured, computed in long.values()), long
    for setup in {key[0] for key in trends}:
        shortest = min(context for name, context in trends if name == setup)
        assert trends[setup, shortest][1] < trends[setup, 8000][1], setup
