"""Reads exports for torchtitan with torchtitan's own parser, and its orders with torch's checks.

`check(directory)` raises where the framework refuses an export of `ptdp-plan export --to
torchtitan` (release 0.3.0) or `--to torchtitan-toml` (release 0.2.2); the release that is installed
decides which it can check. `check_schedule(file)` does so for a schedule.csv. No GPU is needed.
"""

import contextlib
import csv
import os
import pathlib
import re
import sys


def _actions(file):
    from torch.distributed.pipelining.schedules import _Action

    with open(file, newline="", encoding="utf-8") as text:
        return {rank: [_Action.from_str(cell) for cell in row]
                for rank, row in enumerate(csv.reader(text))}


def _single(actions):
    """Returns orders whose overlapped pairs are two actions: torch simulates no pairs."""
    return {rank: [part for action in order if action is not None
                   for part in (action.sub_actions or (action,))]
            for rank, order in actions.items()}


def check_schedule(file):
    """Raises where torch refuses the orders, finds no place for a message, or runs into a wait."""
    from torch.distributed.pipelining import schedules

    actions = _actions(file)
    singles = _single(actions)
    stages = 1 + max(action.stage_index for order in singles.values() for action in order)
    microbatches = 1 + max(
        action.microbatch_index for order in singles.values() for action in order)
    ranks = schedules._validate_schedule(actions, len(actions), stages, microbatches)
    with_messages = schedules._add_send_recv(actions, ranks.__getitem__, stages)
    schedules._simulate_comms_compute(_single(with_messages), ranks.__getitem__, stages)


def _world_size(script):
    match = re.search(r"--nnodes=(\d+) --nproc-per-node=(\d+)", script)
    if match is None:
        raise ValueError("launch.sh starts no torchrun with nodes and processes")
    return int(match[1]) * int(match[2])


@contextlib.contextmanager
def _inside(directory):
    """Works in the export's directory, as its script does, with the modules that lie there."""
    before = os.getcwd()
    os.chdir(directory)
    sys.path.insert(0, str(directory))
    sys.modules.pop("torchtitan_plan", None)
    try:
        yield
    finally:
        os.chdir(before)
        sys.path.remove(str(directory))


def _check_stages(parallelism, num_layers, pipeline):
    """Raises where torchtitan cannot cut the model as the configuration says."""
    from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class

    generate = (getattr(pipeline, "_generate_llm_fqn_per_model_part", None) or
                pipeline.generate_llm_fqn_per_model_part)
    if parallelism.pipeline_parallel_degree == 1:
        return
    is_single = issubclass(get_schedule_class(parallelism.pipeline_parallel_schedule),
                           PipelineScheduleSingle)
    stages = parallelism.module_fqns_per_model_part
    if stages is None:
        first = parallelism.pipeline_parallel_first_stage_less_layers
        last = parallelism.pipeline_parallel_last_stage_less_layers
        # As torchtitan counts stages: rounded up, and with what both ends are spared.
        count = -(-(num_layers + first + last) // parallelism.pipeline_parallel_layers_per_stage)
        stages = generate(count, num_layers, first, last)
    layers = [name for stage in stages for name in stage if name.startswith("layers.")]
    if layers != [f"layers.{layer}" for layer in range(num_layers)]:
        raise ValueError(f"stages do not hold all layers in order: {layers}")
    if not all(stages) or len(stages) % parallelism.pipeline_parallel_degree:
        raise ValueError(f"{len(stages)} stages for {parallelism.pipeline_parallel_degree} ranks")
    if is_single != (len(stages) == parallelism.pipeline_parallel_degree):
        raise ValueError(f"{parallelism.pipeline_parallel_schedule} with {len(stages)} stages")
    if parallelism.pipeline_parallel_schedule_csv:
        check_schedule(parallelism.pipeline_parallel_schedule_csv)


def _check_batch(training, parallelism):
    degree = (parallelism.data_parallel_replicate_degree *
              parallelism.data_parallel_shard_degree)
    if training.global_batch_size % (training.local_batch_size * degree):
        raise ValueError(f"batch {training.global_batch_size} over {degree} replicas")


def _check_command_line(directory):
    """Release 0.3.0: arguments, the module with the model, and what only a start would refuse."""
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims, pipeline_parallel

    script = (directory / "launch.sh").read_text(encoding="utf-8")
    words = (directory / "arguments.txt").read_text(encoding="utf-8").split()
    config = ConfigManager().parse_args(words)
    ParallelDims.from_config(config.parallelism, _world_size(script))
    config.model_spec.model.update_from_config(config=config)
    _check_stages(config.parallelism, len(config.model_spec.model.layers), pipeline_parallel)
    _check_batch(config.training, config.parallelism)
    tokens = config.dataloader.build(dp_world_size=2, dp_rank=1, seq_len=config.training.seq_len,
                                     local_batch_size=2, tokenizer=config.tokenizer.build())
    inputs, labels = next(iter(tokens))
    if inputs["input"].shape != (2, config.training.seq_len) or labels.shape != inputs[
            "input"].shape:
        raise ValueError(f"mock data have the shape {inputs['input'].shape}")


def _check_toml(directory):
    """Release 0.2.2: the file, and what only a start would refuse."""
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims, pipeline_parallel
    from torchtitan.protocols.train_spec import get_train_spec

    script = (directory / "launch.sh").read_text(encoding="utf-8")
    config = ConfigManager().parse_args(["--job.config_file", "plan.toml"])
    parallelism = config.parallelism
    ParallelDims(dp_replicate=parallelism.data_parallel_replicate_degree,
                 dp_shard=parallelism.data_parallel_shard_degree,
                 cp=parallelism.context_parallel_degree, tp=parallelism.tensor_parallel_degree,
                 pp=parallelism.pipeline_parallel_degree, ep=parallelism.expert_parallel_degree,
                 etp=parallelism.expert_tensor_parallel_degree, world_size=_world_size(script))
    model = get_train_spec(config.model.name).model_args[config.model.flavor]
    model.update_from_config(config)
    _check_stages(parallelism, model.n_layers, pipeline_parallel)
    _check_batch(config.training, parallelism)


def check(directory) -> None:
    """Raises where the installed torchtitan refuses the export in a directory."""
    directory = pathlib.Path(directory).resolve()
    with _inside(directory):
        try:
            if (directory / "plan.toml").exists():
                _check_toml(directory)
            else:
                _check_command_line(directory)
        except SystemExit as error:  # the parser printed why
            raise ValueError("torchtitan's parser refuses the export") from error
