"""How numbers are written for people, and the sentences that tables and markdown share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Record = dict[str, Any]

BASIS_MARKS = {"measured": "", "interpolated": "~", "extrapolated": "!", "assumed": "?"}
STEP_MARKS = {"computed": "", "calibrated": "", "extrapolated": "^"}
BEYOND = "step past what the calibration measured: extrapolated"
REASONS = {
    "out_of_memory": "out of memory",
    "beyond_draft_window": "context beyond the drafter's training",
    "not_measured": "no acceptance measured",
    "below_limit": "below the limit",
}


def number(value: float | None, digits: int = 4) -> str:
    """Significant digits without an exponent: 0.1234, 12.34, 123,456; whole numbers whole, a dash for the unknown."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    if value == 0:
        return "0"
    size = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    decimals = max(0, digits - size)
    return f"{value:,.{decimals}f}"


def times(value: float | None) -> str:
    """A ratio: 2.25x."""
    return "-" if value is None else f"{value:.2f}x"


def percent(fraction: float) -> str:
    """A fraction as a percentage with one decimal at most."""
    text = f"{100 * fraction:.1f}"
    return f"{text.removesuffix('.0')} %"


def plateau(lengths: Sequence[int]) -> str:
    """Draft lengths as ranges: 3-5, 7."""
    parts: list[list[int]] = []
    for length in lengths:
        if parts and length == parts[-1][-1] + 1:
            parts[-1].append(length)
        else:
            parts.append([length])
    return ", ".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


def several(points: Sequence[Record], key: str) -> bool:
    """Whether the points differ in a key; `none` (speculation off) is no drafter of its own."""
    return len({point[key] for point in points} - {"none"}) > 1


def basis_legend(points: Sequence[Record]) -> str:
    """What the marks beside AL mean, those that occur."""
    used = [
        basis for basis in BASIS_MARKS if basis != "measured" and any(p["acceptance_basis"] == basis for p in points)
    ]
    return ", ".join(f"{BASIS_MARKS[basis]} {basis}" for basis in used)


def step_mark(point: Mapping[str, Any]) -> str:
    """What stands beside a step's time; blank without a calibration."""
    basis = point.get("step_basis")
    return "" if basis is None else STEP_MARKS[basis] or " "


def step_legend(points: Sequence[Record]) -> str | None:
    """What the mark beside a step's time means, where it occurs."""
    marked = any(point.get("step_basis") == "extrapolated" for point in points)
    return f"{STEP_MARKS['extrapolated']} {BEYOND}" if marked else None


