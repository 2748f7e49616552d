"""Writes a case into a directory: config.json, weights and tokens, as transformers would."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging

from configurations import Case, Config

logging.disable_progress_bar()
logging.set_verbosity_error()

ONE_CENTERED_TYPES = ("gemma", "gemma2", "nemotron")
"""Types that store a norm's weights minus 1."""
SCALED_EMBEDDING_TYPES = ("gemma", "gemma2")
"""Types that multiply embeddings by the root of the hidden size."""


@dataclass(frozen=True)
class Storage:
    """How weights lie in files."""

    dtype: torch.dtype = torch.float32
    largest_shard: str = "1GB"


def _deviation(name: str, shape: torch.Size, config: PreTrainedConfig) -> float:
    """Returns the deviation of a matrix that keeps what it passes on of order 1."""
    if any(part in name for part in ("embed_tokens", "embed_in", "wte")):
        is_small = config.tie_word_embeddings or config.model_type in SCALED_EMBEDDING_TYPES
        return 1.0 / math.sqrt(shape[1]) if is_small else 1.0
    if "wpe" in name:
        return 0.5
    is_conv1d = config.model_type == "gpt2" and "lm_head" not in name
    return 1.0 / math.sqrt(shape[0] if is_conv1d else shape[1])


def _draw_weight(name: str, shape: torch.Size, config: PreTrainedConfig,
                 generator: torch.Generator) -> torch.Tensor:
    """Draws a parameter in f32 whose every value bf16 holds exactly."""
    noise = torch.randn(shape, generator=generator)
    if len(shape) == 2:
        weight = noise * _deviation(name, shape, config)
    elif name.endswith("bias"):
        weight = noise * 0.3
    else:
        weight = noise * 0.25 + (0.0 if config.model_type in ONE_CENTERED_TYPES else 1.0)
    return weight.to(torch.bfloat16).to(torch.float32)


def _random_model(case: Case, generator: torch.Generator) -> PreTrainedModel:
    """Returns the case's model with random weights, norms and biases included."""
    config = AutoConfig.for_model(**case.config)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(_draw_weight(name, parameter.shape, config, generator))
    return model


def _old_spelling(config: Config) -> Config:
    """Returns a config.json of transformers 5 as transformers 4 spelled it."""
    old = {key: value for key, value in config.items() if key != "layer_types"}
    old["torch_dtype"] = old.pop("dtype")
    rope = dict(old.pop("rope_parameters", {}))
    if not rope:
        return old
    is_neox = config["model_type"] == "gpt_neox"
    old["rotary_emb_base" if is_neox else "rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        factor = rope.pop("partial_rotary_factor")
        old["rotary_pct" if is_neox else "partial_rotary_factor"] = factor
    if rope["rope_type"] in ("linear", "longrope"):
        rope["type"] = rope.pop("rope_type")
    old["rope_scaling"] = None if rope.get("rope_type") == "default" else rope
    return old


def _without_spelling(config: PreTrainedConfig) -> Config:
    """Returns what a configuration says, however its file spells it."""
    said = config.to_dict()
    if "rope_parameters" in said:
        said["rope_parameters"] = dict(said["rope_parameters"])
        said["rope_parameters"].pop("type", None)
        # Files of transformers 5 repeat it in some types at the top, where it says the same.
        said.pop("partial_rotary_factor", None)
    return said


def _write_old_spelling(directory: Path) -> None:
    """Rewrites config.json, and checks that transformers reads it as before."""
    path = directory / "config.json"
    before = _without_spelling(AutoConfig.from_pretrained(directory))
    old = _old_spelling(json.loads(path.read_text()))
    path.write_text(json.dumps(old, indent=2, sort_keys=True) + "\n")
    after = _without_spelling(AutoConfig.from_pretrained(directory))
    differing = sorted(key for key in before.keys() | after.keys()
                       if before.get(key) != after.get(key))
    if differing:
        raise AssertionError(f"{path}: the old spelling changes {', '.join(differing)}")


def write_case(directory: Path, case: Case, seed: int, storage: Storage = Storage()) -> None:
    """Writes config.json, weights in safetensors and tokens [batch, sequence + 1]."""
    generator = torch.Generator().manual_seed(seed)
    model = _random_model(case, generator).to(storage.dtype)
    directory.mkdir(parents=True, exist_ok=True)
    for earlier in directory.glob("model*.safetensors*"):
        earlier.unlink()
    model.save_pretrained(directory, max_shard_size=storage.largest_shard)
    (directory / "generation_config.json").unlink(missing_ok=True)
    if case.is_old:
        _write_old_spelling(directory)
    tokens = torch.randint(case.config["vocab_size"], (case.batch, case.sequence + 1),
                           generator=generator)
    save_file({"tokens": tokens}, directory / "tokens.safetensors")
