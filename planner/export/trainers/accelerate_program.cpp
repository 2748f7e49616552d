// The program that trains with Accelerate on made-up tokens.
#include "planner/export/trainers/mock_programs.h"

namespace ptdp {

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
