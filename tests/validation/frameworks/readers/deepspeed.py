"""Parses an export for DeepSpeed: ds_config.json with DeepSpeedConfig, arguments by their list."""

import ast
import json
import pathlib
from unittest import mock

FLAGS = pathlib.Path(__file__).parents[3] / "golden" / "frameworks" / "megatron_deepspeed_4efb479d.txt"
KEYS = pathlib.Path(__file__).parents[3] / "golden" / "frameworks" / "deepspeed_0.19.8.txt"


class _Groups:
    """What DeepSpeedConfig asks of Megatron's groups."""

    def __init__(self, replicas):
        self.replicas = replicas

    def get_data_parallel_world_size(self):
        return self.replicas


def _names(path):
    return {line for line in path.read_text().split("\n") if line and not line.startswith("#")}


def _check_keys(config):
    """DeepSpeed passes over unknown keys at the top."""
    known = _names(KEYS)
    for key, value in config.items():
        parts = [f"{key}.{name}" for name in value] if isinstance(value, dict) else []
        for name in [key, *parts]:
            leaf = name.removeprefix("data_types.")
            sections = {"zero_optimization", "gradient_clipping"}
            if name not in known and leaf not in known and name not in sections:
                raise ValueError(f"{name}: DeepSpeed has no such key")


def check(directory) -> None:
    """Raises where DeepSpeed refuses ds_config.json, or where it and the arguments disagree."""
    from deepspeed.runtime.config import DeepSpeedConfig

    directory = pathlib.Path(directory)
    arguments = {}
    for line in (directory / "arguments.txt").read_text().splitlines():
        flag, _, value = line.partition(" ")
        if flag not in _names(FLAGS):
            raise ValueError(f"{flag}: Megatron-DeepSpeed has no such flag")
        arguments[flag] = value
    launch = (directory / "launch.sh").read_text()
    words = dict(word.split("=", 1) for word in launch.split() if word.startswith("--n") and "=" in word)
    processes = int(words["--nnodes"]) * int(words["--nproc-per-node"])
    ranks = (
        int(arguments["--tensor-model-parallel-size"])
        * int(arguments["--pipeline-model-parallel-size"])
        * int(arguments.get("--ds-sequence-parallel-size", 1))
    )
    if processes % ranks:
        raise ValueError(f"{processes} processes: expected a multiple of {ranks}")
    config = json.loads((directory / "ds_config.json").read_text())
    _check_keys(config)
    # Without process groups DeepSpeed takes the number of replicas for 1.
    with mock.patch("deepspeed.runtime.config.dist.get_rank", return_value=0):
        parsed = DeepSpeedConfig(config, mpu=_Groups(processes // ranks))
    if parsed.zero_optimization_stage != int(arguments["--zero-stage"]):
        raise ValueError("ds_config.json and --zero-stage disagree")
    if parsed.train_batch_size != int(arguments["--global-batch-size"]):
        raise ValueError("ds_config.json and --global-batch-size disagree")
    if parsed.zero_optimization_stage > 1 and "--no-pipeline-parallel" not in arguments:
        raise ValueError("ZeRO-2 and ZeRO-3 are incompatible with pipeline parallelism")
    if parsed.bfloat16_config.enabled and parsed.zero_optimization_stage == 0:
        raise ValueError("bf16 with fp32 gradients: expected ZeRO")  # runtime/engine.py
    ast.parse((directory / "pretrain.py").read_text())
