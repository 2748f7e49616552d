#!/usr/bin/env python3
"""Time of a training step in PyTorch on one thread, for training_benchmark's models.

The same model, GPT or Llama, with f32, AdamW with weight decay on matrices, and gradient clipping.
GPT has learned positions, layer norms, GELU (tanh form) and tied embeddings. Llama has rotary
positions, RMS norms, gated MLPs, and four query heads to a key head. PyTorch's own attention,
norms, loss and fused optimizer. With --against it takes turns with training_benchmark, and prints
the median of the ratios of the turns. Times are of the core (process time), and by the clock.
"""
import argparse
import json
import os
import statistics
import subprocess
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

HEAD = 64
QUERIES_OF_A_KEY = 4


class GptLayer(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.heads = hidden // HEAD
        self.norm1 = nn.LayerNorm(hidden)
        self.qkv = nn.Linear(hidden, 3 * hidden)
        self.projection = nn.Linear(hidden, hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, length, hidden = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, HEAD)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, hidden))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    VOCABULARY = 50304

    def __init__(self, layers, hidden, length):
        super().__init__()
        self.table = nn.Embedding(self.VOCABULARY, hidden)
        self.positions = nn.Embedding(length, hidden)
        self.layers = nn.ModuleList(GptLayer(hidden) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)

    def forward(self, tokens, targets):
        x = self.table(tokens) + self.positions.weight
        for layer in self.layers:
            x = layer(x)
        logits = functional.linear(self.norm(x), self.table.weight)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def turned(heads, turns):
    """Returns heads with neighboring elements turned as complex numbers, as in Meta's Llama.

    On a core this is several times faster than turning halves of heads with real numbers.
    """
    pairs = torch.view_as_complex(heads.unflatten(3, (-1, 2)))
    return torch.view_as_real(pairs * turns).flatten(3)


class LlamaLayer(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.heads = hidden // HEAD
        self.key_heads = self.heads // QUERIES_OF_A_KEY
        self.inner = hidden // 4 * 11
        self.norm1 = nn.RMSNorm(hidden, eps=1e-5)
        self.query = nn.Linear(hidden, self.heads * HEAD, bias=False)
        self.key = nn.Linear(hidden, self.key_heads * HEAD, bias=False)
        self.value = nn.Linear(hidden, self.key_heads * HEAD, bias=False)
        self.projection = nn.Linear(hidden, hidden, bias=False)
        self.norm2 = nn.RMSNorm(hidden, eps=1e-5)
        self.gate = nn.Linear(hidden, self.inner, bias=False)
        self.up = nn.Linear(hidden, self.inner, bias=False)
        self.down = nn.Linear(self.inner, hidden, bias=False)

    def forward(self, x, turns):
        batch, length, hidden = x.shape
        normed = self.norm1(x)
        query = turned(self.query(normed).view(batch, length, self.heads, HEAD), turns)
        key = turned(self.key(normed).view(batch, length, self.key_heads, HEAD), turns)
        value = self.value(normed).view(batch, length, self.key_heads, HEAD)
        mixed = functional.scaled_dot_product_attention(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), is_causal=True,
            enable_gqa=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, hidden))
        normed = self.norm2(x)
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))


