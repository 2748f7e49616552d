"""Compares a directory that was exported for transformers with the one that it came from."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

LOADING_LISTS = ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")


def _load(directory: Path) -> tuple[PreTrainedModel, list[str]]:
    """Returns a directory's model in f32, and what transformers found amiss."""
    loading: dict[str, Any]
    model, loading = AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    faults = [f"{directory}: {key}: {sorted(map(str, loading[key]))}, expected none"
              for key in LOADING_LISTS if loading.get(key)]
    return model.eval(), faults


def _differing_bits(ours: torch.Tensor, theirs: torch.Tensor) -> int:
    """Returns how many values of two tensors in f32 differ in a bit."""
    return int((ours.contiguous().view(torch.int32) != theirs.contiguous().view(torch.int32)).sum())


def _weight_faults(ours: PreTrainedModel, theirs: PreTrainedModel) -> list[str]:
    """Returns which weights differ."""
    found, expected = ours.state_dict(), theirs.state_dict()
    faults = [f"{name}: in one of both alone" for name in sorted(found.keys() ^ expected.keys())]
    for name in sorted(found.keys() & expected.keys()):
        if found[name].shape != expected[name].shape:
            faults.append(f"{name}: shape {list(found[name].shape)}, "
                          f"expected {list(expected[name].shape)}")
        elif count := _differing_bits(found[name], expected[name]):
            faults.append(f"{name}: {count} of {found[name].numel()} values differ")
    return faults


def _logit_faults(ours: PreTrainedModel, theirs: PreTrainedModel) -> list[str]:
    """Returns whether logits differ, which means that config.json says something else."""
    tokens = torch.arange(2 * 16).view(2, 16) * 7 % theirs.config.vocab_size
    with torch.no_grad():
        found, expected = (model(input_ids=tokens, use_cache=False).logits
                           for model in (ours, theirs))
    if found.shape != expected.shape or _differing_bits(found, expected):
        return ["config.json: equal weights have other logits"]
    return []


def export_faults(directory: Path, original: Path) -> list[str]:
    """Returns what tells an export from its original, when transformers loads both."""
    theirs, faults = _load(original)
    if faults:
        return faults
    try:
        ours, faults = _load(directory)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        return [f"{directory}: transformers cannot load it: {first}"]
    faults += _weight_faults(ours, theirs)
    return faults or _logit_faults(ours, theirs)
