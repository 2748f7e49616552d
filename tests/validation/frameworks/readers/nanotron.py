"""Parses an export for nanotron with nanotron 0.4's own configuration classes, and cuts the model with
its own build_model()."""

import ast
import contextlib
import importlib.util
import itertools
import json
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


class _Block:
    """Stands for a PipelineBlock, of which build_model() asks its builder alone."""

    def __init__(self, builder):
        self.module_builder = builder
        self.rank = None

    def build_and_set_rank(self, rank):
        self.rank = rank


def _definition(path, name, names):
    """Returns a class or function of a file, without running the rest of the file."""
    tree = ast.parse(pathlib.Path(path).read_text(encoding="utf-8"))
    found = [node for node in tree.body if getattr(node, "name", None) == name]
    exec(compile(ast.Module(found, []), str(path), "exec"), names)  # noqa: S102
    return names[name]


def _check_layers(program, expected):
    """Raises where nanotron, by the costs that the program gives it, cuts in another way."""
    import typing

    import numpy

    # models/base.py itself imports kernels that need a GPU's compiler.
    base = pathlib.Path(importlib.util.find_spec("nanotron").origin).parent / "models/base.py"
    names = {"PipelineBlock": _Block, "np": numpy, "log_rank": lambda *_, **__: None,
             "logger": None, "logging": types.SimpleNamespace(INFO=0),
             "torch": types.SimpleNamespace(dtype=None, device=str), "NanotronModel": None,
             "ParallelContext": None, "init_on_device_and_dtype":
             lambda **_: contextlib.nullcontext(), **vars(typing)}
    build_model = _definition(base, "build_model", names)
    planned_costs = _definition(program, "PlannedCosts", {"itertools": itertools})
    # models/llama.py: embedding, layers, norm, logits, cast, loss.
    blocks = [_Block(kind) for kind in ["embedding", *["layer"] * sum(expected), *"nlcs"]]
    model = types.SimpleNamespace(
        named_modules=lambda: [(str(i), block) for i, block in enumerate(blocks)],
        get_block_compute_costs=lambda: planned_costs(expected))
    group = types.SimpleNamespace(size=lambda: len(expected))
    build_model(lambda: model, types.SimpleNamespace(pp_pg=group, world_pg=None), None)
    ranks = [block.rank for block in blocks]
    found = [sum(block.rank == rank and block.module_builder == "layer" for block in blocks)
             for rank in range(len(expected))]
    if found != expected or ranks[0] != 0 or set(ranks[-4:]) != {len(expected) - 1}:
        raise ValueError(f"layers per stage {found}, all ranks {ranks}: expected {expected}")
    if (model.input_pp_rank, model.output_pp_rank) != (0, len(expected) - 1):
        raise ValueError(f"logits on rank {model.output_pp_rank} of {len(expected)}")


def check(directory) -> None:
    """Raises where config.yaml is refused, means something else than a batch or a model, where
    run_train.py is not Python, or where it has nanotron cut the model otherwise than the plan."""
    sys.modules.setdefault("nanotron.logging", _Logging("nanotron.logging"))
    from nanotron.config import get_config_from_file
    from nanotron.config.models_config import LlamaConfig

    directory = pathlib.Path(directory)
    plan = json.loads((directory.parents[1] / "plan.json").read_text(encoding="utf-8"))
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
    layers = json.loads((directory / "layers_per_stage.json").read_text(encoding="utf-8"))
    if layers != plan["schedule"]["layers_per_stage"]:
        raise ValueError(f"layers_per_stage.json: {layers}")
    _check_layers(directory / "run_train.py", layers)
