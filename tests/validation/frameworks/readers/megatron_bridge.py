"""Runs Megatron-Bridge's own checks of an exported configuration, without a GPU.

Needs Python 3.12 with torch, megatron-core 0.19.2, megatron-bridge 0.6.2, omegaconf, hydra-core and
transformers. Packages that Bridge imports, but configurations do not need, are stood in for.
"""

import contextlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import io
import os
import pathlib
import re
import runpy
import sys
import types
import unittest.mock

STOOD_IN = (
    "flashinfer",
    "megatron.energon",
    "modelopt",
    "nvidia_resiliency_ext",
    "transformer_engine",
    "transformer_engine_torch",
)
VERSION = "2.10.0"  # of TransformerEngine: the oldest that Megatron-FSDP's fusions take


def stand_in_class(name):
    """Returns a class that has every attribute that is asked for, as a class like itself."""
    import torch

    class AnyAttribute(type):
        def __getattr__(cls, attribute):
            if attribute.startswith("__"):
                raise AttributeError(attribute)
            return AnyAttribute(attribute, (torch.nn.Module,), {})

    return AnyAttribute(name, (torch.nn.Module,), {})


class StandIn(types.ModuleType):
    """A module that has every name."""

    __version__ = VERSION
    __path__ = []

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return stand_in_class(name)


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the packages of STOOD_IN as modules that have every name."""

    def find_spec(self, name, path=None, target=None):
        if any(name == package or name.startswith(package + ".") for package in STOOD_IN):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        pass


def stand_in():
    """Makes the packages of STOOD_IN importable where they are missing, once in a process."""
    if any(isinstance(finder, StandIns) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, StandIns())
    version = importlib.metadata.version
    importlib.metadata.version = lambda name: (
        VERSION if name.replace("_", "-").startswith("transformer-engine") else version(name)
    )


def processes_of(script):
    """Returns how many processes a launch script starts."""
    nodes, ranks = re.search(r"--nnodes=(\d+) --nproc-per-node=(\d+)", script).groups()
    return int(nodes) * int(ranks)


def make_groups(config, world):
    """Makes all process groups of the configuration on a process group that sends nothing."""
    import torch.distributed as dist
    from megatron.core import parallel_state
    from torch.testing._internal.distributed.fake_pg import FakeStore

    model = config.model
    dist.init_process_group("fake", store=FakeStore(), world_size=world, rank=0)
    try:
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=model.tensor_model_parallel_size,
            pipeline_model_parallel_size=model.pipeline_model_parallel_size,
            virtual_pipeline_model_parallel_size=model.virtual_pipeline_model_parallel_size,
            context_parallel_size=model.context_parallel_size,
            expert_model_parallel_size=model.expert_model_parallel_size,
            expert_tensor_parallel_size=model.expert_tensor_parallel_size,
            num_distributed_optimizer_instances=config.ddp.num_distributed_optimizer_instances,
            order="tp-cp-ep-pp-dp" if config.dist.use_tp_pp_dp_mapping else "tp-cp-ep-dp-pp",
            create_gloo_process_groups=False,
        )
        assert parallel_state.get_data_parallel_world_size() == config.data_parallel_size
    finally:
        parallel_state.destroy_model_parallel()
        dist.destroy_process_group()


def check(directory) -> None:
    """Raises an exception that says what Megatron-Bridge refuses of an export in `directory`."""
    stand_in()
    directory = pathlib.Path(directory)
    world = processes_of((directory / "launch.sh").read_text())
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CUDA_DEVICE_MAX", "NVTE_", "SLURM_"))
    } | {"WORLD_SIZE": str(world), "RANK": "0", "LOCAL_RANK": "0"}
    with (
        unittest.mock.patch.dict(os.environ, environment, clear=True),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        names = runpy.run_path(str(directory / "plan_config.py"))
        from megatron.bridge.training.config import runtime_config_update

        config = names["plan_config"](["train.train_iters=5"])
        assert config.train.train_iters == 5
        runtime_config_update(config)
        make_groups(config, world)
        compare(config, names["SETTINGS"])


def compare(config, settings):
    """Refuses values that Bridge changed on its own after they were set."""
    for path, expected in settings.items():
        group, name = path.split(".")
        found = getattr(getattr(config, group), name)
        if isinstance(expected, str) and not isinstance(found, str):
            continue  # names of functions and layouts, which are objects by now
        if name == "transformer_layer_spec":
            continue
        if found != expected and not (name == "bucket_size" and group == "ddp"):
            raise ValueError(f"{path}: set to {expected!r}, trains with {found!r}")
    batch = settings["train.micro_batch_size"] * config.data_parallel_size
    if settings["train.global_batch_size"] % batch != 0:
        raise ValueError(f"a batch of {settings['train.global_batch_size']}, {batch} at a time")


if __name__ == "__main__":
    failed = False
    for each in sys.argv[1:]:
        try:
            check(each)
            print(each, "ok", flush=True)
        except Exception as error:  # every refusal is to be shown
            failed = True
            print(each, type(error).__name__, str(error)[:600], flush=True)
    sys.exit(failed)
