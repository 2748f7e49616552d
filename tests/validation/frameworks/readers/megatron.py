"""Reads exports for Megatron-LM with megatron-core's own parser, checks and process groups: arguments,
TransformerConfig, layers of every stage, parameters of the model, members of groups. No GPU is
needed. Beside the export lie rank-map/ and, above, plan.json and parameters.json (plans.py)."""

import argparse
import contextlib
import copy
import csv
import functools
import json
import os
import pathlib
import random
import re
import shlex
import sys

GPU_ARCHITECTURES = {"a100": 8, "h100": 9, "h200": 9, "h800": 9, "b200": 10, "gb200": 10,
                     "b300": 10, "gb300": 10}


class Disagreement(Exception):
    """A framework understands an export in another way than the plan."""


def demand(what, found, expected):
    if found != expected:
        raise Disagreement(f"{what}: the framework has {found}, the plan {expected}")


def environment_of(script):
    """Returns the variables that a launch script exports."""
    found = re.findall(r"^export ([A-Z_]+)=(\S+)$", script.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: value.strip("'\"") for name, value in found}


@contextlib.contextmanager
def environment(variables):
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def world_size(config):
    return config["tp"] * config["pp"] * config["dp"] * config["cp"]


def architecture(plan):
    """Returns the major compute capability of a plan's GPUs."""
    name = plan["inputs"]["cluster"]["gpu"]["name"].lower()
    return next((number for key, number in GPU_ARCHITECTURES.items() if key in name), 9)


