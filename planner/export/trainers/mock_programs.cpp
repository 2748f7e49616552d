#include "planner/export/trainers/mock_programs.h"

namespace ptdp {

const std::string_view kNanotronTrain =
    R"python("""Trains nanotron 0.4 as config.yaml says, on made-up tokens."""

import argparse
import logging as standard_logging
import sys
import types


class Later(types.ModuleType):
    """Stands for nanotron.logging while nanotron.config is imported: the wheel's modules ask for
    one another in a circle. Functions taken from it call the real ones."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "get_logger":
            return standard_logging.getLogger
        if name.isupper():
            return getattr(standard_logging, name)
        return lambda *args, **kwargs: getattr(sys.modules["nanotron.logging"], name)(*args, **kwargs)


sys.modules["nanotron.logging"] = Later("nanotron.logging")
import nanotron.config  # noqa: E402

del sys.modules["nanotron.logging"]
import nanotron.logging  # noqa: E402
from nanotron.dataloader import dummy_infinite_data_generator  # noqa: E402
from nanotron.trainer import DistributedTrainer  # noqa: E402

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--config-file", required=True)
    trainer = DistributedTrainer(parser.parse_args().config_file)
    trainer.train(
        dummy_infinite_data_generator(
            micro_batch_size=trainer.micro_batch_size,
            sequence_length=trainer.sequence_length,
            input_pp_rank=trainer.unwrapped_model.input_pp_rank,
            output_pp_rank=trainer.unwrapped_model.output_pp_rank,
            vocab_size=trainer.model_config.vocab_size,
            seed=trainer.config.data.seed,
            parallel_context=trainer.parallel_context,
        )()
    )
)python";

const std::string_view kDeepspeedPretrain =
    R"python("""Starts pretrain_gpt.py of the Megatron-DeepSpeed that the first argument names.

Without --data-path, the first process writes a corpus of made-up tokens, which all must see."""

import array
import os
import random
import runpy
import struct
import sys
import time


def write_corpus(prefix, vocabulary, documents=64, tokens=65536):
    """Writes .bin and .idx as megatron/data/indexed_dataset.py reads them: int32 tokens, version 1."""
    numbers = random.Random(1234)
    with open(prefix + ".bin", "wb") as out:
        for _ in range(documents):
            array.array("i", (numbers.randrange(vocabulary) for _ in range(tokens))).tofile(out)
    with open(prefix + ".idx.part", "wb") as out:
        out.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 4, documents, documents + 1))
        array.array("i", [tokens] * documents).tofile(out)
        array.array("q", [4 * tokens * i for i in range(documents)]).tofile(out)
        array.array("q", range(documents + 1)).tofile(out)
    os.replace(prefix + ".idx.part", prefix + ".idx")  # the others wait for this file


if __name__ == "__main__":
    program = os.path.join(os.path.abspath(sys.argv.pop(1)), "pretrain_gpt.py")
    if "--data-path" not in sys.argv:
        prefix = os.path.join(os.path.dirname(os.path.abspath(__file__)), "made_up_tokens")
        if os.environ["RANK"] == "0" and not os.path.exists(prefix + ".idx"):
            write_corpus(prefix, int(sys.argv[sys.argv.index("--vocab-size") + 1]))
        while not os.path.exists(prefix + ".idx"):
            time.sleep(1)
        sys.argv += ["--data-path", prefix, "--split", "100,0,0"]
    sys.argv[0] = program
    sys.path.insert(0, os.path.dirname(program))
    runpy.run_path(program, run_name="__main__")
)python";

const std::string_view kAccelerateTrain =
    R"python("""Trains the model of model.json with Accelerate, on made-up tokens."""

import json
import os
import time

import torch
from accelerate import Accelerator
from accelerate.utils import GradientAccumulationPlugin
from torch.utils.data import DataLoader
from transformers import AutoConfig, AutoModelForCausalLM


def read(name):
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name)) as file:
        return json.load(file)


def make_model(accelerator):
    config = AutoConfig.for_model(**read("model.json"))
    mesh = accelerator.torch_device_mesh
    if mesh is None or "tp" not in mesh.mesh_dim_names:
        return AutoModelForCausalLM.from_config(config)
    # Matrices are split while a checkpoint is read: it is written first where MODEL_DIR has none.
    path = os.environ["MODEL_DIR"]
    if accelerator.is_main_process and not os.path.exists(os.path.join(path, "config.json")):
        AutoModelForCausalLM.from_config(config).save_pretrained(path)
    accelerator.wait_for_everyone()
    return AutoModelForCausalLM.from_pretrained(path, tp_plan="auto", device_mesh=mesh["tp"])


if __name__ == "__main__":
    batch = read("batch.json")
    # Gradients are reduced after every microbatch: else FSDP2 keeps them whole in between.
    accelerator = Accelerator(
        gradient_accumulation_plugin=GradientAccumulationPlugin(
            num_steps=batch["gradient_accumulation_steps"], sync_each_batch=batch["shards_gradients"]
        )
    )
    model = make_model(accelerator)
    count = batch["steps"] * batch["global_batch_size"]
    vocabulary = model.config.vocab_size
    tokens = [torch.randint(vocabulary, (batch["sequence_length"],)) for _ in range(min(count, 64))]
    samples = [{"input_ids": tokens[i % len(tokens)]} for i in range(count)]
    data = DataLoader(samples, batch_size=batch["micro_batch_size"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0e-4, weight_decay=0.1)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    model.train()
    begin = time.perf_counter()
    for microbatch in data:
        ids = microbatch["input_ids"]
        # Targets are shifted before context parallelism cuts the sequence.
        labels = torch.nn.functional.pad(ids[:, 1:], (0, 1), value=-100)
        positions = torch.arange(ids.shape[1], device=ids.device).unsqueeze(0)
        buffers = [ids, labels, positions]
        with accelerator.accumulate(model), accelerator.maybe_context_parallel(
            buffers=buffers, buffer_seq_dims=[1] * len(buffers), no_restore_buffers=set(buffers)
        ):
            loss = model(
                input_ids=ids, position_ids=positions, shift_labels=labels, labels=labels, use_cache=False
            ).loss
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if accelerator.sync_gradients:
            end = time.perf_counter()
            accelerator.print(f"loss {loss.item():.4f} time per step (s) {end - begin:.3f}")
            begin = time.perf_counter()
    if torch.cuda.is_available():
        accelerator.print(f"max allocated (GB) {torch.cuda.max_memory_allocated() / 1e9:.1f}")
    accelerator.end_training()
)python";

}  // namespace ptdp
