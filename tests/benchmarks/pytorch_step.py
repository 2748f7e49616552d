#!/usr/bin/env python3
"""Time of a GPT training step in PyTorch on one thread, for training_benchmark's shapes.

The same model: learned positions, pre-norm layers, GELU (tanh form), tied embeddings, f32, AdamW
with weight decay on matrices, gradient clipping. PyTorch's own attention, layer norm and fused
optimizer, where it has them.
"""
import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn import functional


class Layer(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.projection = nn.Linear(hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, length, hidden = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, hidden // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, hidden))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, hidden, vocabulary, length):
        super().__init__()
        self.table = nn.Embedding(vocabulary, hidden)
        self.positions = nn.Embedding(length, hidden)
        self.layers = nn.ModuleList(Layer(hidden, hidden // 64) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.table(tokens) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        logits = functional.linear(self.norm(x), self.table.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--vocabulary", type=int, default=50304)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Gpt(arguments.layers, arguments.hidden, arguments.vocabulary, arguments.length)
    run = torch.compile(model) if arguments.compile else model
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    try:
        optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), fused=True)
    except (RuntimeError, TypeError):
        optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95))
    shape = (arguments.batch, arguments.length)
    times = []
    for _ in range(arguments.steps + 1):
        tokens = torch.randint(arguments.vocabulary, shape)
        targets = torch.randint(arguments.vocabulary, shape)
        start = time.monotonic()
        optimizer.zero_grad(set_to_none=True)
        run(tokens, targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append(time.monotonic() - start)
    measured = times[1:]
    print(f"PyTorch {torch.__version__}, one thread: {1e3 * statistics.median(measured):.0f} ms "
          f"per step (fastest {1e3 * min(measured):.0f}), "
          f"{arguments.batch * arguments.length / statistics.median(measured):.0f} tokens/s")


if __name__ == "__main__":
    main()
