"""Parses an export for nanotron with nanotron 0.4's own configuration classes."""

import ast
import pathlib
import sys
import types


class _Logging(types.ModuleType):
    """Stands for nanotron.logging: the wheel's modules import one another in a circle."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "get_logger":
            import logging

            return logging.getLogger
        return lambda *args, **kwargs: None


def check(directory) -> None:
    """Raises where config.yaml is refused, means something else than a batch or a model, or where
    run_train.py is not Python."""
    sys.modules.setdefault("nanotron.logging", _Logging("nanotron.logging"))
    from nanotron.config import get_config_from_file
    from nanotron.config.models_config import LlamaConfig

    directory = pathlib.Path(directory)
    config = get_config_from_file(str(directory / "config.yaml"))
    model = config.model.model_config
    if type(model) is not LlamaConfig:
        raise ValueError(f"model_config: expected a LlamaConfig, got {type(model).__name__}")
    degrees = config.parallelism
    launch = (directory / "launch.sh").read_text()
    words = dict(word.split("=", 1) for word in launch.split() if word.startswith("--n") and "=" in word)
    processes = int(words["--nnodes"]) * int(words["--nproc-per-node"])
    # The law of nanotron/parallel/context.py, ParallelContext.
    if degrees.tp * degrees.pp * degrees.dp * degrees.expert_parallel_size != processes:
        raise ValueError(f"{degrees}: expected a product of {processes} processes")
    if model.num_attention_heads % degrees.tp or model.num_key_value_heads % degrees.tp:
        raise ValueError(f"tp {degrees.tp}: expected a divisor of heads and key-value heads")
    ast.parse((directory / "run_train.py").read_text())
