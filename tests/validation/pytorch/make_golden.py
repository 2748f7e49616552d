#!/usr/bin/env python3
"""Writes golden_*.json: losses, gradients and training curves of small GPT-2 models as PyTorch
computes them in f64. Weights and tokens follow from their numbers by integer arithmetic, which the
test repeats. Needs PyTorch 1.13 or later.
usage: /usr/bin/python3 tests/validation/pytorch/make_golden.py"""

import json
import pathlib

import numpy as np
import torch

import gpt2

CONFIGS = {
    "tied": dict(num_layers=2, hidden_size=24, num_attention_heads=4, ffn_hidden_size=40,
                 vocab_size=61, seq_length=12),
    "untied": dict(num_layers=3, hidden_size=16, num_attention_heads=4, kv_channels=6,
                   ffn_hidden_size=28, vocab_size=61, seq_length=12, untied_embeddings=True),
    "no_bias": dict(num_layers=2, hidden_size=24, num_attention_heads=4, ffn_hidden_size=40,
                    vocab_size=61, seq_length=12, add_bias_linear=False),
}
BATCH = 6
TRAINING = dict(steps=20, maximum=0.02, minimum=0.002, warm_up=4, decay=18, beta1=0.9, beta2=0.95,
                epsilon=1e-8, weight_decay=0.1, clip=0.5)


def mixed(numbers):
    """Uniform 32-bit numbers out of any."""
    x = np.asarray(numbers, dtype=np.uint64) & 0xFFFFFFFF
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor) & 0xFFFFFFFF
    return x ^ (x >> np.uint64(16))


def hash_of(name):
    """FNV-1a, 32 bits."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def initial(name, shape):
    """Uniform in ±0.3 for matrices, ±0.1 around 1 for gamma and around 0 for other vectors."""
    numbers = mixed(np.arange(np.prod(shape), dtype=np.uint64) * 2654435761 + hash_of(name))
    values = 2.0 * numbers.astype(np.float64) / 2.0**32 - 1.0
    values *= 0.3 if len(shape) > 1 else 0.1
    return torch.tensor(values + (1.0 if name.endswith("gamma") else 0.0)).reshape(shape)


def batch_of(step, model):
    """Tokens and targets [B, s]: sample g is tokens mixed(1009·g + position) mod V."""
    s = model["seq_length"]
    samples = step * BATCH + np.arange(BATCH)
    text = mixed(1009 * samples[:, None] + np.arange(s + 1)) % model["vocab_size"]
    text = torch.tensor(text.astype(np.int64))
    return text[:, :-1], text[:, 1:]


def golden(config):
    model = gpt2.GPT2(config).double()
    parameters = model.parameters_by_name()
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(initial(name, parameter.shape))

    loss = model(*batch_of(0, config))
    loss.backward()
    gradients = {name: parameter.grad.flatten().tolist()
                 for name, parameter in sorted(parameters.items())}

    settings = TRAINING
    optimizer = gpt2.adamw(list(parameters.values()), settings["beta1"], settings["beta2"],
                           settings["epsilon"], settings["weight_decay"])
    curve = []
    for step in range(settings["steps"]):
        rate = gpt2.learning_rate(step + 1, settings["maximum"], settings["minimum"],
                                  settings["warm_up"], settings["decay"])
        curve.append(gpt2.train_step(model, optimizer, rate, settings["clip"],
                                     *batch_of(step, config)))
    norms = {name: parameter.norm().item() for name, parameter in sorted(parameters.items())}
    return dict(torch=torch.__version__, model=config, global_batch_size=BATCH, loss=loss.item(),
                gradients=gradients, training=settings, losses=[loss for loss, _ in curve],
                gradient_norms=[norm for _, norm in curve], trained_norms=norms)


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(__file__).resolve().parent
    for name, config in CONFIGS.items():
        path = folder / f"golden_{name}.json"
        path.write_text(json.dumps(golden(config), separators=(",", ":")) + "\n")
        print(path.name, path.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
