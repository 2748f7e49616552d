"""What to draw for each framework, so that it can run many of the plans, and near misses occur."""

import copy
import dataclasses
import json

CLUSTERS = ["selene-a100", "dgx-h100", "hgx-h200", "dgx-b200", "dgx-gb200"]
GPUS = [8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 3072]
# Flags that any framework may meet, each with its values and how often it is drawn [%].
PINS = [("--tp", [1, 2, 4, 8], 55), ("--pp", [1, 2, 4, 6, 8, 16], 60), ("--vpp", [1, 2, 3, 4], 35),
        ("--cp", [2, 4], 25), ("--ep", [2, 4, 8], 40), ("--etp", [1, 2, 4], 25),
        ("--zero-stage", [0, 1, 2, 3], 50), ("--dp-replicate", [2, 4], 12),
        ("--micro-batch-size", [1, 2, 4], 30),
        ("--schedule", ["1f1b", "interleaved", "gpipe", "zb-h1"], 25),
        ("--recompute", ["none", "selective", "full"], 40),
        ("--rank-order", ["tp-cp-ep-pp-dp", "tp-cp-ep-dp-pp"], 30),
        ("--offload", ["optimizer", "activations", "optimizer+activations"], 12),
        ("--sequence-parallel", ["on", "off"], 20),
        ("--precision", ["bf16", "fp16", "fp32", "fp8", "fp8-delayed", "fp8-current", "fp8-block",
                         "fp8-mx"], 25),
        ("--overlap", ["none", "all", "messages", "reductions,gathers", "tensor"], 25),
        ("--global-batch-size", [48, 64, 96, 256, 1024], 40)]
NOT_GIVEN = None  # stands for a flag that is left out

GPT_MODELS = ["gpt-tiny", "gpt2-355m", "1.7B", "7.5B", "18B", "39B", "145B", "1T", "gpt3-175b"]
LLAMA_MODELS = ["llama-2-7b", "llama-2-13b", "llama-2-70b", "llama-3-8b", "llama-3-70b",
                "llama-3.1-405b"]
OTHER_MODELS = ["mistral-7b", "nemotron-4-15b", "qwen3-8b", "qwen2.5-7b"]
EXPERT_MODELS = ["mixtral-8x7b", "mixtral-8x22b", "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v3",
                 "kimi-k2"]
EXPERT_FLAGS = ["--ep", "--etp"]  # which dense models have no plans for
MODULES = ["core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts"]
MEGATRON_STACKS = ["megatron-lm-2021", "megatron-lm-2023", "megatron-core-2024",
                   "megatron-core-2025", "megatron-core-2025-no-overlap", "megatron-bridge-2025",
                   "megatron-bridge-2026-cuda-graphs", "nemo-2024", "nemo-mlperf-v4.1",
                   "megascale-2024", "meta-llama3", "zero-bubble-2023", "megatron-replicated",
                   "megatron-gathers"]
ALL_STACKS = [*MEGATRON_STACKS, "torchtitan-2024", "nanotron-2025"]
SCHEDULES = ["1f1b", "interleaved", "gpipe", "looped-bfs", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min",
             "dualpipev", "zb-auto"]

