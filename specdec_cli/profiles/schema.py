"""The frozen records behind every profile file. Units stand in the field names; a docstring stands under each.

The records hold facts only: what a file says. What follows from the facts is computed in `physics`.
Every record forbids unknown keys; `library` turns msgspec's complaints into errors with file, line and key.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=100)]
# Upper limits are far above any machine, model or run: what lies past them is a slip, and arithmetic with it would
# overflow or fill the memory.
Positive = Annotated[float, msgspec.Meta(gt=1e-9, le=1e15)]
NonNegative = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Fraction = Annotated[float, msgspec.Meta(gt=1e-6, le=1.5)]
"""An achieved fraction of a datasheet peak. Above 1 is possible: clocks above the rated one, caches."""
Exponent = Annotated[float, msgspec.Meta(ge=0.5, le=1000)]
Count = Annotated[int, msgspec.Meta(ge=1, le=10**9)]
CountOrZero = Annotated[int, msgspec.Meta(ge=0, le=10**9)]
Total = Annotated[int, msgspec.Meta(ge=1, le=10**15)]
"""A count of events, which a long run adds up."""
DraftLength = Annotated[int, msgspec.Meta(ge=1, le=10**4)]
"""D; the longest block published drafts 63."""
DraftLengthOrZero = Annotated[int, msgspec.Meta(ge=0, le=10**4)]
AcceptanceLength = Annotated[float, msgspec.Meta(ge=1, le=10**4)]

WeightDtype = Literal[
    "fp32", "bf16", "fp16", "fp8", "fp8_block", "int8", "int4", "mxfp4", "nvfp4", "q8_0", "q6_k", "q5_k", "q4_k", "q4_0"
]
KvDtype = Literal["fp32", "bf16", "fp16", "fp8", "int8", "q8_0"]
PeakDtype = Literal["bf16", "fp8", "int8", "fp4"]
SourceKind = Literal["datasheet", "published", "measured", "fitted", "derived", "assumed"]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every record: immutable, exact keys."""


