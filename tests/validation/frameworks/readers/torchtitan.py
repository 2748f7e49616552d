"""Reads exports for torchtitan 0.3.0 with its own parser."""

import pathlib

from readers.torchtitan_start import check_batch, check_stages, inside, world_size


def _check_command_line(directory):
    """Release 0.3.0: arguments, the module with the model, and what only a start would refuse."""
    from torchtitan.config import ConfigManager
    from torchtitan.distributed import ParallelDims, pipeline_parallel

    script = (directory / "launch.sh").read_text(encoding="utf-8")
    words = (directory / "arguments.txt").read_text(encoding="utf-8").split()
    config = ConfigManager().parse_args(words)
    ParallelDims.from_config(config.parallelism, world_size(script))
    config.model_spec.model.update_from_config(config=config)
    check_stages(config.parallelism, len(config.model_spec.model.layers), pipeline_parallel)
    check_batch(config.training, config.parallelism)
    tokens = config.dataloader.build(dp_world_size=2, dp_rank=1, seq_len=config.training.seq_len,
                                     local_batch_size=2, tokenizer=config.tokenizer.build())
    inputs, labels = next(iter(tokens))
    if inputs["input"].shape != (2, config.training.seq_len) or labels.shape != inputs[
            "input"].shape:
        raise ValueError(f"mock data have the shape {inputs['input'].shape}")


def check(directory) -> None:
    """Raises where torchtitan 0.3.0 refuses the export in a directory."""
    directory = pathlib.Path(directory).resolve()
    with inside(directory):
        try:
            _check_command_line(directory)
        except SystemExit as error:  # the parser printed why
            raise ValueError("torchtitan's parser refuses the export") from error
