#!/usr/bin/env python3
"""Writes tests/golden/safetensors/ with the libraries themselves: safetensors 0.8.0, torch 2.15.0 and
huggingface_hub 1.33.0. Values follow from a formula that the tests repeat.

usage: make_golden.py DIRECTORY"""

import pathlib
import sys

import torch
from huggingface_hub import save_torch_state_dict
from safetensors.torch import save_file


def values(count, first=0):
    """(i − 5)/8 for the numbers i from `first` on: exact in each of the four types."""
    return (torch.arange(first, first + count, dtype=torch.float64) - 5) / 8


def main():
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    # Values that each type rounds: ties, subnormals, overflow. All are exact in f32, so that torch's
    # way from f64 over f32 rounds once.
    hard = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 3 * 2**-11, 65519.0, 65520.0,
                         -65536.0, 2.0**-24, 2.0**-25, 3 * 2.0**-26, 2.0**-133, 2.0**-134, 1.0 / 3,
                         -0.0, float("inf"), float("-inf")], dtype=torch.float32)
    save_file({
        "matrix.f64": values(12).reshape(3, 4),
        "matrix.f32": values(12).float().reshape(3, 4),
        "matrix.bf16": values(12).bfloat16().reshape(3, 4),
        "matrix.f16": values(12).half().reshape(3, 4),
        "row": values(5).float(),
        "hard.f64": hard.double(),
        "hard.f32": hard,
        "hard.bf16": hard.bfloat16(),
        "hard.f16": hard.half(),
        "scalar": torch.tensor(2.5),
        "cube": values(8).float().reshape(2, 2, 2),
        "none": torch.zeros(0, 4),
        "steps": torch.tensor([1, 2, 3]),
        "flags": torch.tensor([True, False]),
        "eighths": torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn),
        "größe": torch.ones(1),
    }, directory / "model.safetensors", metadata={"format": "pt"})
    # Files of at most 150 bytes: 96 + 48, then 96 + 20.
    (directory / "sharded").mkdir(exist_ok=True)
    save_torch_state_dict({
        "a.weight": values(24).float().reshape(4, 6),
        "b.weight": values(24, 24).bfloat16().reshape(6, 4),
        "c.weight": values(12, 48).double().reshape(3, 4),
        "d.bias": values(5, 60).float(),
    }, directory / "sharded", max_shard_size=150)


if __name__ == "__main__":
    main()