class Source(Record, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Where a number comes from."""

    from_: str
    """Document, repository at a commit, or how it was computed from which other fields."""
    checked: str
    """Date of the last look at the source, YYYY-MM-DD."""
    kind: SourceKind
    note: str | None = None


class Profile(Record, frozen=True, kw_only=True):
    """What every profile file carries."""

    format: Literal[1]
    name: Name
    """Equal to the file's name without its ending."""
    sources: dict[str, Source]
    """Key of this file, or a prefix of keys (`kernels.default`) -> source; `*` stands for the whole file."""
    title: str = ""
    notes: list[str] = []


# ---------------------------------------------------------------------------------------------- hardware


class TileKernel(Record, frozen=True, kw_only=True):
    """The tensor-core kernel that an engine changes to from a mat-vec kernel; its two sides add."""

    above_rows: Count
    """The most rows that the mat-vec kernel is given (llama.cpp: 8)."""
    compute: PeakDtype
    """The peak that its arithmetic is held against."""
    eta_c: Fraction
    eta_m: Fraction


class GemmKernel(Record, frozen=True, kw_only=True):
    """A matrix multiplication with weights of one dtype on one chip."""

    compute: PeakDtype
    """The peak that its arithmetic is held against; weight-only kernels compute in bf16."""
    eta_c: Fraction
    """Achieved fraction of that peak."""
    eta_m: Fraction
    """Achieved fraction of the memory bandwidth."""
    tau_us: NonNegative
    """Launch and ramp of one kernel."""
    tau_k_us: NonNegative = 0.0
    """Serial reduction along K, for each 8192 of K."""
    overlap_exponent: Exponent
    """1: compute and memory times add; large: the longer one counts."""
    eta_q: Fraction | None = None
    """Achieved fraction of bandwidth while activations are quantised before the GEMM; None: they are not."""
    tile: TileKernel | None = None
    """What takes over for many rows (llama.cpp's block formats); None: one kernel for all."""


class AttentionKernel(Record, frozen=True, kw_only=True):
    """Decode attention over a KV cache of one dtype."""

    floor_us: NonNegative
    eta_m: Fraction
    eta_c: Fraction
    """Fraction of the bf16 peak reached by the padded rows."""
    window_factor: Annotated[float, msgspec.Meta(ge=1, le=1000)] = 1.0
    """A sliding-window kernel's cost over full attention at a context of the window's length."""


class MlaKernel(Record, frozen=True, kw_only=True):
    """Absorbed multi-head latent attention."""

    eta_m: Fraction
    eta_c: Fraction
    tau_us: NonNegative
    tau_l_us: NonNegative
    """For each doubling of the context past 256 tokens (the split-KV reduction)."""
    overlap_exponent: Exponent


class MoeKernel(Record, frozen=True, kw_only=True):
    """The routed experts of one layer."""

    compute: PeakDtype
    eta_c: Fraction
    eta_m: Fraction
    eta_a: Fraction
    """Achieved fraction of bandwidth for activation traffic (permute, quantise, combine)."""
    overlap_exponent: Exponent
    tau_us: NonNegative


class AllReduce(Record, frozen=True, kw_only=True):
    """A tensor-parallel all-reduce among so many GPUs, in CUDA graphs."""

    latency_us: NonNegative
    efficiency: Fraction
    """Fraction of the link's bandwidth per direction that a large message reaches."""


class LinearAttentionKernel(Record, frozen=True, kw_only=True):
    """Gated-delta and Mamba decode kernels: a fixed state read and written per request."""

    floor_us: NonNegative
    conv_us: NonNegative
    eta_m: Fraction


class IndexerKernel(Record, frozen=True, kw_only=True):
    """The scan and top-k of an indexed sparse attention."""

    floor_us: NonNegative
    eta_m: Fraction


class KernelSet(Record, frozen=True, kw_only=True):
    """What the kernels of one engine reach on one chip."""

    gemm: dict[WeightDtype, GemmKernel]
    attention: dict[KvDtype, AttentionKernel]
    mla: dict[KvDtype, MlaKernel] = {}
    moe: dict[WeightDtype, MoeKernel] = {}
    all_reduce: dict[int, AllReduce] = {}
    collective_library: dict[int, AllReduce] = {}
    """An all-reduce by the vendor's collective library, which large messages (a prompt's) are handed to where it is
    faster; empty: the engine's own kernel at every size."""
    linear_attention: LinearAttentionKernel | None = None
    indexer: IndexerKernel | None = None
    small_kernels_us_per_layer: NonNegative
    """Norms, rope, KV write, residual of one layer in CUDA graphs."""
    eager_us_per_layer: NonNegative
    """The same where the engine launches eagerly."""
    skew_us_per_peer: NonNegative = 0.0
    """What an all-reduce costs more inside a model, for each further GPU."""


class Link(Record, frozen=True, kw_only=True):
    """The scale-up fabric between the GPUs of one replica."""

    technology: str
    gb_per_s: Positive
    """Per direction, all links of a GPU together."""
    peer_gb_per_s: Positive
    """Per direction to one peer: below `gb_per_s` in a mesh (xGMI: a seventh)."""
    domain_gpus: Count
    """How many GPUs the fabric joins."""


class Hardware(Profile, frozen=True, kw_only=True, tag_field="kind", tag="hardware"):
    """A chip: datasheet facts, and what kernels reach of them."""

    vendor: str
    architecture: str
    memory_gb: Positive
    """The label on the box."""
    memory_bytes: Positive
    """What a program can see."""
    memory_bandwidth_gb_per_s: Positive
    peak_tflops: dict[PeakDtype, Positive]
    """Dense datasheet peaks; an fp32 accumulator where that halves the rate."""
    attention_tile: Count = 128
    """Rows of a full attention tile (guidelines 2 and 3)."""
    sm_count: Count | None = None
    l2_mb: Positive | None = None
    link: Link
    fitted: bool
    """Whether the kernel figures were fitted to measured kernel tables of this chip; bands are wider where not."""
    confidence: Literal["high", "medium", "low"] = "high"
    kernels: dict[str, KernelSet]
    """`default`, and what differs by engine. In the file an engine's entry overrides `default` key by key;
    once loaded every entry is whole."""
    default_engine: Name | None = None
    """The engine that usually drives this chip, where the default of all does not run on it."""
    price_usd_per_hour: Positive | None = None
    price_checked: str | None = None


# ------------------------------------------------------------------------------------------------ models


class Gqa(Record, frozen=True, kw_only=True, tag_field="type", tag="gqa"):
    """Grouped-query attention (multi-head and multi-query are its ends); with a window: sliding or chunked."""

    heads: Count
    kv_heads: Count
    head_dim: Count
    window: Count | None = None
    output_gate: bool = False
    """A gate as wide as the queries, projected beside them (Qwen3-Next)."""
    bias: bool = False
    shared_kv: bool = False
    """Values are projected by the keys' matrix (Gemma-4's global layers): one projection. Both are cached, for keys
    are rotated and values are not."""
    value_head_dim: Count | None = None
    """Where values are narrower than queries and keys (MiMo-V2-Flash); None: `head_dim`."""


class Mla(Record, frozen=True, kw_only=True, tag_field="type", tag="mla"):
    """Multi-head latent attention, decoded in its absorbed form."""

    heads: Count
    q_lora_rank: Count | None
    """None: queries are projected directly."""
    kv_lora_rank: Count
    nope_head_dim: Count
    rope_head_dim: CountOrZero
    v_head_dim: Count
    indexer: Indexer | None = None
    output_gate: bool = False


class Indexer(Record, frozen=True, kw_only=True):
    """The scan of an indexed sparse attention (DeepSeek-V3.2): each query reads only `top_k` cached tokens."""

    heads: Count
    head_dim: Count
    top_k: Count
    shared: bool = False
    """The layer takes its indices from a layer before it (GLM-5.2): no weights, no keys, no scan of its own."""


class CompressedAttention(Record, frozen=True, kw_only=True, tag_field="type", tag="compressed"):
    """DeepSeek-V4: one KV head, keys and values the same tensor; the last tokens as they are, older ones pooled into
    one entry for every `ratio` tokens."""

    heads: Count
    head_dim: Count
    """Width of a query head, and of what a token or an entry caches."""
    q_lora_rank: Count
    o_lora_rank: Count
    """Rank of each group's output projection."""
    o_groups: Count
    """Groups of heads whose outputs are projected apart before one matrix mixes them."""
    window: Count
    """Tokens cached uncompressed."""
    ratio: Annotated[int, msgspec.Meta(ge=2, le=10**9)] | None = None
    """Tokens of one entry; None: the window only."""
    overlap: bool = False
    """An entry pools the tokens of the group before its own too: the compressor's projections are twice as wide."""
    indexer: Indexer | None = None
    """It scans an index key for each entry (pooled likewise), and `top_k` entries are read; None: all are."""


class GatedDelta(Record, frozen=True, kw_only=True, tag_field="type", tag="gated_delta"):
    """Gated delta-rule linear attention: a matrix state per value head."""

    key_heads: Count
    value_heads: Count
    key_head_dim: Count
    value_head_dim: Count
    conv_width: Count
    state_dtype: KvDtype = "fp32"
    decay_rank: Count | None = None
    """Kimi Delta Attention: a decay for each key channel, through this rank; None: one for each value head."""
    gate_rank: Count | None = None
    """Rank of the output gate's projection; None: full."""


class Mamba2(Record, frozen=True, kw_only=True, tag_field="type", tag="mamba2"):
    """A Mamba-2 mixer."""

    heads: Count
    head_dim: Count
    state_dim: Count
    groups: Count
    conv_width: Count
    state_dtype: KvDtype = "fp32"


Attention = Gqa | Mla | CompressedAttention | GatedDelta | Mamba2


class DenseFfn(Record, frozen=True, kw_only=True, tag_field="type", tag="dense"):
    """A dense feed-forward block."""

    intermediate: Count
    matrices: Literal[2, 3] = 3
    """3: gated (gate, up, down); 2: plain."""


class MoeFfn(Record, frozen=True, kw_only=True, tag_field="type", tag="moe"):
    """A mixture of experts."""

    experts: Count
    top_k: Count
    intermediate: Count
    """Width of one expert."""
    shared_intermediate: CountOrZero = 0
    """Width of the shared expert, all shared ones together; 0: none."""
    shared_gate: bool = False
    """A one-row gate on the shared expert (Qwen)."""
    matrices: Literal[2, 3] = 3
    routing_overlap: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """Share of a draft token's experts that its request's other tokens touch already; 0: independent routing."""
    latent: Count | None = None
    """Experts read a projection this narrow instead of the hidden state (Nemotron-3 Super)."""
    bias: bool = False
    """Biases on router and experts (gpt-oss)."""


Ffn = DenseFfn | MoeFfn


class Block(Record, frozen=True, kw_only=True):
    """`repeat` layers alike. Order does not change the cost, so alternating patterns are two blocks."""

    repeat: Count
    attention: str | None
    """Key into `attention`; None: a layer without."""
    ffn: str | None
    """Key into `ffn`; None: a layer without."""


class Mtp(Record, frozen=True, kw_only=True):
    """Native multi-token-prediction layers, shipped with the model."""

    layers: Count
    attention: str | None
    ffn: str | None


class PartDtypes(Record, frozen=True, kw_only=True):
    """Weight dtype of each part, and the KV cache's, as the named checkpoint ships them."""

    weights: WeightDtype
    """Every part that is not named below."""
    experts: WeightDtype | None = None
    attention: WeightDtype | None = None
    ffn: WeightDtype | None = None
    """Dense feed-forward and shared experts."""
    lm_head: WeightDtype | None = None
    mtp: WeightDtype | None = None
    """All of the MTP layers; None: as the same parts of the other layers."""
    kv: KvDtype = "bf16"


class PublishedParameters(Record, frozen=True, kw_only=True):
    """Counts to check the computed ones against, in 1e9."""

    total_b: Positive | None = None
    """An exact count, where one exists: embedding, layers, head; MTP and vision excluded."""
    published_total: str | None = None
    """As its maker prints it ("671B"), whose rounding is the tolerance."""
    published_active: str | None = None


class Model(Profile, frozen=True, kw_only=True, tag_field="kind", tag="model"):
    """A target (or draft) model: sizes from which weights, FLOPs and KV bytes follow."""

    maker: str
    aliases: list[str] = []
    """Full ids (`meta-llama/Llama-3.1-8B-Instruct`); matched with case ignored."""
    quantised_from: Name | None = None
    """The model that this checkpoint is a quantised copy of: what was measured of its acceptance holds here too."""
    hidden: Count
    vocabulary: Count
    tied_embeddings: bool
    residual_streams: Count = 1
    """Hyper-connections (DeepSeek-V4): hidden states carried side by side, mixed before and after each sub-layer."""
    max_context: Count
    attention: dict[str, Attention]
    ffn: dict[str, Ffn]
    blocks: list[Block]
    mtp: Mtp | None = None
    dtypes: PartDtypes
    parameters: PublishedParameters
    assumptions: list[str] = []
    """What the importer had to assume."""

    @property
    def has_experts(self) -> bool:
        """Whether any layer is a mixture of experts."""
        return any(isinstance(ffn, MoeFfn) for ffn in self.ffn.values())


# ----------------------------------------------------------------------------------------------- drafters

Mechanism = Literal[
    "eagle", "eagle3", "mtp", "draft_model", "dflash", "dspark", "p_eagle", "pard", "medusa", "self", "ngram", "suffix"
]


class DraftHead(Record, frozen=True, kw_only=True):
    """The layers a drafter brings along; a shared lm_head or embedding belongs to the target."""

    layers: Count
    hidden: Count
    intermediate: CountOrZero
    heads: CountOrZero
    kv_heads: CountOrZero
    head_dim: CountOrZero
    attention_input: Count
    """Width that q, k, v of the first layer read: 2 x hidden for EAGLE-3 and P-EAGLE; further layers read `hidden`."""
    fc_in: CountOrZero = 0
    """Input width of the fusion layer; 0: none."""
    fc_every_pass: bool = False
    """EAGLE-1 and MTP fuse in each pass, EAGLE-3 and block drafters once for each new target token."""
    draft_vocabulary: Count
    own_lm_head: bool
    """False: the target's head is read (and its dtype counts)."""
    mlp_matrices: Literal[2, 3] = 3
    markov_rank: CountOrZero = 0
    """Rank of DSpark's serial head: vocabulary x rank read for each drafted token."""
    parallel_heads: CountOrZero = 0
    """Medusa: heads that read the target's hidden state at once, each with a residual block and a vocabulary matrix."""
    ffn: MoeFfn | None = None
    """Where the draft layer is itself a mixture."""


class Drafter(Profile, frozen=True, kw_only=True, tag_field="kind", tag="drafter"):
    """A draft mechanism for some targets."""

    mechanism: Mechanism
    targets: list[str]
    """Model names; empty: any model (n-gram, suffix)."""
    aliases: list[str] = []
    default: bool = False
    """Whether `--drafter MECHANISM` picks this one where a target has several of the mechanism."""
    model: Name | None = None
    """draft_model: the model profile that drafts."""
    head: DraftHead | None = None
    """eagle, eagle3, dflash, dspark, p_eagle, pard, medusa: its own layers. mtp takes them from the target."""
    weight_dtype: WeightDtype = "bf16"
    largest_tp: Count | None = None
    """GPUs that drafting is spread over at most; None: as many as the target's tensor parallelism."""
    block: Count | None = None
    """Block drafters: tokens in the trained block, anchor included for DFlash (block 16 drafts 15)."""
    window_tokens: Count | None = None
    """Context that the drafter was trained on; acceptance past it is unknown."""
    kv_window_tokens: Count | None = None
    """self: the bounded KV window that drafting reads; others: the draft's own sliding window."""
    parameters_m: Positive | None = None
    """Its own parameters in 1e6, to check the computed count against."""
    training: str = ""
    """Cost of training, as published (guideline 5)."""


# --------------------------------------------------------------------------------------------- acceptance


class AcceptancePoint(Record, frozen=True, kw_only=True):
    """One measurement of acceptance."""

    draft_length: DraftLength
    acceptance_length: AcceptanceLength | None = None
    """Tokens per target iteration, bonus token included."""
    per_position: list[Annotated[float, msgspec.Meta(ge=0, le=1)]] | None = None
    """Unconditional a_1..a_D, measured at this draft length."""
    per_position_kind: Literal["measured", "derived"] | None = None
    context_tokens: Count | None = None
    verify_width: Count | None = None
    """Verified nodes for a tree; None: a chain, 1 + D."""
    iterations: Total | None = None


class AcceptanceProfile(Profile, frozen=True, kw_only=True, tag_field="kind", tag="acceptance"):
    """Measured acceptance of one drafter on one target under one workload."""

    target: Name
    drafter: Name
    draft_checkpoint: str | None = None
    """The checkpoint that was measured, where the drafter's profile stands for all of its form; None: not stated."""
    data_set: str
    temperature: NonNegative | None = None
    """None: not stated."""
    thinking: Literal["on", "off"] | None = None
    measured_by: str
    engine: str | None = None
    default: bool = False
    """The pair's profile that is used when none is named."""
    points: Annotated[list[AcceptancePoint], msgspec.Meta(min_length=1)]


# ------------------------------------------------------------------------------------------------ engines


class Overheads(Record, frozen=True, kw_only=True):
    """Host constants of an engine (the decode set)."""

    step_ms: NonNegative
    """Scheduling and sampling of one step."""
    serving_step_ms: NonNegative
    """The same in a serving run, where prompts arrive and leave."""
    serving_per_request_us: NonNegative | None = None
    """`per_request_us` in a serving run; None: the same."""
    prefill_share: NonNegative = 1.0
    """What a prompt costs the requests that decode beside it, over the time that its tokens add to a step."""
    speculation_ms: NonNegative
    """The entry fee of a step that speculates, paid once when D >= 1."""
    draft_pass_ms: NonNegative
    """For each sequential draft pass, beyond its kernels."""
    draft_pass_target_fraction: NonNegative = 0.0
    """For each sequential draft pass, as a share of the target's step (mat-vec kernels that do not amortise)."""
    draft_pass_ms_by_mechanism: dict[Mechanism, NonNegative] = {}
    """Instead of `draft_pass_ms` for these mechanisms: a version's slow path may be one drafter's alone."""
    tree_speculation_ms: NonNegative | None = None
    """The entry fee of a step that verifies a tree; None: as a chain's."""
    tree_draft_pass_ms: NonNegative | None = None
    """For each pass that drafts a level of a tree; None: as a chain's."""
    per_request_us: NonNegative
    draft_logit_passes: NonNegative | None = None
    """Passes over the fp32 logits that drawing one draft token takes (eager soft-max, top-p); None: as the target's."""
    lookup_ms: NonNegative
    """One n-gram or suffix look-up for the batch."""


class EngineMemory(Record, frozen=True, kw_only=True):
    """What the engine leaves for weights and KV."""

    usable_fraction: Annotated[float, msgspec.Meta(gt=1e-6, le=1)]
    """Of the visible memory."""
    reserve_gb: NonNegative
    """Activations, graphs and workspaces per GPU."""


class EngineSettings(Record, frozen=True, kw_only=True):
    """How the engine spells what is recommended, and the version that it was checked against."""

    draft_length: str
    """Name of the setting; its value is D."""
    verify_width: str | None = None
    """Name of the setting whose value is D + 1, where one is needed."""
    checked_version: str


class Engine(Profile, frozen=True, kw_only=True, tag_field="kind", tag="engine"):
    """A serving engine at a date: host constants and the names of its settings."""

    family: Name
    """The engine whose versions this is one of: `vllm` for `vllm-2025-07`."""
    aliases: list[str] = []
    version: str
    date: str
    """YYYY-MM: constants move with the version."""
    kernels: str
    """Entry of a chip's `kernels` to use; `default` where the chip has none of that name."""
    cuda_graphs: bool
    overheads: Overheads
    small_kernels_us_per_layer: NonNegative | None = None
    """Instead of the chip's figure: newer versions fuse norms, rope and all-reduces, older ones fuse less."""
    shared_experts: Literal["after", "beside"] = "after"
    """beside: shared experts run on a second stream, their launches hidden behind the routed ones."""
    fitted_sweeps: CountOrZero
    """How many published sweeps the overheads rest on; below three the band is wider."""
    mla_verify_reads: Literal["once", "per_token"] = "once"
    """Whether a verify pass reads an MLA cache once, or once for each of the W tokens."""
    recurrent_rollback: Literal["saved_states", "replay"] = "saved_states"
    prefill: Literal["mixed", "separate"] = "mixed"
    """mixed: a prompt's chunks ride in decode steps; separate: a prompt has a step of its own."""
    memory: EngineMemory
    settings: EngineSettings
