"""Commands whose JSON is held against the published schemas, over the corners of what an answer can hold.

Each runs in `tests/data/golden`, where `profiles` is a library of frozen toys and `files` holds what engines wrote.
"""

from __future__ import annotations

import shlex

from conftest import REPO

GOLDEN = REPO / "tests" / "data" / "golden"
TOY = "--profiles profiles --hardware golden-chip --model golden-model --engine golden-engine"
CHAIN = f"{TOY} --drafter golden-model-eagle3"
CHIPS = TOY.replace("golden-chip", "golden-chip,golden-chip-2")
MIXTURE = "--profiles profiles --hardware golden-chip-2 --model golden-moe --engine golden-engine"
LOGS = "../engine_files"

FROZEN = {
    "sweep": f"sweep {CHAIN} --batches 1,8,4096 --draft-lengths 0,2,4",
    "recommend": f"recommend {CHAIN} --batch 8",
    "compare": f"compare {TOY} --drafter golden-model-eagle3,golden-model-dflash --batches 1,8",
    "explain": f"explain {CHAIN} --batch 8 --draft-length 2",
    "acceptance": "acceptance files/server.log --profiles profiles",
    "calibration": f"calibrate files/runs.csv {CHAIN}",
    "calibration_plan": f"calibrate --plan {CHAIN}",
    "validate": "validate golden-report --profiles profiles",
    "profiles": "profiles list golden --profiles profiles",
    "profile": "profiles show golden-chip --profiles profiles",
    "check": "profiles check files/broken/hardware/broken.yaml",
}
"""Schema -> the command whose answer is kept in `golden/NAME.json`; it rests on frozen profiles alone."""