@functools.cache
def megatron_core():
    """Imports Megatron-Core once, and returns its check of a plan's export."""
    import torch
    import torch.distributed as dist
    from megatron.core import parallel_state
    from megatron.core.models.gpt import gpt_layer_specs
    from megatron.core.models.gpt.gpt_model import GPTModel
    from megatron.core.transformer import (dot_product_attention, transformer_block,
                                           transformer_config)
    from megatron.training import argument_utils, arguments, training
    from torch.testing._internal.distributed.fake_pg import FakeStore

    # TransformerEngine has no wheel that needs no compiler; the newest is taken to be there.
    for module in (arguments, transformer_config):
        module.is_te_min_version = lambda *_, **__: True
    # What names functions of TransformerEngine is switched off, for the check only.
    without_engine = ["--no-rope-fusion", "--no-persist-layer-norm",
                      "--no-gradient-accumulation-fusion"]
    torch.cuda.Stream = torch.cuda.Event = lambda *_, **__: None
    torch.cuda.current_device = lambda: "meta"
    # Megatron-Core's own attention has no parameters, and no widths of its own for keys and values.
    attention = dot_product_attention.DotProductAttention
    made_before = attention.__init__
    attention.__init__ = lambda self, *words, k_channels=None, v_channels=None, **more: \
        made_before(self, *words, **more)
    # Building the parser takes longer than all else; what it parses is copied, defaults included.
    parser = arguments.add_megatron_arguments(
        argparse.ArgumentParser("pretrain_gpt.py", allow_abbrev=False))
    arguments.add_megatron_arguments = lambda _: parser
    arguments._print_args = lambda *_: None
    chance = random.Random(1)
    shapes_seen = set()

    def parsed(plan, words):
        major = architecture(plan)
        arguments.get_device_arch_version = lambda: major
        torch.cuda.get_device_capability = lambda *_: (major, 0)
        sys.argv = ["pretrain_gpt.py", *words, "--mock-data", "--tokenizer-type", "NullTokenizer",
                    *without_engine]
        args = copy.deepcopy(arguments.parse_args())
        return arguments.validate_args(args) or args

    @contextlib.contextmanager
    def process_groups(args, rank):
        dist.init_process_group(backend="fake", store=FakeStore(), world_size=args.world_size,
                                rank=rank)
        try:
            parallel_state.initialize_model_parallel(
                args.tensor_model_parallel_size, args.pipeline_model_parallel_size,
                args.virtual_pipeline_model_parallel_size,
                context_parallel_size=args.context_parallel_size,
                expert_model_parallel_size=args.expert_model_parallel_size,
                expert_tensor_parallel_size=args.expert_tensor_parallel_size,
                num_distributed_optimizer_instances=args.num_distributed_optimizer_instances,
                order="tp-cp-ep-pp-dp" if args.use_tp_pp_dp_mapping else "tp-cp-ep-dp-pp",
                create_gloo_process_groups=False)
            yield
        finally:
            parallel_state.destroy_model_parallel()
            dist.destroy_process_group()

    def check_shape(plan, words, variables, parameters):
        """Builds the whole model without memory, once for each model: its parameters are ours."""
        name = plan["inputs"]["model_name"]
        if name in shapes_seen or name not in parameters:
            return
        shapes_seen.add(name)
        backend = words[words.index("--attention-backend") + 1]
        # Norms of torch, which stand for the engine's, have no weights that are stored minus 1.
        words = [word for word in words[:words.index("--tensor-model-parallel-size")]
                 if word not in ("--moe-grouped-gemm", "--apply-layernorm-1p")]
        if "--mtp-num-layers" in words:  # published numbers leave these layers out
            place = words.index("--mtp-num-layers")
            del words[place:place + 2]
        words += ["--micro-batch-size", "1", "--bf16", "--lr", "1e-4", "--min-lr", "1e-5",
                  "--attention-backend", backend, "--transformer-impl", "local",
                  "--use-cpu-initialization", "--no-initialization"]
        with environment({"WORLD_SIZE": "1", "RANK": "0"} | variables):
            args = parsed(plan, words)
            config = argument_utils.core_transformer_config_from_args(args)
            with process_groups(args, 0), torch.device("meta"):
                spec = gpt_layer_specs.get_gpt_decoder_block_spec(
                    config, use_transformer_engine=False, normalization=args.normalization)
                model = GPTModel(
                    config, spec, vocab_size=args.vocab_size,
                    max_sequence_length=args.max_position_embeddings,
                    share_embeddings_and_output_weights=
                    not args.untie_embeddings_and_output_weights,
                    position_embedding_type=args.position_embedding_type)
        weights = [*model.parameters(),
                   *(bias for key, bias in model.named_buffers() if key.endswith("expert_bias"))]
        demand("parameters", sum(weight.numel() for weight in weights), parameters[name])

    def check_numerics(args, model):
        """Demands what decides the result of training but no shape."""
        demand("norms stored minus 1", args.layernorm_zero_centered_gamma,
               model.get("layernorm_zero_centered_gamma", False))
        demand("epsilon", args.layernorm_epsilon, model.get("layernorm_epsilon", 1e-5))
        if model.get("position_embedding") != "rope":
            return
        scaling = model.get("rope_scaling", "none")
        demand("rotary base", args.rotary_base, model.get("rotary_base", 10000))
        demand("part of a head that is turned", args.rotary_percent,
               model.get("rotary_percent", 1.0))
        demand("angles as of Llama 3", args.use_rope_scaling, scaling == "llama3")
        if scaling == "llama3":
            demand("factor of Llama 3", args.rope_scaling_factor, model["rope_scaling_factor"])
        if args.multi_latent_attention:
            demand("factor of YaRN", args.rotary_scaling_factor,
                   model.get("rope_scaling_factor", 1.0))

    def check_values(plan, args):
        config, schedule, model = plan["config"], plan["schedule"], plan["inputs"]["model"]
        demand("data-parallel size", args.data_parallel_size, config["dp"])
        demand("virtual stages", args.virtual_pipeline_model_parallel_size or 1, config["vpp"])
        samples = args.micro_batch_size * args.data_parallel_size
        demand("microbatches", args.global_batch_size // samples, schedule["num_microbatches"])
        demand("sequence parallel", bool(args.sequence_parallel),
               config["sequence_parallel"] and config["tp"] > 1)
        demand("ZeRO", bool(args.use_distributed_optimizer), config["zero_stage"] > 0)
        check_numerics(args, model)
        demand("query groups",
               args.num_query_groups if args.group_query_attention else args.num_attention_heads,
               model.get("num_query_groups", model["num_attention_heads"])
               if not args.multi_latent_attention else args.num_attention_heads)

    def check_layers(plan, config):
        pp, vpp = plan["config"]["pp"], plan["config"]["vpp"]
        chunks = range(vpp) if vpp > 1 else [None]
        layers = []
        parallel_state.set_virtual_pipeline_model_parallel_world_size(vpp if vpp > 1 else None)
        for chunk in chunks:
            for rank in range(pp):
                parallel_state.set_pipeline_model_parallel_rank(rank)  # what a layout asks
                layers.append(transformer_block.get_num_layers_to_build(config, chunk, rank))
        parallel_state.set_pipeline_model_parallel_rank(None)
        parallel_state.set_virtual_pipeline_model_parallel_world_size(None)
        demand("layers per stage", layers, plan["schedule"]["layers_per_stage"])

    def check_groups(args, rank, row):
        groups = {"tp": parallel_state.get_tensor_model_parallel_group,
                  "cp": parallel_state.get_context_parallel_group,
                  "dp": parallel_state.get_data_parallel_group,
                  "pp": parallel_state.get_pipeline_model_parallel_group}
        if "ep_group" in row:
            groups |= {"ep": parallel_state.get_expert_model_parallel_group,
                       "etp": parallel_state.get_expert_tensor_parallel_group,
                       "edp": parallel_state.get_expert_data_parallel_group}
        with process_groups(args, rank):
            for name, group in groups.items():
                demand(f"rank {rank}'s {name} group", dist.get_process_group_ranks(group()),
                       [int(word) for word in row[name + "_group"].split()])

    def check_export(exported):
        exports = exported.parent
        plan = json.loads((exports.parent / "plan.json").read_text(encoding="utf-8"))
        parameters = json.loads((exports.parents[1] / "parameters.json").read_text("utf-8"))
        world = world_size(plan["config"])
        variables = environment_of(exported / "launch.sh")
        words = shlex.split((exported / "arguments.txt").read_text(encoding="utf-8"))
        with environment({"WORLD_SIZE": str(world), "RANK": "0"} | variables):
            args = parsed(plan, words)
            check_values(plan, args)
            check_layers(plan, argument_utils.core_transformer_config_from_args(args))
            training.get_megatron_optimizer_config(args)
            training.get_megatron_ddp_config(args)
        check_shape(plan, words, variables, parameters)
        with open(exports / "rank-map/rank_map.csv", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        ranks = {0, world - 1, chance.randrange(world)}
        for rank in sorted(ranks) if world <= 64 else [chance.choice(sorted(ranks))]:
            check_groups(args, rank, rows[rank])  # takes seconds for thousands of ranks

    return check_export


def check(directory):
    """Raises where Megatron-Core refuses the export in a directory, or means something else."""
    megatron_core()(pathlib.Path(directory))
