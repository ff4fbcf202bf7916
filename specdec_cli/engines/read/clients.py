"""Load generators and collections that know no engine: GuideLLM, InferenceX aggregates, InferenceX golden AL tables.

GuideLLM (src/guidellm/benchmark/schemas): `inter_token_latency_ms` = (last - first) / (n - 1), so the step is that
times AL; tokens in an iteration are about AL where a chunk is a step. InferenceX (utils/process_result.py): times in
seconds, `*_intvty` tokens/s/user; D and AL are not in it. Golden tables: model -> thinking -> D -> AL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from specdec_cli.engines.read.json_objects import MOST, Entry, mean_of, number, objects_in, text_of
from specdec_cli.engines.read.pool import MOST_DRAFTED
from specdec_cli.errors import ProfileError
from specdec_cli.profiles.measured_run import MeasuredRun

GUIDELLM, INFERENCEX, GOLDEN = "guidellm", "inferencex", "inferencex-golden"

GOLDEN_LETTERS = 256_000  # a table of numbers by hand; the safe reader of YAML takes a second for so many

# A server that streams a token a chunk shows 1.00 whatever it accepts: below this it says nothing about AL.
CHUNKS_SAY = 1.05
OFF_CHUNK_RATIO = 1.15


def read_guidellm(file: str, entries: Sequence[Entry]) -> list[MeasuredRun]:
    """One run for each benchmark of a report."""
    return [_guidellm(file, line, one) for line, data in entries for one in objects_in(data.get("benchmarks"))]


def _guidellm(file: str, line: int, benchmark: dict[str, Any]) -> MeasuredRun:
    metrics = benchmark.get("metrics")
    metrics = metrics if isinstance(metrics, Mapping) else {}

    def mean(*names: str) -> float | None:
        for name in names:
            parts = metrics.get(name)
            if isinstance(parts, Mapping):
                value = mean_of(parts.get("successful"), "mean")
                if value is not None:
                    return value
        return None

    config = benchmark.get("config")
    strategy = config.get("strategy") if isinstance(config, Mapping) else None
    strategy = strategy if isinstance(strategy, Mapping) else {}
    tokens = mean("iter_tokens_per_iteration", "output_tokens_per_iteration")
    length = tokens if tokens is not None and tokens >= CHUNKS_SAY else None
    latency = mean("inter_token_latency_ms")
    prompt, answer = mean("prompt_token_count"), mean("output_token_count")
    run = MeasuredRun(
        file=file,
        format=GUIDELLM,
        first_line=line,
        label=" ".join(str(strategy[key]) for key in ("type_", "streams", "rate") if strategy.get(key) is not None),
        batch=number(strategy, "streams") or mean("request_concurrency"),
        acceptance_length=length,
        step_s=latency * length / 1e3 if latency and length else None,
        step_basis="inter-token latency x tokens in a chunk",
        output_tokens_per_s=mean("output_tokens_per_second"),
        context_tokens=prompt + answer / 2 if prompt is not None and answer is not None else None,
    )
    if length is not None:
        return run.found("chunks_counted", "AL taken as tokens in a streamed chunk: true where a chunk is a step")
    return run.found("speculation_not_stated", "GuideLLM does not record speculation, and chunks held one token")


def read_inferencex(file: str, entries: Sequence[Entry]) -> list[MeasuredRun]:
    """One run an object: operating points, no acceptance.

    Raises ProfileError for a point without speculation whose chunks hold several tokens.
    """
    runs = []
    for line, data in entries:
        off = (text_of(data, "spec_decoding") or "").casefold() in ("none", "false", "off")
        itl, tpot = number(data, "mean_itl"), number(data, "mean_tpot")
        taken, given = number(data, "isl"), number(data, "osl")
        gpus = (number(data, "tp") or 1) * (number(data, "pp") or 1) * (number(data, "pcp_size") or 1)
        per_gpu = number(data, "output_tput_per_gpu")
        run = MeasuredRun(
            file=file,
            format=INFERENCEX,
            engine=_family(data),
            first_line=line,
            label=" ".join(str(data[key]) for key in ("hw", "precision", "spec_decoding") if data.get(key)),
            model=text_of(data, "model"),
            batch=number(data, "conc"),
            draft_length=0 if off else None,
            acceptance_length=1.0 if off else None,
            step_s=tpot if off else None,
            step_basis="mean time per output token; prompts of other requests are in it",
            output_tokens_per_s=per_gpu * gpus if per_gpu and not data.get("is_multinode") else None,
            context_tokens=taken + given / 2 if taken is not None and given is not None else None,
        )
        if off and itl and tpot and itl > OFF_CHUNK_RATIO * tpot:
            raise run.refused(
                f"spec_decoding is none, but a chunk held {itl / tpot:.2f} tokens: it drafted",
                "a base needs speculation off; or the server streams several tokens a chunk",
            )
        if not off:
            run = run.found("no_acceptance", "InferenceX aggregates hold neither D nor AL; its golden tables do")
        runs.append(run)
    return runs


def _family(data: Mapping[str, Any]) -> str | None:
    framework = (text_of(data, "framework") or "").casefold()
    for word, family in (("sglang", "sglang"), ("trt", "tensorrt-llm"), ("vllm", "vllm")):
        if word in framework:
            return family
    return None


class _WithoutAliases(yaml.SafeLoader):
    """A few aliases can stand for billions of nodes; tables of numbers need none."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(parent, index)


def read_golden(file: str, text: str) -> list[MeasuredRun]:
    """Golden tables: one run for each draft length of each model and thinking mode.

    Raises ProfileError where it is not such a table.
    """
    if len(text) > GOLDEN_LETTERS:
        raise ProfileError(f"expected a table of at most {GOLDEN_LETTERS:,} letters, found {len(text):,}", file=file)
    try:
        data = yaml.load(text, Loader=_WithoutAliases)  # noqa: TID251  (a SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else None
        raise ProfileError("not readable as YAML", file=file, line=line) from None
    runs = []
    for path, table in _tables(data, ()):
        for length, value in table:
            if not 1 <= value <= MOST_DRAFTED or not 1 <= length <= MOST_DRAFTED:
                raise ProfileError(f"D = {length} with AL = {value:g}", file=file, key=" ".join(path))
            runs.append(
                MeasuredRun(
                    file=file,
                    format=GOLDEN,
                    label=" ".join(path),
                    workload=" ".join(path[1:]) or None,
                    model=path[0] if path else None,
                    draft_length=length,
                    acceptance_length=value,
                )
            )
    if not runs:
        raise ProfileError("no table of draft length -> AL", file=file)
    return runs


def _tables(data: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], list[tuple[int, float]]]]:
    if isinstance(data, Mapping):
        rows = [(int(key), float(value)) for key, value in data.items() if _is_row(key, value)]
        if rows:
            yield path, rows
        for key, value in data.items():
            if isinstance(value, Mapping | list):
                yield from _tables(value, (*path, str(key)))
    elif isinstance(data, list) and data and all(_is_row(0, value) for value in data):
        yield path, [(index + 1, float(value)) for index, value in enumerate(data)]


def _is_row(key: object, value: object) -> bool:
    whole = isinstance(key, int) or (isinstance(key, str) and re.fullmatch(r"[0-9]{1,15}", key))
    return bool(whole) and isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= MOST