_SWEEP = {
    "without a drafter": f"{TOY} --drafter none --batches 1,8",
    "frontier only, several drafters, tp and chips": f"{CHIPS} --tp 1,2 --drafter "
    "golden-model-eagle3,golden-model-dflash,none --batches 1,64 --frontier-only",
    "prices of some chips alone": f"{CHIPS} --batches 1 --drafter ngram --acceptance-rate 0.4",
    "a chip without a price": f"{MIXTURE} --batches 1,16",
    "acceptance given": f"{CHAIN} --acceptance-length 1=1.7,3=2.4 --batches 2",
    "past the window": f"{CHAIN} --context 5000 --batches 2",
    "past the window, vouched for": f"{CHAIN} --context 5000 --batches 2 --assume",
    "serving": f"{CHAIN} --input-tokens 512 --output-tokens 256 --batches 1,16",
    "a tree": f"{CHAIN} --tree-topk 3 --batches 1,4",
    "a tree of given width": f"{CHAIN} --tree-topk 3 --verify-width 6 --batches 1,4",
    "calibrated": "--profiles profiles --calibration golden-machine --batches 1,4",
    "one point": f"{CHAIN} --batches 3 --draft-lengths 2",
    "typical acceptance after measured": f"{TOY} --drafter golden-model-eagle3,ngram --batches 1 "
    "--assume-acceptance typical",
    "past the block": "--model qwen3-8b --drafter qwen3-8b-dflash-b16 --batches 1 --draft-lengths 0,7,20 --assume",
    "latent attention, experts in parallel": "--hardware h200-sxm --gpus 8 --ep 8 --model deepseek-v3 --context 8192 "
    "--batches 1,32,4096 --drafter deepseek-v3-mtp",
    "sliding window, mxfp4 experts": "--model gpt-oss-120b --tp 2 --batches 1 --assume-acceptance typical",
}
_RECOMMEND = {
    "a schedule": CHAIN,
    "a schedule by context": f"{CHAIN} --schedule --contexts 1k,4k,6k --assume",
    "a floor for each user": f"{CHAIN} --min-interactivity 60",
    "a floor for each user, off": f"{TOY} --drafter none --min-interactivity 20",
    "a floor for each GPU": f"{CHAIN} --min-throughput 100",
    "a limit in ms": f"{CHAIN} --max-tpot-ms 50 --tie 0.1 --min-gain 0",
    "off": f"{CHAIN} --batch 8 --min-gain 0.9",
    "experts": f"{MIXTURE} --batch 2",
    "serving": f"{CHAIN} --batch 8 --input-tokens 512 --output-tokens 256",
    "a tree": f"{CHAIN} --batch 4 --tree-topk 2",
    "calibrated": "--profiles profiles --calibration golden-machine --batch 1",
    "several chips": f"{CHIPS} --drafter golden-model-eagle3 --batch 8",
    "shipped": "--batch 32",
    "shipped experts": "--model qwen3-30b-a3b --tp 2 --batch 16 --assume-acceptance typical",
    "shipped recurrent layers": "--model qwen3-next-80b-a3b --tp 4 --batch 4 --assume-acceptance typical",
}
_COMPARE = {
    "all": "--model qwen3-8b --batches 1,32",
    "at one draft length": f"{TOY} --drafter golden-model-eagle3,golden-model-dflash --batches 4 --draft-lengths 2",
    "serving on two chips": f"{CHIPS} --batches 2 --input-tokens 512 "
    "--output-tokens 256 --drafter golden-model-eagle3,golden-model-dflash",
    "some do not fit": f"{TOY} --batches 1,4096,100000 --drafter golden-model-eagle3,golden-model-dflash",
}
_EXPLAIN = {
    "off": f"{CHAIN} --batch 1 --draft-length 0",
    "experts on two": f"{MIXTURE} --gpus 2 --ep 2 --batch 4 --draft-length 2",
    "a tree": f"{CHAIN} --batch 4 --draft-length 3 --tree-topk 2",
    "calibrated": "--profiles profiles --calibration golden-machine --batch 1 --draft-length 2",
    "a look-up": f"{TOY} --drafter ngram --acceptance-rate 0.4 --batch 2 --draft-length 3",
    "serving": f"{CHAIN} --batch 8 --input-tokens 512 --output-tokens 256 --draft-length 2",
    "latent attention, indexer": "--hardware h200-sxm --gpus 8 --model deepseek-v3.2 --batch 8 --draft-length 1 "
    "--acceptance-rate 0.8 --context 8192",
    "compressed attention": "--hardware b200-sxm --gpus 8 --model deepseek-v4-pro --batch 8 --draft-length 1 "
    "--acceptance-rate 0.8",
    "recurrent layers": "--hardware h100-sxm --tp 4 --model qwen3-next-80b-a3b --batch 4 --draft-length 2 "
    "--acceptance-rate 0.7",
    "mat-vec and tile kernels": "--hardware rtx-4090 --engine llama-cpp --weight-dtype q4_k --batch 1 --draft-length 3 "
    "--acceptance-rate 0.7",
}
_OTHERS = {
    "acceptance: every option": f"acceptance {LOGS}/vllm_serve.json --target llama-3.1-8b --drafter "
    "llama-3.1-8b-eagle3 --data-set chats --temperature 0.5 --cached-prompts",
    "acceptance: two scrapes": f"acceptance {LOGS}/vllm_before.prom {LOGS}/vllm_after.prom",
    "calibrate: two setups": f"calibrate {LOGS}/llama_batched.jsonl {TOY} --drafter none",
    "calibrate: a curve": f"calibrate {LOGS}/llama_bench.json {TOY} --drafter none",
    "calibrate: off beside": f"calibrate files/runs.csv --off files/plain.csv {CHAIN} --cached-prompts",
    "plan": "calibrate --plan --engine vllm --batch 16",
    "plan without measured acceptance": "calibrate --plan --engine sglang --model llama-3.1-8b --drafter draft_model",
    "plan for one request": "calibrate --plan --engine llama-cpp --drafter ngram --hardware rtx-4090",
    "validate: faults and gates": "validate gpt-fast vllm-issue-49548 specforge-dashboard",
    "profiles list: all kinds": "profiles list --profiles profiles --profiles files/broken",
    "profiles list: acceptance": "profiles list eagle3 --kind acceptance",
    "profiles list: nothing": "profiles list no-such-thing --kind engine",
    "profiles check: nothing wrong": "profiles check profiles",
}
_SHOWN = (
    *("hardware golden-chip-2", "model golden-moe", "drafter golden-model-dflash", "engine golden-engine"),
    *("acceptance golden-model-eagle3-code", "measurement golden-report", "calibration golden-machine"),
)
MATRIX = {
    **{f"sweep: {name}": f"sweep {said}" for name, said in _SWEEP.items()},
    **{f"recommend: {name}": f"recommend {said}" for name, said in _RECOMMEND.items()},
    **{f"compare: {name}": f"compare {said}" for name, said in _COMPARE.items()},
    **{f"explain: {name}": f"explain {said}" for name, said in _EXPLAIN.items()},
    **_OTHERS,
    **{
        f"profiles show: {kind}": f"profiles show {name} --kind {kind} --profiles profiles"
        for kind, name in (one.split() for one in _SHOWN)
    },
}


def arguments(command: str, style: str = "json") -> list[str]:
    """A command of the tables as arguments, in that format."""
    return [*shlex.split(command), "--format", style]
