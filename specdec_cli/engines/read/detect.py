"""Which format a file has, from what is in it."""

from __future__ import annotations

import re
from typing import Any

from specdec_cli.engines.read import (
    clients,
    llama_bench,
    llama_log,
    prometheus,
    sglang_columns,
    sglang_json,
    sglang_log,
    texts,
    traces,
    trtllm_report,
    vllm_json,
    vllm_lines,
    vllm_log,
)
from specdec_cli.engines.read.source import Source

FORMATS: dict[str, str] = {
    vllm_log.FORMAT: "vLLM server log",
    sglang_log.FORMAT: "SGLang server log",
    llama_log.FORMAT: "llama.cpp server log",
    prometheus.FORMAT: "Prometheus scrape (vLLM, SGLang, TensorRT-LLM, MAX Serve, llama.cpp)",
    vllm_json.REQUEST: "vLLM responses with speculation metrics",
    vllm_json.SERVE: "vllm bench serve --save-result",
    texts.OFFLINE: "vLLM's offline example",
    sglang_json.SPECULATIVE: "SGLang bench_speculative",
    sglang_json.SERVING: "SGLang bench_serving",
    sglang_json.ONE_BATCH: "SGLang bench_one_batch, bench_one_batch_server",
    sglang_json.SPECFORGE: "SpecForge bench_eagle3",
    trtllm_report.FORMAT: "trtllm-bench report",
    llama_bench.TIMINGS: "llama.cpp answers with timings",
    texts.SPECULATIVE: "llama-speculative output",
    llama_bench.BENCH: "llama-bench (json, jsonl, csv, md)",
    llama_bench.BATCHED: "llama-batched-bench (jsonl, md)",
    clients.GUIDELLM: "GuideLLM report",
    clients.INFERENCEX: "InferenceX aggregate",
    clients.GOLDEN: "InferenceX golden acceptance lengths (YAML)",
    traces.FORMAT: "per-step acceptance traces",
}
"""What `--from` takes."""

JSON_FORMATS = frozenset(
    {
        *(vllm_json.REQUEST, vllm_json.SERVE, sglang_json.SPECULATIVE, sglang_json.SERVING, sglang_json.ONE_BATCH),
        *(sglang_json.SPECFORGE, trtllm_report.FORMAT, llama_bench.TIMINGS, llama_bench.BENCH, llama_bench.BATCHED),
        *(clients.GUIDELLM, clients.INFERENCEX, traces.FORMAT),
    }
)

_LOGS: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    (vllm_log.FORMAT, (vllm_lines.SPEC, vllm_lines.LEGACY, vllm_lines.LOAD)),
    (sglang_log.FORMAT, (sglang_columns.DECODE,)),
    (llama_log.FORMAT, (llama_log.DRAFT, b"print_timing", b"prompt eval time =")),
)
_SCRAPE = re.compile(rb"^(?:# (?:HELP|TYPE) \S+|(?:vllm:|sglang:|trtllm_|maxserve)[\w:]+(?:\{[^}]*\})? \S+)", re.M)
_GOLDEN = re.compile(rb"^[ \t]+['\"]?\d+['\"]?:[ \t]*\d+(?:\.\d+)?[ \t]*(?:#.*)?$|^[ \t]+-[ \t]*\d+\.\d+[ \t]*$", re.M)
_JSON = re.compile(rb"\s*(?:\{|\[\s*[\[{])")  # not the `[2026-09-01 ...` of a log
_CONTAINER_KEYS = ("log", "message", "MESSAGE", "msg")


def of_head(head: bytes) -> str | None:
    """The format that the first block shows; None: JSON (told object by object), or nothing known yet."""
    text = head.lstrip()
    if looks_like_json(text):
        # A container's log driver wraps each line in an object.
        wrapped = any(b'"%s":' % key.encode() in text[:4096] for key in _CONTAINER_KEYS)
        return of_log(head) if wrapped and text[:1] == b"{" else None
    if _SCRAPE.match(text):
        return prometheus.FORMAT
    if b"acceptance at token" in head or (b"num_drafts:" in head and b"num_accepted_tokens:" in head):
        return texts.OFFLINE
    if b"n_drafted" in head and b"n_accept" in head:
        return texts.SPECULATIVE
    if b"n_gen" in text[:2000] and b"avg_ts" in text[:2000] and b"," in text[:200]:
        return llama_bench.BENCH
    if b"T_TG s" in head and re.search(rb"^[ \t]*\|.*\bT_TG s[ \t]*\|", head, re.M):
        return llama_bench.BATCHED
    if b"t/s" in head and re.search(rb"^[ \t]*\|.*\btest[ \t]*\|[ \t]*t/s[ \t]*\|", head, re.M):
        return llama_bench.BENCH
    found = of_log(head)
    if found is None and _GOLDEN.search(head) and b":" in head[:2000]:
        return clients.GOLDEN
    return found


def of_log(block: bytes) -> str | None:
    """The server whose marker comes first in a block."""
    places = [(at, name) for name, markers in _LOGS for marker in markers if (at := block.find(marker)) >= 0]
    return min(places)[1] if places else None


def looks_like_json(head: bytes) -> bool:
    """Whether the file begins as JSON."""
    return _JSON.match(head) is not None


def further_down(source: Source) -> str | None:
    """The server whose marker stands somewhere below the first block; the source is then ready to be read."""
    for block in source.blocks():
        found = of_log(block)
        if found is not None:
            if not source.rewind():
                source.put_back(block)
            return found
    return None


def of_object(data: dict[str, Any]) -> str | None:
    """The format that a JSON object has."""
    keys = data.keys()
    rules: tuple[tuple[str, bool], ...] = (
        (clients.GUIDELLM, {"metadata", "benchmarks"} <= keys),
        (trtllm_report.FORMAT, "decoding_stats" in keys or {"engine", "performance", "request_info"} <= keys),
        (llama_bench.TIMINGS, llama_bench.timings_of(data) is not None),
        (llama_bench.BATCHED, {"pl", "t_tg"} <= keys),
        (llama_bench.BENCH, {"n_prompt", "n_gen"} <= keys and bool({"avg_ts", "avg_ns"} & keys)),
        (clients.INFERENCEX, {"spec_decoding", "conc"} <= keys),
        (vllm_json.REQUEST, vllm_json.speculation_of(data) is not None),
        (sglang_json.SPECULATIVE, {"steps", "acc_length", "step_time"} <= keys),
        (sglang_json.ONE_BATCH, "median_decode_latency" in keys or {"batch_size", "latency", "acc_length"} <= keys),
        (traces.FORMAT, traces.is_trace(data)),
        (sglang_json.SERVING, "accept_length" in keys and "duration" in keys),
        (vllm_json.SERVE, "duration" in keys and bool({"endpoint_type", "tokenizer_id", "mean_itl_ms"} & keys)),
        (vllm_json.SERVE, any(key.startswith("spec_decode_") for key in keys)),
        (sglang_json.SPECFORGE, sglang_json.is_specforge(data)),
    )
    return next((name for name, holds in rules if holds), None)