def infeasible_lines(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """How many points cannot be, by reason, each with an example."""
    counts = Counter(entry["reason"] for entry in entries)
    if not counts:
        return []
    lines = [f"{len(entries)} infeasible {'point' if len(entries) == 1 else 'points'}, not listed:"]
    for reason, count in counts.most_common():
        first = next(entry for entry in entries if entry["reason"] == reason)
        lines.append(
            f"  {count} {REASONS[reason]}, from batch {first['batch']}, D = {first['draft_length']}: {first['detail']}"
        )
    return lines


def _weights(dtypes: Record) -> str:
    """`bf16`, or `mxfp4 experts, else bf16`: the commonest dtype of the parts, and those that differ."""
    common = max(dtypes.values(), key=list(dtypes.values()).count)
    other = [f"{dtype} {part}" for part, dtype in dtypes.items() if dtype != common]
    return f"{', '.join(other)}, else {common}" if other else str(common)


def scenario_lines(record: Record) -> list[str]:
    """What the figures rest on: the scenario, the acceptance, the band."""
    lines = []
    inputs = record["inputs"]
    kv = inputs["kv_dtype"]["value"]
    for one in record["scenarios"]:
        weights = _weights(one["weight_dtypes"])
        gpus = f"{one['gpus']} x {one['hardware']}" + (f" tp {one['tp']}" if one["gpus"] > 1 else "")
        gpus += f" ep {one['ep']}" if one["ep"] > 1 else ""
        text = f"{one['model']} ({weights}, KV {kv}) on {gpus}, {one['engine']}"
        text += f", {_lengths(one)}"
        if one["drafter"] == "none":
            lines.append(f"{text}; no drafter")
            continue
        if one["acceptance"] is None:
            acceptance = f"acceptance assumed ({_assumed(inputs['acceptance']['value'])})"
        else:
            heat = "" if one["temperature"] is None else f", temperature {one['temperature']:g}"
            acceptance = f"acceptance measured on {one['data_set']}{heat} by {one['acceptance_measured_by']}"
        lines.append(f"{text}; {one['drafter']}, {acceptance}")
    bands = sorted({one["time_band"] for one in record["scenarios"]})
    lines.append(f"step times computed, +-{' or '.join(percent(band) for band in bands)} against a plain step")
    lines += dict.fromkeys(_calibrated(one["calibration"]) for one in record["scenarios"] if one["calibration"])
    prices = {
        one["hardware"]: f"{one['hardware']} {one['price_usd_per_hour']:g} USD (checked {one['price_checked']})"
        for one in record["scenarios"]
        if one["price_usd_per_hour"] is not None
    }
    if prices:
        lines.append(f"an example price for a GPU-hour, {', '.join(prices.values())}")
    defaults = [name for name, entry in inputs.items() if entry["origin"] == "default"]
    if defaults:
        lines.append(f"by default: {', '.join(defaults)}")
    return lines


def _calibrated(own: Record) -> str:
    batches = f"{own['batch_from']:g}"
    if own["batch_to"] != own["batch_from"]:
        batches += f" to {own['batch_to']:g}"
    return (
        f"calibrated with {own['name']}: +-{percent(own['time_band'])} where it was measured "
        f"(batch {batches}, D up to {own['longest_draft']})"
    )


def _lengths(scenario: Record) -> str:
    """Context, or the prompts and answers that it follows from."""
    context = f"{scenario['context_tokens']:,} tokens of context"
    if scenario["input_tokens"] is None:
        return context
    return (
        f"prompts of {scenario['input_tokens']:,} and answers of {scenario['output_tokens']:,} tokens "
        f"({context} on average)"
    )


def _assumed(value: Any) -> str:
    if isinstance(value, dict) and "constant_conditional_rate" in value:
        return f"each token {value['constant_conditional_rate']:g} likely where all before it were accepted"
    if isinstance(value, dict) and "acceptance_length" in value:
        return ", ".join(f"AL {al:g} at D = {length}" for length, al in value["acceptance_length"].items())
    if isinstance(value, dict) and "typical" in value:
        curves = [
            f"{mechanism} {', '.join(f'AL {al:.2f} at D = {length}' for length, al in lengths.items())}"
            for mechanism, lengths in value["typical"].items()
        ]
        return f"the median of measured pairs, {'; '.join(curves)}"
    return str(value)


def answer_sentence(record: Record) -> str:
    """The recommendation in a sentence."""
    choice, inputs = record["choice"], record["inputs"]
    if choice is None:
        if record["pays_from_batch"] is None:
            return f"Speculation does not pay at any batch up to {record['swept_batches'][1]}."
        return f"Speculation pays from batch {record['pays_from_batch']} to {record['pays_to_batch']}."
    serving = "serving_speedup" in choice
    at = f"At {'concurrency' if serving else 'batch'} {choice['batch']}"
    where = [str(choice[key]) for key in ("hardware",) if len(inputs[key]["value"]) > 1]
    where += [f"tp {choice['tp']}"] if len(inputs["tp"]["value"]) > 1 else []
    place = f" on {', '.join(where)}" if where else ""
    if not choice["speculate"]:
        return f"{at}{place}: speculation off ({record['off_because']})."
    band = f"{choice['speedup_low']:.2f}-{choice['speedup_high']:.2f}"
    equal = f"; D = {plateau(record['plateau'])} are equally good" if len(record["plateau"]) > 1 else ""
    gain = f"{choice['speedup']:.2f}x as fast as without speculation (band {band})"
    if serving:
        gain = f"decode steps {gain}, {choice['serving_speedup']:.2f}x with prefill between them"
    return f"{at}{place}: draft length {choice['draft_length']} with {choice['drafter']}, {gain}{equal}."


def guideline_reasons(rules: Sequence[Record]) -> list[str]:
    """Why each guideline says what it says; a reason that an earlier one gave word for word points there."""
    first: dict[str, str] = {}
    return [
        f"As for {first[rule['why']]}." if first.setdefault(rule["why"], rule["id"]) != rule["id"] else rule["why"]
        for rule in rules
    ]


def working_lines(rule: Record) -> list[tuple[str, str]]:
    """Every number of a guideline by its name, lists joined."""

    def said(value: Any) -> str:
        if isinstance(value, list):
            return "; ".join(said(item) for item in value) or "-"  # names hold commas
        return "-" if value is None else number(value) if isinstance(value, int | float) else str(value)

    return [(name, said(value)) for name, value in rule["numbers"].items()]


def guideline_head(rule: Record) -> str:
    """A guideline's name and verdict."""
    return f"{rule['id']} {rule['verdict'].replace('_', ' ')}: {rule['title']}"


SERVING_LEGEND = (
    "batch is the concurrency: requests in flight on a replica, of which `decode batch` decode at once. Decode "
    "speedup, tokens/s/user, tokens/s/GPU and the frontier are those of the steps alone; serving figures hold the "
    "prefill that comes between them, their speedup at equal concurrency"
)


def serving_points(points: Sequence[Record]) -> bool:
    """Whether the points carry serving figures."""
    return bool(points) and "serving_tpot_ms" in points[0]


def serving_sentence(choice: Record) -> str:
    """What the replica gives with prefill between the steps."""
    return (
        f"TPOT {number(choice['serving_tpot_ms'])} ms, "
        f"{number(choice['serving_throughput_tokens_per_s_per_gpu'])} tokens/s/GPU, "
        f"{choice['serving_speedup']:.2f}x as fast as without speculation at equal concurrency "
        f"({number(choice['decode_batch'])} of {choice['batch']:,} requests decode at once)"
    )


def users_sentence(record: Record) -> str | None:
    """How many users get the floor interactivity, per replica and per GPU; None: no floor was asked for."""
    served, choice = record["users_per_replica"], record["choice"]
    if served is None:
        return None
    floor = f"{record['users_floor_tokens_per_s_per_user']:,.4g} tokens/s each"
    most = "at least " if record["users_at_least"] else "up to "
    said = f"{floor} for {most}{served:,} a replica, {_whole(record['users_per_gpu'])} a GPU"
    if choice["speculate"]:
        without = record["users_per_replica_without"]
        said += f" ({without:,} a replica, {_whole(record['users_per_gpu_without'])} a GPU without speculation)"
    return said


def _whole(value: float) -> str:
    """Two decimals at most, and none where there are none."""
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def cost_sentence(choice: Record) -> str | None:
    """What a million output tokens cost; None: the chip has no price."""
    cost = choice.get("cost_usd_per_million_tokens")
    if cost is None:
        return None
    without = f" ({number(cost * choice['speedup'], 3)} without)" if choice["speculate"] else ""
    said = f"{number(cost, 3)} USD for a million output tokens{without}"
    serving = choice.get("serving_cost_usd_per_million_tokens")
    return said if serving is None else f"{said}, {number(serving, 3)} with prefill between the steps"


def schedule_sentence(record: Record) -> str:
    """Why the schedule may hold another draft length than the choice at the same batch."""
    tie = percent(record["inputs"]["tie"]["value"])
    last, asked = record["schedule"][-1]["batch_to"], record["swept_batches"][1]
    end = f" From batch {last + 1} on not even plain decoding fits in memory." if last < asked else ""
    return (
        f"A range keeps its D while that stays within the tie ({tie}) of the best; at a single batch the choice may be "
        f"another of the equally good.{end}"
    )


def contexts_sentence(record: Record) -> str:
    """At which context the settings to paste hold."""
    context = record["scenarios"][0]["context_tokens"]
    unknown = ""
    if not all(one["acceptance_known"] for one in record["schedule_by_context"]):
        unknown = " Unknown: acceptance was not measured at that context; --assume takes over what was."
    return (
        f"Each column is computed at its longest context.{unknown} Engines take a schedule by batch alone: the choice, "
        f"the schedule by batch and the settings to paste are those of {context:,} tokens."
    )


def uplift_sentence(record: Record) -> str | None:
    """Why the gain at equal interactivity can exceed AL; None: it does not here."""
    speculating = [point["acceptance_length"] for point in record["points"] if point["draft_length"]]
    both = [row for row in record["uplift"] if row["uplift"] is not None]
    most = max(both, key=lambda row: row["uplift"], default=None)
    if most is None or not speculating or most["uplift"] <= max(speculating):
        return None
    return (
        f"The gain exceeds AL (at most {max(speculating):.2f} here) because the batch differs too: at "
        f"{most['interactivity_tokens_per_s_per_user']:,g} tokens/s/user speculation leaves room for "
        f"{number(most['users_per_gpu_with'], 3)} users on a GPU instead of "
        f"{number(most['users_per_gpu_without'], 3)}, and a larger batch shares each read of the weights."
    )


def runner_up_sentence(record: Record) -> str | None:
    """The best of the rest and the margin."""
    second = record["runner_up"]
    if second is None:
        return None
    what = "off" if not second["draft_length"] else f"D = {second['draft_length']}"
    if record["choice"] is not None:
        if second["draft_length"] and second["drafter"] != record["choice"]["drafter"]:
            what += f" with {second['drafter']}"
        if second["batch"] != record["choice"]["batch"]:
            what += f" at batch {second['batch']}"
    margin = second["margin"]
    side = "behind" if margin >= 0 else "ahead"
    tie = ", within the tie: the shorter draft is taken" if second["within_tie"] and margin < 0 else ""
    if margin < 0 and record["choice"] is not None and not record["choice"]["draft_length"]:
        tie = f", less than the {percent(record['inputs']['min_gain']['value'])} that drafting must gain"
    return f"{what}, {percent(abs(margin))} {side} in {second['maximised']}{tie}"


def pays_sentence(record: Record) -> str:
    """Between which batches it pays."""
    last = record["swept_batches"][1]
    if record["pays_from_batch"] is None:
        return f"at no batch up to {last}"
    return f"from batch {record['pays_from_batch']} to {record['pays_to_batch']} (of 1 to {last})"


def step_sentence(split: Record, point: Record) -> str:
    """The step and the three parts that add up to it, each with its share; said where it is extrapolated."""
    parts = (("target", "target"), ("verifying adds", "verify_adds"), ("drafting", "draft"))
    said = [f"{word} {number(split[f'{key}_ms'])} ({percent(split[f'{key}_share'])})" for word, key in parts]
    beyond = "; extrapolated, past what the calibration measured" if point.get("step_basis") == "extrapolated" else ""
    return f"{number(split['step_ms'])} ms = {' + '.join(said)}{beyond}"


def own_settings(record: Record) -> list[Record]:
    """What to paste into the engine that the answer was computed for; empty where no settings for it are known."""
    families = dict.fromkeys(one["engine_family"] for one in record["scenarios"])
    return [record["engine_settings"][family] for family in families if family in record["engine_settings"]]


def settings_lines(settings: Record) -> list[str]:
    """The text to paste, then the files that it names."""
    lines: list[str] = settings["text"].splitlines()
    for name, content in settings["files"].items():
        if content != settings["text"]:
            lines += ["", f"# {name}", *content.splitlines()]
    return lines
