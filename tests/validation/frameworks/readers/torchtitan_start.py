"""What both of torchtitan's releases would refuse at a start only: cuts of the model, batches."""

import contextlib
import os
import re
import sys

from readers.schedule_csv import check_same_orders, check_schedule


def world_size(script):
    match = re.search(r"--nnodes=(\d+) --nproc-per-node=(\d+)", script)
    if match is None:
        raise ValueError("launch.sh starts no torchrun with nodes and processes")
    return int(match[1]) * int(match[2])


@contextlib.contextmanager
def inside(directory):
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


def check_stages(parallelism, num_layers, pipeline):
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
    else:
        degree = parallelism.pipeline_parallel_degree
        check_same_orders(parallelism.pipeline_parallel_schedule, degree, len(stages) // degree,
                          "../schedule-csv/schedule.csv")


def check_batch(training, parallelism):
    degree = (parallelism.data_parallel_replicate_degree *
              parallelism.data_parallel_shard_degree)
    if training.global_batch_size % (training.local_batch_size * degree):
        raise ValueError(f"batch {training.global_batch_size} over {degree} replicas")