# Stacks that no profile describes, from one that does: name, base, what differs.
STACKS = [
    ("megatron-replicated", "megatron-core-2025",
     {"context_parallel_kind": "all-to-all", "expert_dispatch": "all-gather",
      "can_run": {"hybrid_sharding": True}}),
    ("megatron-gathers", "megatron-bridge-2025",
     {"context_parallel_kind": "all-gather", "expert_overlap": True}),
    ("torchtitan-gathers", "torchtitan-2024",
     {"context_parallel_kind": "all-gather", "can_run": {"expert_parallel": True,
                                                         "zero_stages": [0, 3]}}),
    ("torchtitan-gathers-eager", "torchtitan-2024-eager",
     {"context_parallel_kind": "all-gather", "can_run": {"expert_parallel": True,
                                                         "zero_stages": [0, 3]}}),
    ("torchtitan-ring-experts", "torchtitan-2024", {"can_run": {"expert_parallel": True}}),
    ("ulysses-bf16", "deepspeed-zero3-2021",
     {"precision": "bf16", "attention": "flash-2", "context_parallel_kind": "all-to-all",
      "can_run": {"context_parallel": True, "zero_stages": [0, 1, 2, 3]}}),
    ("zero-pipeline", "megatron-deepspeed-2021",
     {"precision": "bf16", "attention": "flash-2", "offloaded_optimizer_bytes": 12,
      "can_run": {"zero_stages": [0, 1, 2, 3], "recompute_methods": ["uniform", "block"],
                  "recompute": ["none", "selective", "full"],
                  "offload": ["optimizer"]}}),
    ("fsdp-ring", "composer-fsdp-2024",
     {"can_run": {"context_parallel": True, "zero_stages": [0, 3], "hybrid_sharding": True}}),
    ("fsdp-gathers", "composer-fsdp-2024",
     {"context_parallel_kind": "all-gather",
      "can_run": {"context_parallel": True, "zero_stages": [0, 3], "hybrid_sharding": True}}),
]


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What questions for one framework are drawn from."""

    models: list
    stacks: list
    demands: dict = dataclasses.field(default_factory=dict)  # flag: its values, of which one is drawn
    modules: list = dataclasses.field(default_factory=lambda: MODULES)
    methods: list = dataclasses.field(default_factory=lambda: ["block", "uniform", "every"])
    gpus: list = dataclasses.field(default_factory=lambda: GPUS)


_MEGATRON = Recipe([*GPT_MODELS, *LLAMA_MODELS, *OTHER_MODELS, *EXPERT_MODELS], ALL_STACKS)
_TORCHTITAN_DEMANDS = {
    "--zero-stage": [3, 3, 3, 0], "--rank-order": [NOT_GIVEN, "tp-cp-ep-dp-pp"],
    "--offload": [NOT_GIVEN], "--sequence-parallel": [NOT_GIVEN, "on"], "--etp": [NOT_GIVEN, 1],
    "--recompute": [NOT_GIVEN, "none", "full", "selective"], "--schedule": [NOT_GIVEN, *SCHEDULES],
    "--overlap": [NOT_GIVEN, "all"], "--precision": [NOT_GIVEN, "bf16", "fp32"]}

RECIPES = {
    "megatron": _MEGATRON,
    "megatron-bridge": _MEGATRON,
    "torchtitan": Recipe(
        [*LLAMA_MODELS, "qwen3-8b", "qwen3-32b", "qwen3-30b-a3b", "qwen3-235b-a22b", "deepseek-v3"],
        ["torchtitan-2024", "torchtitan-2024-eager", "torchtitan-gathers",
         "torchtitan-gathers-eager", "torchtitan-ring-experts"],
        _TORCHTITAN_DEMANDS, modules=["op"], methods=["every"]),
    "torchtitan-toml": Recipe(
        [*["llama-3-8b", "llama-3-70b", "llama-3.1-405b"] * 3, "qwen3-8b", "qwen3-32b",
         "qwen3-30b-a3b", "qwen3-235b-a22b"],
        ["torchtitan-2024", "torchtitan-2024-eager", "torchtitan-gathers",
         "torchtitan-ring-experts"],
        _TORCHTITAN_DEMANDS | {"--precision": [NOT_GIVEN, "bf16", "fp32", "fp8-current"],
                               "--zero-stage": [3]},
        modules=["op"], methods=["every"]),
    "nanotron": Recipe(
        LLAMA_MODELS, ["nanotron-2025", "nanotron-2025", "megatron-lm-2023", "megatron-core-2024"],
        {"--cp": [1], "--ep": [NOT_GIVEN], "--etp": [NOT_GIVEN], "--vpp": [1],
         "--schedule": ["1f1b", "gpipe"], "--recompute": ["none"], "--zero-stage": [0, 1],
         "--dp-replicate": [NOT_GIVEN], "--rank-order": [NOT_GIVEN, "tp-cp-ep-dp-pp"],
         "--offload": [NOT_GIVEN], "--precision": [NOT_GIVEN, "bf16"]}),
    "accelerate": Recipe(
        ["gpt-tiny", "gpt2-355m", "1.7B", "7.5B", "18B", *LLAMA_MODELS, "mistral-7b", "qwen3-8b",
         "qwen2.5-7b"],
        ["composer-fsdp-2024", "fsdp-ring", "fsdp-gathers", "torchtitan-2024-eager",
         "megatron-lm-2021"],
        {"--tp": [1, 1, 2, 4], "--pp": [1], "--vpp": [1], "--ep": [NOT_GIVEN],
         "--etp": [NOT_GIVEN], "--zero-stage": [3, 0], "--schedule": [NOT_GIVEN],
         "--recompute": ["none", "full"], "--offload": [NOT_GIVEN], "--sequence-parallel": ["off"],
         "--rank-order": [NOT_GIVEN, "tp-cp-ep-dp-pp"],
         "--precision": [NOT_GIVEN, "bf16", "fp16", "fp32"]},
        gpus=[8, 16, 24, 32, 64, 96, 128, 256, 512]),
    "deepspeed": Recipe(
        [*GPT_MODELS, *LLAMA_MODELS],
        ["megatron-deepspeed-2021", "deepspeed-zero3-2021", "megatron-lm-2021", "nemo-2024",
         "ulysses-bf16", "zero-pipeline"],
        {"--cp": [NOT_GIVEN, NOT_GIVEN, 2, 4], "--ep": [NOT_GIVEN], "--etp": [NOT_GIVEN], "--vpp": [1],
         "--schedule": ["1f1b"], "--recompute": ["none", "full"], "--zero-stage": [0, 1, 2, 3],
         "--dp-replicate": [NOT_GIVEN], "--rank-order": [NOT_GIVEN, "tp-cp-ep-dp-pp"],
         "--offload": [NOT_GIVEN, NOT_GIVEN, "optimizer"],
         "--precision": [NOT_GIVEN, "bf16", "fp16"]},
        methods=["uniform", "block"]),
    "schedule-csv": Recipe(
        [*GPT_MODELS, *LLAMA_MODELS], ["ptdp-cuda", "zero-bubble-2023", "torchtitan-2024"],
        {"--pp": [2, 4, 6, 8, 16], "--schedule": [*SCHEDULES, "dualpipe"], "--cp": [NOT_GIVEN],
         "--ep": [NOT_GIVEN], "--etp": [NOT_GIVEN], "--dp-replicate": [NOT_GIVEN],
         "--offload": [NOT_GIVEN], "--rank-order": [NOT_GIVEN],
         "--zero-stage": [NOT_GIVEN], "--precision": [NOT_GIVEN],
         "--global-batch-size": [48, 64, 96, 256]}, gpus=[8, 16, 32, 64, 96, 128]),
}


def merged(document, changes):
    """Returns a document with changes, which are taken key by key in its objects."""
    result = copy.deepcopy(document)
    for key, value in changes.items():
        result[key] = (merged(result.get(key, {}), value) if isinstance(value, dict) else value)
    return result


def write_stacks(profiles, directory):
    """Writes STACKS as files; returns the path of each by its name."""
    directory.mkdir(parents=True, exist_ok=True)
    paths = {}
    for name, base, changes in STACKS:
        document = json.loads((profiles / f"stacks/{base}.json").read_text(encoding="utf-8"))
        paths[name] = directory / f"{name}.json"
        paths[name].write_text(json.dumps(merged(document, changes | {"name": name})),
                               encoding="utf-8")
    return paths
