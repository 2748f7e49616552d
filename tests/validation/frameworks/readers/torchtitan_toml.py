"""Reads exports for torchtitan 0.2.2 with its own parser, and makes its model without memory."""

import pathlib

from readers.torchtitan_start import check_batch, check_stages, inside, world_size


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
                 etp=parallelism.expert_tensor_parallel_degree, world_size=world_size(script))
    model = get_train_spec(config.model.name).model_args[config.model.flavor]
    model.update_from_config(config)
    check_stages(parallelism, model.n_layers, pipeline_parallel)
    check_batch(config.training, parallelism)


def check(directory) -> None:
    """Raises where torchtitan 0.2.2 refuses the export in a directory."""
    directory = pathlib.Path(directory).resolve()
    with inside(directory):
        try:
            _check_toml(directory)
        except SystemExit as error:  # the parser printed why
            raise ValueError("torchtitan's parser refuses the export") from error
