"""Parses an export for Accelerate with `accelerate launch`'s own steps, and builds its model."""

import ast
import json
import os
import pathlib
from unittest import mock


def _process_environment(path):
    """Returns the environment that `accelerate launch` gives to every process."""
    from accelerate.commands.launch import _validate_launch_command, launch_command_parser
    from accelerate.utils.launch import prepare_multi_gpu_env, prepare_simple_launcher_cmd_env

    arguments = launch_command_parser().parse_args(["--config_file", str(path), "train.py"])
    arguments, _, _ = _validate_launch_command(arguments)
    if arguments.use_fsdp or arguments.multi_gpu:
        return arguments, prepare_multi_gpu_env(arguments)
    return arguments, prepare_simple_launcher_cmd_env(arguments)[1]


def check(directory) -> None:
    """Raises where Accelerate or transformers refuses a file, or where files disagree."""
    import torch
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.parallelism_config import ParallelismConfig
    from accelerate.utils import FullyShardedDataParallelPlugin
    from transformers import AutoConfig, AutoModelForCausalLM

    directory = pathlib.Path(directory)
    path = directory / "accelerate.yaml"
    config = load_config_from_file(str(path))
    arguments, environment = _process_environment(path)
    replicas = config.num_processes
    model_config = AutoConfig.for_model(**json.loads((directory / "model.json").read_text()))
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(model_config)
    with mock.patch.dict(os.environ, environment):
        if arguments.use_fsdp:
            degrees = ParallelismConfig()
            if degrees.total_size != config.num_processes:
                raise ValueError(f"{degrees}: expected {config.num_processes} processes")
            if not degrees.dp_shard_enabled and not degrees.cp_enabled:
                raise ValueError(f"{degrees}: FSDP has nothing to shard over")
            replicas = degrees.data_parallel_size
            plugin = FullyShardedDataParallelPlugin()
            if plugin.fsdp_version != 2 or not isinstance(plugin.reshard_after_forward, bool):
                raise ValueError(f"expected FSDP2, got {plugin}")
            plugin.set_auto_wrap_policy(model)  # raises where no module has the layer's class
    batch = json.loads((directory / "batch.json").read_text())
    product = batch["micro_batch_size"] * batch["gradient_accumulation_steps"] * replicas
    if product != batch["global_batch_size"]:
        raise ValueError(f"batch.json: {product} sequences of {batch['global_batch_size']}")
    ast.parse((directory / "train.py").read_text())
