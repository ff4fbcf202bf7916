"""Three simpler predictors of a round, to show beside the model's errors: what its physics are worth.

Each says rho = T_step / T_target; only the roofline also says the base step itself.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from specdec_cli.physics.roofline import Floats
from specdec_cli.physics.step import StepModel, pass_lower_bound_s

Predictor = Literal["model", "verify_free", "datasheet_roofline", "constant_cost"]

BASELINES: dict[Predictor, str] = {
    "verify_free": "a round costs a plain step: rho = 1, so the speedup is AL",
    "datasheet_roofline": "max(F/P, Q/beta) of every operation at the datasheet's figures, drafts alike, no floors",
    "constant_cost": "each draft token costs 0.14 of a plain step: rho = 1 + 0.14 D",
}

# The constant that loses least speed on published sweeps where one cost for each draft token must serve all of them
# (7 % on average; 0.08 loses 8 %).
COST_OF_A_DRAFT_TOKEN = 0.14


def verify_free(draft_lengths: Floats) -> Floats:
    """rho = 1 whatever D."""
    return np.ones_like(draft_lengths)


def constant_cost(draft_lengths: Floats) -> Floats:
    """rho = 1 + 0.14 D."""
    return 1.0 + COST_OF_A_DRAFT_TOKEN * draft_lengths


def roofline_s(
    step: StepModel, batches: Floats, draft_lengths: Floats, widths: Floats, lengths: Floats, context: Floats
) -> tuple[Floats, Floats, Floats]:
    """(base, verify, draft) at the datasheet's peaks, s; arguments as of `StepModel.times`."""
    base = pass_lower_bound_s(step.target, step.shape(batches, np.ones_like(widths), context), step.chip)
    verify = pass_lower_bound_s(step.target, step.shape(batches, widths, context), step.chip)
    draft = np.zeros_like(verify)
    if step.plan is not None and not step.plan.lookup:
        for phase in step.draft_phases(step.plan, batches, draft_lengths, widths, lengths, context):
            draft = draft + pass_lower_bound_s(phase.operations, phase.shape, step.chip) * phase.repeats
    return base, verify, np.where(draft_lengths > 0, draft, 0.0)
