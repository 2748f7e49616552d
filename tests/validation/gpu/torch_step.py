#!/usr/bin/env python3
"""Time of a GPT training step in PyTorch, for section `pytorch`; prints it as JSON.

The stack that ptdp-run trains: learned positions, pre-norm layers, GELU (tanh form), tied
embeddings, biases, no dropout, AdamW, gradients clipped by their norm. And the same bytes per
parameter: bf16 weights (2), f32 sums of gradients (4), f32 masters (4) and moments (8). The loss is
compiled as a whole, attention is cuDNN's, AdamW is PyTorch's fused one.
"""
import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    def __init__(self, hidden, heads, kind):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(hidden, **kind)
        self.qkv = nn.Linear(hidden, 3 * hidden, **kind)
        self.projection = nn.Linear(hidden, hidden, **kind)
        self.norm2 = nn.LayerNorm(hidden, **kind)
        self.up = nn.Linear(hidden, 4 * hidden, **kind)
        self.down = nn.Linear(4 * hidden, hidden, **kind)

    def forward(self, x):
        batch, length, hidden = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, hidden // self.heads)
        query, key, value = (part.transpose(1, 2) for part in qkv.unbind(2))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, hidden))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """Its result is the mean loss of a microbatch."""

    def __init__(self, arguments, kind):
        super().__init__()
        hidden = arguments.hidden
        self.table = nn.Embedding(arguments.vocabulary, hidden, **kind)
        self.positions = nn.Embedding(arguments.length, hidden, **kind)
        self.layers = nn.ModuleList(Layer(hidden, arguments.heads, kind)
                                    for _ in range(arguments.layers))
        self.norm = nn.LayerNorm(hidden, **kind)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.table(tokens) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        logits = functional.linear(self.norm(x), self.table.weight)
        return functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


class Trainer:
    """A model with f32 sums of gradients and f32 masters of its bf16 weights."""

    def __init__(self, arguments):
        self.arguments = arguments
        kind = {"device": arguments.device, "dtype": torch.bfloat16}
        self.model = Gpt(arguments, kind)
        self.weights = list(self.model.parameters())
        self.masters = [weight.detach().float() for weight in self.weights]
        for master in self.masters:
            master.grad = torch.zeros_like(master)
        self.sums = [master.grad for master in self.masters]
        self.has_hooks = hasattr(torch.Tensor, "register_post_accumulate_grad_hook")
        if self.has_hooks:
            for weight, total in zip(self.weights, self.sums):
                weight.register_post_accumulate_grad_hook(
                    lambda weight, total=total: self.add_gradient(weight, total))
        decayed = [master for master in self.masters if master.dim() > 1]
        others = [master for master in self.masters if master.dim() == 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
            lr=6e-4, betas=(0.9, 0.95), **({"fused": True} if arguments.device == "cuda" else {}))
        self.loss = self.model
        if arguments.mode != "eager":
            self.loss = torch.compile(self.model, mode=arguments.mode)

    @staticmethod
    def add_gradient(weight, total):
        total.add_(weight.grad)
        weight.grad = None

    def backward(self, tokens, targets):
        """The loss of a microbatch, whose gradients are added."""
        if self.arguments.mode == "max-autotune":
            torch.compiler.cudagraph_mark_step_begin()
        loss = self.loss(tokens, targets)
        (loss / self.arguments.microbatches).backward()
        if not self.has_hooks:
            for weight, total in zip(self.weights, self.sums):
                self.add_gradient(weight, total)
        return loss.detach().clone()

    def step(self, samples):
        """Mean loss of the microbatches of `samples` [microbatches, 2, b, s]."""
        losses = [self.backward(tokens, targets) for tokens, targets in samples]
        nn.utils.clip_grad_norm_(self.masters, 1.0)
        self.optimizer.step()
        with torch.no_grad():
            for weight, master in zip(self.weights, self.masters):
                weight.copy_(master)
            for total in self.sums:
                total.zero_()
        return torch.stack(losses).mean()


def choose_attention():
    """cuDNN's and no other, where this PyTorch can choose it."""
    if not hasattr(torch.backends.cuda, "enable_cudnn_sdp"):
        return "default"
    torch.backends.cuda.enable_cudnn_sdp(True)
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_math_sdp(False)
    return "cudnn"


def synchronize(arguments):
    if arguments.device == "cuda":
        torch.cuda.synchronize()


def measure(arguments):
    attention = choose_attention() if arguments.device == "cuda" else "default"
    torch.manual_seed(1)
    trainer = Trainer(arguments)
    shape = (arguments.microbatches, 2, arguments.microbatch, arguments.length)
    times, losses = [], []
    for _ in range(arguments.warm_up + arguments.steps):
        samples = torch.randint(arguments.vocabulary, shape, device=arguments.device)
        synchronize(arguments)
        start = time.monotonic()
        loss = trainer.step(samples)
        synchronize(arguments)
        times.append(time.monotonic() - start)
        losses.append(loss.item())
    measured = times[arguments.warm_up:]
    result = {"torch": torch.__version__, "mode": arguments.mode, "attention": attention,
              "seconds": statistics.median(measured), "fastest_s": min(measured),
              "slowest_s": max(measured), "first_s": times[0], "losses": [losses[0], losses[-1]]}
    if arguments.device == "cuda":
        result |= {"cudnn": torch.backends.cudnn.version(),
                   "peak_bytes": torch.cuda.max_memory_allocated(),
                   "reserved_bytes": torch.cuda.max_memory_reserved()}
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("layers", "hidden", "heads", "length", "vocabulary", "microbatch", "microbatches",
                 "steps", "warm-up"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--mode", default="max-autotune")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    try:
        result = measure(arguments)
    except RuntimeError as fault:
        if "out of memory" not in str(fault):
            raise
        result = {"out_of_memory": True}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