class Llama(nn.Module):
    VOCABULARY = 32000

    def __init__(self, layers, hidden, length):
        super().__init__()
        self.table = nn.Embedding(self.VOCABULARY, hidden)
        self.layers = nn.ModuleList(LlamaLayer(hidden) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden, eps=1e-5)
        self.output = nn.Linear(hidden, self.VOCABULARY, bias=False)
        rates = 10000.0 ** (-torch.arange(0, HEAD, 2, dtype=torch.float64) / HEAD)
        angles = torch.outer(torch.arange(length, dtype=torch.float64), rates)[:, None, :]
        turns = torch.polar(torch.ones_like(angles), angles).to(torch.complex64)
        self.register_buffer("turns", turns, persistent=False)

    def forward(self, tokens, targets):
        x = self.table(tokens)
        for layer in self.layers:
            x = layer(x, self.turns)
        logits = self.output(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


MODELS = {"gpt": Gpt, "llama": Llama}


class Training:
    """A model, its optimizer, and its steps."""

    def __init__(self, arguments):
        self.shape = (arguments.batch, arguments.length)
        self.model = MODELS[arguments.model](arguments.layers, arguments.hidden, arguments.length)
        for parameter in self.model.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        self.run = torch.compile(self.model) if arguments.compile else self.model
        matrices = [p for p in self.model.parameters() if p.dim() > 1]
        vectors = [p for p in self.model.parameters() if p.dim() == 1]
        groups = [{"params": matrices, "weight_decay": 0.1},
                  {"params": vectors, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=6e-4, betas=(0.9, 0.95), fused=True)

    def step(self):
        """Runs a step. Returns its seconds of the core and by the clock."""
        tokens = torch.randint(self.model.VOCABULARY, self.shape)
        targets = torch.randint(self.model.VOCABULARY, self.shape)
        of_core, by_clock = time.process_time(), time.monotonic()
        self.optimizer.zero_grad(set_to_none=True)
        self.run(tokens, targets).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return time.process_time() - of_core, time.monotonic() - by_clock


def medians(times):
    """Returns the median of each column."""
    return tuple(statistics.median(column) for column in zip(*times))


def benchmark_step(arguments):
    """Runs training_benchmark once. Returns seconds of the core and by the clock, and counters."""
    name = f"step/{arguments.model}_h{arguments.hidden}_s{arguments.length}_b{arguments.batch}_f32"
    text = subprocess.run(
        [arguments.against, f"--benchmark_filter=^{name}$", "--benchmark_format=json",
         "--benchmark_min_time=0.001"],
        check=True, capture_output=True, text=True).stdout
    (row,) = json.loads(text)["benchmarks"]
    return (1e-3 * row["cpu_time"], 1e-3 * row["real_time"]), row


def take_turns(arguments, training):
    """Runs both programs in turn, and prints each turn and the medians of their ratios."""
    ratios = []
    for turn in range(arguments.turns):
        ours, counters = benchmark_step(arguments)
        theirs = medians([training.step() for _ in range(arguments.steps)])
        ratios.append((theirs[0] / ours[0], theirs[1] / ours[1], counters["of_fastest"],
                       counters["of_products"], counters.get("of_openblas", float("nan"))))
        print(f"turn {turn}: ptdp {ours[0]:.3f} s (clock {ours[1]:.3f}), PyTorch {theirs[0]:.3f} s "
              f"(clock {theirs[1]:.3f}), ratio {ratios[-1][0]:.3f} (clock {ratios[-1][1]:.3f})",
              flush=True)
    of_core, by_clock, fastest, products, open_blas = medians(ratios)
    print(f"medians of {len(ratios)} turns: PyTorch / ptdp {of_core:.3f} (clock {by_clock:.3f}); "
          f"ptdp of the fastest product {fastest:.3f}, of its products {products:.3f}, "
          f"of OpenBLAS {open_blas:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=sorted(MODELS), default="gpt")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--steps", type=int, default=3, help="measured steps, of a turn if any")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--against", metavar="TRAINING_BENCHMARK", help="take turns with it")
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    training = Training(arguments)
    training.step()
    print(f"PyTorch {torch.__version__}, one thread, {arguments.model}")
    if arguments.against:
        take_turns(arguments, training)
        return
    of_core, by_clock = medians([training.step() for _ in range(arguments.steps)])
    print(f"{1e3 * of_core:.0f} ms per step (clock {1e3 * by_clock:.0f}), "
          f"{arguments.batch * arguments.length / of_core:.0f} tokens/s")


if __name__ == "__main__":
    main()
