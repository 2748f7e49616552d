"""Random plans of ptdp-plan, exported to everything that takes them."""

import json
import random
import re
import shutil
import subprocess

MODELS = ["gpt-tiny", "gpt2-355m", "1.7B", "7.5B", "18B", "39B", "145B", "1T", "gpt3-175b", "llama-2-7b",
          "llama-3-8b", "llama-3-70b", "llama-3.1-405b", "mistral-7b", "nemotron-4-15b", "qwen3-8b",
          "qwen2.5-7b", "mixtral-8x7b", "mixtral-8x22b", "qwen3-30b-a3b", "qwen3-235b-a22b",
          "deepseek-v3", "kimi-k2"]
CLUSTERS = ["selene-a100", "dgx-h100", "hgx-h200", "dgx-b200", "dgx-gb200"]
STACKS = ["megatron-lm-2021", "megatron-lm-2023", "megatron-core-2024", "megatron-core-2025",
          "megatron-core-2025-no-overlap", "megatron-bridge-2025",
          "megatron-bridge-2026-cuda-graphs", "nemo-2024", "nemo-mlperf-v4.1", "megascale-2024",
          "meta-llama3", "torchtitan-2024", "nanotron-2025", "zero-bubble-2023"]
GPUS = [8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 3072]
# Flags, each with its values and how often it is drawn [%].
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


class NoProgram(Exception):
    """ptdp-plan is missing, or does not do what it is for."""


class Lottery:
    """Draws questions until ptdp-plan has a plan for one."""

    def __init__(self, root, build, seed):
        self.chance = random.Random(seed)
        self.program = build / "tools/ptdp-plan"
        self.profiles = root / "profiles"
        self.num_asked = 0
        if not self.program.exists():
            raise NoProgram(f"no {self.program}: cmake --build --preset release")
        told = subprocess.run([self.program, "--help"], capture_output=True, text=True, check=False)
        self.flags = set(re.findall(r"--[a-z0-9-]+", told.stdout))

    def write_parameters(self, directory):
        """Writes parameters.json: how many each shipped model has, by its name."""
        directory.mkdir(parents=True, exist_ok=True)
        told = subprocess.run([self.program, "list", "models", "--format", "json"],
                              capture_output=True, text=True, check=True)
        counts = {model["name"]: model["parameters"] for model in json.loads(told.stdout)["models"]}
        (directory / "parameters.json").write_text(json.dumps(counts), encoding="utf-8")

    def question(self):
        words = ["--model", self.chance.choice(MODELS), "--cluster", self.chance.choice(CLUSTERS),
                 "--stack", self.chance.choice(STACKS), "--gpus", str(self.chance.choice(GPUS))]
        for flag, values, percent in PINS:
            if flag in self.flags and self.chance.random() * 100 < percent:
                words += [flag, str(self.chance.choice(values))]
        if "--recompute full" in " ".join(words) and self.chance.random() < 0.3:
            words += ["--recompute-method", self.chance.choice(["block", "uniform", "every"]),
                      "--recompute-num-layers", str(self.chance.choice([1, 2, 3, 8]))]
        if "--recompute selective" in " ".join(words) and self.chance.random() < 0.6:
            modules = ["core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe",
                       "shared_experts"]
            drawn = self.chance.sample(modules, self.chance.choice([1, 2, 3]))
            words += ["--recompute-modules", "+".join(drawn)]
        return words

    def draw(self, directory):
        """Writes plan.json, question.txt and an export per exporter; returns what was refused."""
        directory.mkdir(parents=True, exist_ok=True)
        plan = directory / "plan.json"
        while True:
            words = self.question()
            self.num_asked += 1
            done = subprocess.run(
                [self.program, *words, "--time-limit", "2", "--threads", "1", "-o", plan],
                capture_output=True, text=True, check=False)
            if done.returncode not in (0, 2, 3, 4):
                raise NoProgram(f"{' '.join(words)}: status {done.returncode}: {done.stderr}")
            if plan.exists():
                break
        (directory / "question.txt").write_text(" ".join(words) + "\n", encoding="utf-8")
        return self.export(plan, directory)

    def export(self, plan, directory):
        exports = directory / "exports"
        shutil.rmtree(exports, ignore_errors=True)
        done = subprocess.run([self.program, "export", plan, "--to", "all", "-o", exports],
                              capture_output=True, text=True, check=False)
        if done.returncode not in (0, 2):
            raise NoProgram(f"export {plan}: status {done.returncode}: {done.stderr}")
        found = re.findall(r"^--to (\S+): the plan has (.*)$", done.stdout, re.MULTILINE)
        # The value differs from plan to plan: a kind of refusal is its exporter and its field.
        return [f"{name}: {part.split(' ')[0]}"
                for name, text in found for part in text.split("; ")]
