"""What a new profile looks like before it is filled in: every key with its unit, the required ones left empty.

An empty required key is an error of `specdec profiles check`, which so leads through the file. Optional keys stand
behind a `#`: take it away to use one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specdec_cli.errors import UsageError
from specdec_cli.profiles.load import Loaded
from specdec_cli.profiles.schema import Hardware
from specdec_cli.profiles.writer import flow

_HEAD = """\
# A profile of kind {kind}. Fill what is marked `required`, then run `specdec profiles check {name}.yaml`.
# Used from the folder of `--profiles DIR`, from $SPECDEC_PROFILES, or as `--{option} {name}.yaml`.
format: 1
kind: {kind}
name: {name}  # equal to the file's name
"""

_SOURCES = """\
# notes: []  # what a reader should know beside the numbers

sources:  # a source for every number: a key above, or a prefix of keys such as {prefix}; "*" stands for all others
  "*":
    from:  # required; document, repository at a commit, or how it was computed
    checked: "{today}"  # the day on which you looked
    kind:  # required; datasheet, published, measured, fitted, derived or assumed
    # note: ""
"""

_HARDWARE = """\
title:  # required; as a person would call it, NVIDIA H100 SXM5 80 GB
vendor:  # required
architecture:  # required; Hopper sm90

memory_gb:  # required; GB, the label on the box
memory_bytes:  # required; bytes that a program sees (80 GiB: 85899345920.0)
memory_bandwidth_gb_per_s:  # required; GB/s, 1e9 bytes
peak_tflops:  # 1e12 FLOP/s, dense: half of a figure that is printed with sparsity. Remove a dtype that the chip lacks
  bf16:  # required; with fp32 accumulation, half of the headline on GeForce
  fp8:  # required where kernels below compute in fp8
  # int8: 0.0  # TOPS
  # fp4: 0.0
# sm_count: 0  # SMs or compute units
# l2_mb: 0.0  # MB of the last cache before memory
# attention_tile: 128  # rows of a full attention tile
link:  # the scale-up fabric between the GPUs of one replica
  technology:  # required; NVLink4, PCIe5 x16, xGMI
  gb_per_s:  # required; GB/s per direction, all links of a GPU together: half of NVLink's headline
  peer_gb_per_s:  # required; GB/s per direction to one peer: the same behind a switch, less in a mesh
  domain_gpus:  # required; GPUs that the fabric joins, 1 for none
fitted: false  # true once the kernels below were fitted to measured tables of this chip
confidence: medium  # high, medium or low
# default_engine: vllm  # the engine that usually drives it, where the default of all does not run on it
# price_usd_per_hour: 0.0  # an example
# price_checked: "{today}"

# What kernels reach of the peaks above: here as {donor} does, until you measure. Entries named after an engine
# (vllm, sglang ...) override `default` key by key. eta_*: achieved fractions; tau_*, floor_*: microseconds.
kernels:
  default:
{kernels}
"""

_HARDWARE_SOURCES = """\
  kernels:
    from: taken over from {donor}, not measured on this chip
    checked: "{today}"
    kind: assumed
"""

_MODEL = """\
# A model with a config.json on Hugging Face needs no hand: `specdec profiles import config.json`.
title:  # required
maker:  # required
aliases: []  # full ids: [meta-llama/Llama-3.1-8B-Instruct]
# quantised_from: llama-3.1-8b  # the model profile that this checkpoint is a quantised copy of
hidden:  # required; width of the residual stream
vocabulary:  # required; tokens, padding included
tied_embeddings:  # required; true or false: whether embedding and lm_head are one matrix
# residual_streams: 4  # hidden states side by side, where hyper-connections mix them
max_context:  # required; tokens

attention:  # one entry for each kind of layer; the names are yours
  full:
    type: gqa  # gqa, mla, compressed, gated_delta or mamba2; `specdec profiles schema model` lists their keys
    heads:  # required; query heads
    kv_heads:  # required; KV heads: 1 is multi-query, `heads` multi-head
    head_dim:  # required; width of a head
    # window: 4096  # tokens, where the layer sees no more
    # bias: true  # on q, k and v
ffn:
  dense:
    type: dense
    intermediate:  # required; width inside
    # matrices: 2  # 3 with a gate (the default), 2 without
  # moe: {{type: moe, experts: 128, top_k: 8, intermediate: 768, shared_intermediate: 0}}
blocks:  # layers alike together: their order does not change the cost
  - repeat:  # required; layers
    attention: full
    ffn: dense
# mtp: {{layers: 1, attention: full, ffn: dense}}  # native multi-token prediction

dtypes:
  weights:  # required; bf16, fp8, fp8_block, int8, int4, mxfp4, nvfp4, q8_0, q6_k, q5_k, q4_k ...
  # experts: mxfp4  # also attention, ffn, lm_head, mtp: parts of another dtype
  kv: bf16  # of the KV cache
parameters:  # to check the counts against that follow from the sizes
  published_total:  # required; as its maker prints it: 8B
  # total_b: 8.03  # 1e9, exact: embedding, layers, head; no MTP, no vision
  # published_active: 3B
