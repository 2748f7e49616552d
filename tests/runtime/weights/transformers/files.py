"""Reads and writes the files of a case beside its config.json."""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

Tensors = dict[str, torch.Tensor]


def read_weights(directory: Path) -> Tensors:
    """Reads the weights of all of a directory's files, as they are stored."""
    weights: Tensors = {}
    for path in sorted(directory.glob("model*.safetensors")):
        weights |= load_file(path)
    return weights


def read_tokens(directory: Path) -> torch.Tensor:
    """Reads the tokens [batch, sequence + 1]."""
    return load_file(directory / "tokens.safetensors")["tokens"]


def write_results(path: Path, results: Tensors) -> None:
    """Writes results, where a loss has the shape [1]."""
    save_file({name: value.reshape(-1) if value.ndim == 0 else value.contiguous()
               for name, value in results.items()}, path)
