"""Computes with transformers: as it is in f32, and in f64 without its islands of f32."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

import reference
from files import Tensors, read_tokens, read_weights

PROOF_TOLERANCE = 1e-12
"""Relative to the largest absolute value of a tensor; the worst that was seen is 3.8e-14."""
NARROW_TYPES = (torch.float32, torch.bfloat16, torch.float16)


def _widened(value: Any) -> Any:
    """Returns f64 for f32, and anything else as it is."""
    return torch.float64 if value is torch.float32 else value


class DoublePrecision(TorchFunctionMode):
    """Makes f32 mean f64 in every call of torch made inside, and refuses results narrower."""

    def __torch_function__(self, func: Callable[..., Any], types: Iterable[type],
                           args: tuple[Any, ...] = (),
                           kwargs: Mapping[str, Any] | None = None) -> Any:
        """Calls the function with its types widened."""
        called = torch.Tensor.double if func is torch.Tensor.float else func
        result = called(*tree_map(_widened, args), **tree_map(_widened, dict(kwargs or {})))
        for leaf in tree_leaves(result):
            # Asking for a dtype passes here as well, so that the plain getter must not.
            with torch._C.DisableTorchFunction():
                if isinstance(leaf, torch.Tensor) and leaf.dtype in NARROW_TYPES:
                    raise AssertionError(f"{func} returned {leaf.dtype} in double precision")
        return result


def _logits_and_loss(model: PreTrainedModel, tokens: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Returns the logits of all tokens but the last, and the mean loss of what follows each."""
    logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
    targets = tokens[:, 1:].contiguous()
    loss = model.loss_function(logits=logits, labels=None, vocab_size=model.config.vocab_size,
                               shift_labels=targets)
    return logits, loss


def results_as_is(directory: Path) -> Tensors:
    """Returns `logits_f32` and `loss_f32` of transformers in f32."""
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    with torch.no_grad():
        logits, loss = _logits_and_loss(model, read_tokens(directory))
    return {"logits_f32": logits, "loss_f32": loss}


def _double_model(directory: Path, weights: Tensors) -> PreTrainedModel:
    """Returns a directory's model in f64; its buffers are f64 too, inside DoublePrecision."""
    config = AutoConfig.from_pretrained(directory)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float64,
                                             attn_implementation="eager").eval()
    parameters = dict(model.named_parameters())
    if parameters.keys() != weights.keys():
        raise AssertionError(f"{directory}: {sorted(parameters.keys() ^ weights.keys())} are in "
                             "one of model and file alone")
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])
    return model


def results_in_double(directory: Path) -> Tensors:
    """Returns `logits`, `loss` and `grad.<parameter>` of transformers in f64."""
    weights = {name: weight.double() for name, weight in read_weights(directory).items()}
    tokens = read_tokens(directory)
    with DoublePrecision():
        model = _double_model(directory, weights)
        logits, loss = _logits_and_loss(model, tokens)
        loss.backward()
    gradients = {f"grad.{name}": parameter.grad for name, parameter in model.named_parameters()}
    return {"logits": logits.detach(), "loss": loss.detach()} | gradients


def relative_difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Returns the largest difference over the largest absolute value that was expected."""
    scale = expected.abs().max().item()
    difference = (found.double() - expected.double()).abs().max().item()
    return difference / scale if scale > 0.0 else difference


def _prove(directory: Path, results: Tensors) -> float:
    """Compares with the plain implementation, and returns the largest difference."""
    independent = reference.results(directory)
    if independent.keys() != results.keys():
        raise AssertionError(f"{directory}: {sorted(independent.keys() ^ results.keys())} are in "
                             "one result alone")
    worst = 0.0
    for name, expected in independent.items():
        difference = relative_difference(results[name], expected)
        if not difference <= PROOF_TOLERANCE:
            raise AssertionError(f"{directory}: {name}: transformers and the plain implementation "
                                 f"differ by {difference:.2e}, expected {PROOF_TOLERANCE:.0e}")
        worst = max(worst, difference)
    return worst


def proved_results(directory: Path) -> tuple[Tensors, float]:
    """Returns all results of a directory, and how far two implementations in f64 are apart."""
    results = results_in_double(directory)
    worst = _prove(directory, results)
    return results | results_as_is(directory), worst