# assumptions: []
"""

_DRAFTER = """\
# A head with a config.json needs no hand: `specdec profiles import config.json --kind drafter --target MODEL`.
title:  # required
mechanism: eagle3  # eagle, eagle3, mtp, draft_model, dflash, dspark, p_eagle, pard, medusa, self, ngram, suffix
targets:  # required; [model profiles that it drafts for]; [] for ngram and suffix
aliases: []  # full ids
default: false  # true: `--drafter eagle3` means this one where a target has several
# model: llama-3.2-1b  # draft_model alone: the model profile that drafts (no head then)
head:  # its own layers; mtp has them in the target, draft_model, self, ngram and suffix have none: remove it there
  layers:  # required
  hidden:  # required; width, as the target's
  intermediate:  # required; width inside the feed-forward block, not always the target's
  heads:  # required
  kv_heads:  # required
  head_dim:  # required
  attention_input:  # required; width that q, k, v of the first layer read: hidden, but 2 x that for eagle3, p_eagle
  fc_in: 0  # input width of the fusion layer: 3 x hidden for eagle3, 2 x hidden for eagle, 0 for none
  # fc_every_pass: true  # eagle: the fusion runs in each pass
  draft_vocabulary:  # required; tokens that it can draft: often 32000
  own_lm_head:  # required; false: it reads the target's head
  # mlp_matrices: 3
  # markov_rank: 256  # dspark
  # parallel_heads: 5  # medusa
  # ffn: {{type: moe, experts: 8, top_k: 2, intermediate: 1024}}
weight_dtype: bf16
# largest_tp: 4  # GPUs that drafting is spread over at most, where fewer than the target's
# block: 16  # dflash, dspark: tokens of the trained block
# window_tokens: 2048  # context that it was trained on: acceptance past it is unknown
# kv_window_tokens: 512  # its own sliding window; self: the bounded window that drafting reads
# parameters_m: 0.0  # 1e6, to check the count against that follows from the sizes
# training: ""  # its cost, as published
"""

_ACCEPTANCE = """\
# From an engine's logs or metrics: `specdec acceptance FILE` writes such a profile.
title: ""
target:  # required; a model profile
drafter:  # required; a drafter profile
# draft_checkpoint: maker/name  # the checkpoint measured, where the drafter's profile stands for several
data_set:  # required; the prompts: MT-Bench, your own traffic of a day
# temperature: 0.0
# thinking: "off"  # or "on", in quotes
measured_by:  # required
# engine: vllm  # and its version
default: false  # true: this pair's acceptance where none is named
points:  # one for each draft length measured
  - draft_length:  # required; D, tokens drafted per step
    acceptance_length:  # required unless per_position is given; tokens per step with the bonus token, 1 to 1 + D
    # per_position: [0.7, 0.5]  # a_i: share of steps in which positions 1..i were all accepted
    # per_position_kind: measured  # or derived
    # context_tokens: 2048
    # verify_width: 8  # verified nodes, for a tree; a chain has 1 + D
    # iterations: 10000  # steps counted
"""

_BODIES = {"hardware": _HARDWARE, "model": _MODEL, "drafter": _DRAFTER, "acceptance": _ACCEPTANCE}
_PREFIXES = {"hardware": "link", "model": "attention", "drafter": "head", "acceptance": "points"}

KINDS = tuple(_BODIES)
DONOR = "h100-sxm"
"""Whose kernel figures a new chip starts with, where none is named: the chip with the most measurements."""


def skeleton(kind: str, name: str, *, today: str, donor: Loaded[Hardware] | None = None) -> str:
    """The text of a new profile file; `donor` is the chip whose kernel figures a new chip starts with.

    Raises UsageError for a kind that is not written by hand.
    """
    if kind not in _BODIES:
        hint = {
            "engine": "copy the engine nearest to yours",
            "measurement": "copy one of profiles/measurements",
            "calibration": "`specdec calibrate FILE... -o NAME.yaml` writes one",
        }.get(kind, f"kinds: {', '.join(KINDS)}")
        raise UsageError(f"no skeleton for kind {kind!r}; {hint}")
    values = {"kind": kind, "name": name, "today": today, "option": kind, "prefix": _PREFIXES[kind], "kernels": ""}
    values["donor"] = donor.record.name if donor is not None else ""
    text = _HEAD + _BODIES[kind] + "\n" * (kind != "hardware") + _SOURCES
    if kind == "hardware":
        assert donor is not None  # the command gives one
        values["kernels"] = "\n".join(_lines(donor.document.data["kernels"]["default"], 4))
        text += _HARDWARE_SOURCES
    return text.format(**values)


def _lines(tables: Mapping[str, Any], indent: int) -> list[str]:
    """Tables of kernels as a file holds them: a mapping of mappings on lines of its own, the rest on one line each."""
    lines = []
    for key, value in tables.items():
        if isinstance(value, Mapping) and value and all(isinstance(item, Mapping) for item in value.values()):
            lines += [f"{' ' * indent}{key}:", *_lines(value, indent + 2)]
        else:
            lines.append(f"{' ' * indent}{key}: {flow(value)}")
    return lines
