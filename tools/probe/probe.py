#!/usr/bin/env python3
"""Times on this machine what a training plan consists of, at the plan's own sizes.

usage: probe.py [--work work.json] [-o probe.json] [--device cuda|cpu] [--seconds S] [--only LIST]
       torchrun --nproc-per-node 8 probe.py ...      also times collectives between all ranks

It needs PyTorch 1.13 or newer and nothing else. It reads a work list, ptdp.probe-work/1, and writes
the times as ptdp.probe/1; ptdp's FORMATS.md describes both.

A time lasts from the start of an operation to the start of the next one in a row of them, and is
the median of several rows. Operands are random. Each call of a row has operands of its own until
together they outgrow the caches, since operands of training do not lie there either. On a GPU a row
starts behind a pause, in which the host launches it, so that times are the GPU's. Layers have no
such pause: they run as eager training does.

The largest sizes are measured first, because most of a step's time is theirs. What does not fit
into --seconds is listed under "skipped".

Exit status: 0 done; 2 bad usage or work list; 4 no such device; 5 output not writable; 130 and 143
ended by a signal, with what had been measured by then written."""

import argparse
import collections
import contextlib
import datetime
import errno
import functools
import gc
import itertools
import json
import math
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import time

try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
except ModuleNotFoundError as missing:
    print(f"probe.py: expected PyTorch: {missing}", file=sys.stderr)
    sys.exit(4)

WORK = None

SECTIONS = {"collectives": 2, "basic": 1, "products": 4, "attention": 2, "element-wise": 2,
            "layers": 2}
"""What is measured, in this order, and the share of the time that is left for each."""
BLOCKS, FEWEST_BLOCKS = 7, 3
BLOCK_S = 0.02
MOST_IN_ROW = 100  # calls of some kernels each: a GPU's queue holds about 1000
MOST_COPIES = 64
ROTATED_BYTES = {"cuda": 2**29, "cpu": 2**26}  # larger than caches
SUSTAINED_S, REST_S = 5.0, 1.0
SPREAD = 0.1  # of quartiles over the median, from which it is worth a warning

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
ACTIVATIONS = {
    "gelu_new": functools.partial(F.gelu, approximate="tanh"),
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
    "relu2": lambda x: F.relu(x).square(),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
}


class Refused(Exception):
    """What the user has to mend, in one line, and the exit status."""

    def __init__(self, text, status=2):
        super().__init__(text)
        self.status = status


class Stopped(BaseException):
    """A signal came."""


# ---- operations: each function returns a call, and the tensors that it works on


def product(probe, operation, m, n, k):
    a = probe.random(k, m) if operation == "weight-gradient-product" else probe.random(m, k)
    b = probe.random(n, k) if operation == "forward-product" else probe.random(k, n)
    if operation == "forward-product":
        c = probe.random(m, n)
        return lambda: torch.mm(a, b.t(), out=c), [a, b, c]
    if operation == "input-gradient-product":
        c = probe.random(m, n)
        return lambda: torch.mm(a, b, out=c), [a, b, c]
    c = probe.random(m, n, dtype=probe.sum_dtype)
    if probe.sum_dtype == probe.dtype:
        return lambda: c.addmm_(a.t(), b), [a, b, c]
    return lambda: torch.addmm(c, a.t(), b, out_dtype=c.dtype, out=c), [a, b, c]


def gradient(forward, *inputs):
    """The gradients of `inputs`, the forward pass being done."""
    with torch.enable_grad():
        inputs = [x.requires_grad_() for x in inputs]
        y = forward(*inputs)
    dy = torch.randn_like(y)
    return lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True), [*inputs, y, dy]


def one_pass(forward, *inputs):
    return lambda: forward(*inputs), inputs


def unfused_attention(q, k, v):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q.shape[-2]
    mask = torch.ones(s, s, dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(mask, -math.inf)
    return F.softmax(scores, -1) @ v


def fused_attention(q, k, v):
    if q.shape[1] != k.shape[1]:
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def grouped_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def choose_attention(probe, q, k, v):
    """The first kind of attention that works for these, PyTorch's own fused kernels preferred."""
    if hasattr(F, "scaled_dot_product_attention"):
        torch.backends.cuda.enable_math_sdp(False)  # the composed one, which is taken in silence
        for attention in [grouped_attention][:q.shape[1] != k.shape[1]] + [fused_attention]:
            with contextlib.suppress(RuntimeError, TypeError), torch.enable_grad():
                attention(q, k, v)
                return attention
        torch.backends.cuda.enable_math_sdp(True)
    probe.warn(f"unfused attention: torch {torch.__version__} has no fused kernel for head size "
               f"{q.shape[-1]} in {probe.precision} here")
    return unfused_attention


def rms_norm(x, weight):
    if hasattr(F, "rms_norm"):
        return F.rms_norm(x, weight.shape, weight, 1e-5)
    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)
    return wide.to(x.dtype) * weight


def layer_norm(x, weight, bias):
    return F.layer_norm(x, weight.shape, weight, bias)


def gated(x):
    gate, value = x.chunk(2, -1)
    return F.silu(gate) * value


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


def adamw(probe, count):
    """A step in fp32 of one tensor, which clears its gradient and writes 16-bit weights too."""
    weight = torch.nn.Parameter(probe.random(count, dtype=torch.float32))
    weight.grad = probe.random(count, dtype=torch.float32)
    try:
        optimizer = torch.optim.AdamW([weight], fused=True)
    except (TypeError, RuntimeError):
        optimizer = torch.optim.AdamW([weight])
        probe.warn(f"adamw: torch {torch.__version__} has no fused AdamW here")
    low = [] if probe.dtype == torch.float32 else [probe.random(count)]

    def step():
        optimizer.step()
        weight.grad.zero_()
        for copy in low:
            copy.copy_(weight)

    return step, [weight, weight.grad, weight, weight, *low]  # two moments beside them


def cross_entropy(random, rows, width):
    logits = random(rows, width)
    targets = torch.randint(width, (rows,), device=logits.device)
    return lambda x: F.cross_entropy(x, targets), logits


def embedding(random, rows, width):
    table = random(max(rows, 32768), width)
    tokens = torch.randint(len(table), (rows,), device=table.device)
    return lambda x: F.embedding(tokens, x), table


def bias_gelu(x, bias):
    return ACTIVATIONS["gelu_new"](x + bias)


def bias_dropout_add(x, bias, residual):
    return residual + F.dropout(x + bias, 0.1)


ELEMENT_WISE = {
    "layer-norm": lambda new, r, w: one_pass(layer_norm, new(r, w), new(w), new(w)),
    "layer-norm-backward": lambda new, r, w: gradient(layer_norm, new(r, w), new(w), new(w)),
    "rms-norm": lambda new, r, w: one_pass(rms_norm, new(r, w), new(w)),
    "rms-norm-backward": lambda new, r, w: gradient(rms_norm, new(r, w), new(w)),
    "bias-gelu": lambda new, r, w: one_pass(bias_gelu, new(r, w), new(w)),
    "gelu-backward": lambda new, r, w: gradient(ACTIVATIONS["gelu_new"], new(r, w)),
    "gated-activation": lambda new, r, w: one_pass(gated, new(r, 2 * w)),
    "gated-activation-backward": lambda new, r, w: gradient(gated, new(r, 2 * w)),
    "rotary": lambda new, r, w: one_pass(rotate, new(r, w), new(w), new(w)),
    "bias-dropout-add": lambda new, r, w: one_pass(bias_dropout_add, new(r, w), new(w), new(r, w)),
    "embedding": lambda new, r, w: one_pass(*embedding(new, r, w)),
    "cross-entropy": lambda new, r, w: one_pass(*cross_entropy(new, r, w)),
    "cross-entropy-backward": lambda new, r, w: gradient(*cross_entropy(new, r, w)),
    "add": lambda new, r, w: one_pass(torch.Tensor.add_, new(r, w), new(r, w)),
    "copy": lambda new, r, w: one_pass(torch.Tensor.copy_, new(r, w), new(r, w)),
    "fill": lambda new, r, w: one_pass(torch.Tensor.zero_, new(r, w)),
    "adamw": None,
}
"""What makes an operation of `rows` and `width`, with a function for new random tensors."""
COMPOSED = {"rms-norm", "rms-norm-backward", "bias-gelu", "gated-activation", "rotary",
            "gated-activation-backward", "bias-dropout-add", "adamw"}
"""What takes eager PyTorch several kernels, of some versions at least."""


class Layer(torch.nn.Module):
    """One GPU's shard of a transformer layer, norms in front of its branches, without dropout."""

    def __init__(self, probe, form):
        super().__init__()
        tp, h, d = form["tp"], form["hidden_size"], form["kv_channels"]
        heads, groups = form["num_attention_heads"] // tp, max(1, form["num_query_groups"] // tp)
        ffn, s, b = form["ffn_hidden_size"] // tp, form["seq_length"], form["micro_batch_size"]
        self.widths, self.d = [heads * d, groups * d, groups * d], d
        self.gate = form["gated_linear_unit"]
        self.activation = ACTIVATIONS[form["activation_func"]]
        self.is_rms = form["normalization"] == "rms-norm"
        self.norms = torch.nn.ParameterList(
            torch.nn.Parameter(probe.random(h)) for _ in range(2 if self.is_rms else 4))
        linear = functools.partial(torch.nn.Linear, bias=form["add_bias_linear"],
                                   device=probe.device, dtype=probe.dtype)
        self.qkv, self.projection = linear(h, sum(self.widths)), linear(heads * d, h)
        self.up, self.down = linear(h, 2 * ffn if self.gate else ffn), linear(ffn, h)
        self.turns = [probe.random(s, d), probe.random(s, d)] if form["rope"] else None
        q, k = probe.random(b, heads, s, d), probe.random(b, groups, s, d)
        self.attention = choose_attention(probe, q.requires_grad_(), k.requires_grad_(), k)

    def norm(self, number, x):
        parameters = self.norms[number::2]
        return rms_norm(x, *parameters) if self.is_rms else layer_norm(x, *parameters)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (part.view(b, s, -1, self.d).transpose(1, 2)
                   for part in self.qkv(self.norm(0, x)).split(self.widths, -1))
        if self.turns:
            q, k = rotate(q, *self.turns), rotate(k, *self.turns)
        x = x + self.projection(self.attention(q, k, v).transpose(1, 2).reshape(b, s, -1))
        y = self.up(self.norm(1, x))
        if self.gate:
            gate, value = y.chunk(2, -1)
            return x + self.down(self.activation(gate) * value)
        return x + self.down(self.activation(y))


# ---- timing


class Probe:
    """The device, its clock, and what has been measured, skipped and warned of so far."""

    def __init__(self, device, precision, seconds):
        self.device, self.precision, self.dtype = device, precision, DTYPES[precision]
        self.is_gpu = device == "cuda"
        self.sum_dtype = self.dtype
        self.warnings, self.skipped, self.spreads = [], [], []
        self.basic = dict.fromkeys(("kernel_latency_us", "host_time_per_kernel_us",
                                    "memory_bandwidth_GBps", "matmul_sustained"))
        self.results = collections.defaultdict(dict)  # of each section, by number of the entry
        self.curves, self.unfinished = [], []
        self.end = time.monotonic() + (seconds or math.inf)
        self.deadline = self.end
        self.cycles = 0.0  # of a GPU's pause, per second

    def prepare(self):
        """Finds how long a pause is, and whether a product can add to sums in fp32."""
        torch.backends.cuda.matmul.allow_tf32 = False
        if self.is_gpu and hasattr(torch.cuda, "_sleep"):
            for _ in range(20):  # the clock rises meanwhile
                begin = self.mark()
                torch.cuda._sleep(10**7)
                self.cycles = max(self.cycles, 1e7 / self.seconds_between(begin, self.mark()))
        if self.dtype != torch.float32:
            try:  # since PyTorch 2.8
                self.sum_dtype = torch.float32
                product(self, "weight-gradient-product", 64, 64, 64)[0]()
            except (RuntimeError, TypeError):
                self.sum_dtype = self.dtype
                self.warn(f"weight-gradient-product: sums are {self.precision} here, not fp32")

    def warn(self, text):
        if text not in self.warnings:
            self.warnings.append(text)

    def skip(self, text):
        self.skipped.append(text)

    def is_over(self):
        return time.monotonic() > self.deadline

    def free_memory(self):
        if self.is_gpu:
            return torch.cuda.mem_get_info()[0]
        available = line_of("/proc/meminfo", "MemAvailable")  # of Linux
        return 1024 * int(available.split()[0]) if available else 2**31

    def random(self, *shape, dtype=None):
        dtype = dtype or self.dtype
        needed = math.prod(shape) * torch.empty(0, dtype=dtype).element_size()
        if not self.is_gpu and needed > self.free_memory():  # Linux would grant it, and kill later
            raise RuntimeError(f"out of memory: {needed} bytes for one tensor")
        return torch.randn(*shape, dtype=dtype, device=self.device)

    def synchronize(self):
        if self.is_gpu:
            torch.cuda.synchronize()

    def mark(self):
        """A moment of the device, between what has been and what will be launched."""
        if not self.is_gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds_between(self, begin, end):
        if not self.is_gpu:
            return end - begin
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def copies(self, make):
        """Endless calls of make(), in turn with operands of several calls."""
        call, operands = make()
        size = sum(x.numel() * x.element_size() for x in operands)
        number = min(MOST_COPIES, math.ceil(ROTATED_BYTES[self.device] / size),
                     1 + self.free_memory() // (4 * size))
        return itertools.cycle([call, *(make()[0] for _ in range(number - 1))]), number

    def row(self, calls, count, lead=0.0, ahead=0):
        """Seconds per call of `count` in a row, behind a pause of `lead` seconds."""
        self.synchronize()
        if self.cycles and lead:
            torch.cuda._sleep(int(min(lead, 0.5) * self.cycles))
        for _ in range(ahead):
            next(calls)()
        begin = self.mark()
        for _ in range(count):
            next(calls)()
        return self.seconds_between(begin, self.mark()) / count

    def time(self, make, what):
        """Microseconds of a call of make() [median of rows]."""
        calls, number = self.copies(make)
        for _ in range(number):
            next(calls)()
        self.synchronize()
        begin = time.perf_counter()
        for _ in range(number):
            next(calls)()
        launched = time.perf_counter()
        self.synchronize()
        count = in_row((time.perf_counter() - begin) / number)
        lead = 2.0 * count * (launched - begin) / number
        return self.median(lambda: self.row(calls, count, lead), what)

    def median(self, measure, what):
        times = [measure() for _ in range(FEWEST_BLOCKS)]
        while len(times) < BLOCKS and not self.is_over():
            times.append(measure())
        self.note_spread(times, what)
        return 1e6 * statistics.median(times)

    def note_spread(self, times, what):
        low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
        if high - low > SPREAD * middle:
            self.spreads.append(((high - low) / middle, what))

    def warn_of_spreads(self, section):
        if self.spreads:
            worst, what = max(self.spreads)
            self.warn(f"{section}: {len(self.spreads)} times spread over {100 * SPREAD:.0f} %, the "
                      f"worst by {100 * worst:.0f} %: {what}")
            self.spreads.clear()


def line_of(path, key):
    """What stands behind "key:" in a file, or None."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
            if line.startswith(key):
                return line.split(":", 1)[1].strip()
    return None


def in_row(seconds):
    return min(MOST_IN_ROW, max(1, round(BLOCK_S / max(seconds, 1e-9))))


def in_short(error):
    return " ".join(str(error).split())[:200]


# ---- sections


def measure_product(probe, entry):
    return {entry["operation"]: probe.time(lambda: product(probe, **entry), describe(entry))}


def measure_attention(probe, entry):
    shape = (1, entry["heads"], entry["seq_length"], entry["head_size"])
    make = lambda: [probe.random(*shape) for _ in range(3)]
    attention = choose_attention(probe, *(x.requires_grad_() for x in make()))
    return {"attention": probe.time(lambda: one_pass(attention, *make()), describe(entry)),
            "attention-backward": probe.time(lambda: gradient(attention, *make()), describe(entry))}


def measure_element_wise(probe, entry):
    if entry["operation"] in COMPOSED and probe.is_gpu:
        probe.warn(f"{entry['operation']}: may be several kernels of eager PyTorch")
    rows, width = entry["rows"], entry["width"]
    make = ELEMENT_WISE[entry["operation"]]
    call = (lambda: make(probe.random, rows, width)) if make else lambda: adamw(probe, rows * width)
    return {entry["operation"]: probe.time(call, describe(entry))}


def measure_layer(probe, entry):
    """Forward and backward times of a layer [us], gradients of weights being accumulated."""
    shape = (entry["micro_batch_size"], entry["seq_length"], entry["hidden_size"])
    layer = Layer(probe, entry)
    x, dy = probe.random(*shape).requires_grad_(), probe.random(*shape)

    def step():
        marks = [probe.mark()]
        y = layer(x)
        marks.append(probe.mark())
        x.grad = None  # an activation's gradient goes on, it is not accumulated
        y.backward(dy)
        return [*marks, probe.mark()]

    with torch.enable_grad():
        step()
        probe.synchronize()
        if probe.is_gpu:
            torch.cuda.reset_peak_memory_stats()
        begin, _, end = step()
        count = in_row(probe.seconds_between(begin, end) / 2)
        passes = [[], []]
        is_late = False

        def block():
            nonlocal is_late
            probe.synchronize()
            begin = time.perf_counter()
            steps = [step()]
            launching = time.perf_counter() - begin
            steps += [step() for _ in range(count - 1)]
            for number, times in enumerate(passes):
                times.append(sum(probe.seconds_between(marks[number], marks[number + 1])
                                 for marks in steps) / count)
            whole = passes[0][-1] + passes[1][-1]
            is_late |= probe.is_gpu and launching > 0.9 * whole
            return whole

        probe.median(block, describe(entry))
    if is_late:
        probe.warn(f"{describe(entry)}: the GPU waited for the host, as it does in eager training")
    return {"forward_us": round(1e6 * statistics.median(passes[0]), 3),
            "backward_us": round(1e6 * statistics.median(passes[1]), 3),
            "peak_memory_bytes": torch.cuda.max_memory_allocated() if probe.is_gpu else None}


def measure_basic(probe):
    few = lambda: one_pass(torch.Tensor.add_, probe.random(16), probe.random(16))
    probe.basic["kernel_latency_us"] = round(probe.time(few, "smallest operation"), 3)
    if probe.is_gpu:
        calls = itertools.cycle([few()[0]])

        def launching():
            probe.synchronize()
            begin = time.perf_counter()
            for _ in range(MOST_IN_ROW):
                next(calls)()
            return (time.perf_counter() - begin) / MOST_IN_ROW

        probe.basic["host_time_per_kernel_us"] = round(probe.median(launching, "launches"), 3)
    size = int(min(2**30 if probe.is_gpu else 2**27, probe.free_memory() / 8))
    copy = lambda: one_pass(torch.Tensor.copy_, *(torch.ones(size, dtype=torch.int8,
                                                             device=probe.device) for _ in "ab"))
    probe.basic["memory_bandwidth_GBps"] = round(2e-3 * size / probe.time(copy, "large copy"), 3)
    if probe.end - time.monotonic() < 4 * SUSTAINED_S:
        probe.skip("matmul_sustained: too little time (--seconds)")
    else:
        probe.basic["matmul_sustained"] = round(matmul_sustained(probe), 4)


def matmul_sustained(probe):
    """The rate of a large product after seconds of it, over the best of its bursts after a rest."""
    size = 8192 if probe.is_gpu else 1024
    calls, number = probe.copies(lambda: product(probe, "forward-product", size, size, size))
    each = probe.row(calls, number)
    time.sleep(REST_S)
    burst = min(probe.row(calls, max(1, int(0.05 / each))) for _ in range(5))
    end = time.monotonic() + SUSTAINED_S
    while time.monotonic() < end:
        probe.row(calls, max(1, int(0.2 / each)))
    if probe.is_gpu:
        for _ in range(min(500, int(1.0 / each))):  # launched: the GPU is asked meanwhile
            next(calls)()
        warn_of_throttling(probe)
    return burst / probe.row(calls, max(1, int(0.2 / each)))


MEASURES = {"products": measure_product, "attention": measure_attention,
            "element-wise": measure_element_wise, "layers": measure_layer}


def measure_entries(probe, section, entries):
    """Measures the largest entries first; keeps results by the entry's number."""
    for number in sorted(range(len(entries)), key=lambda i: -size_of(entries[i])):
        entry = entries[number]
        if entry in entries[:number]:
            continue
        if probe.is_over():
            probe.skip(f"{describe(entry)}: the time was over (--seconds)")
            continue
        try:
            probe.results[section][number] = MEASURES[section](probe, entry)
        except (RuntimeError, MemoryError, TypeError) as error:
            probe.skip(f"{describe(entry)}: {in_short(error)}")
        gc.collect()  # an optimizer refers to itself
        if probe.is_gpu:
            torch.cuda.empty_cache()


def describe(entry):
    if "hidden_size" in entry:
        keys = ("hidden_size", "ffn_hidden_size", "seq_length", "micro_batch_size", "tp")
        return "layer " + ", ".join(f"{key} {entry[key]}" for key in keys)
    sizes = ", ".join(f"{key} {value}" for key, value in entry.items() if key != "operation")
    return f"{entry.get('operation', 'attention')} {sizes}"


def size_of(entry):
    """What an entry's time grows with, roughly; of layers the more, the smaller tp is."""
    sizes = math.prod(value for value in entry.values() if type(value) is int)
    return sizes / entry.get("tp", 1) ** 2


# ---- collectives


def collective(probe, operation, size, ranks, group, stride):
    """Returns a call of a collective on about `size` bytes, and the bytes."""
    is_gloo = not probe.is_gpu  # it cannot add 16-bit numbers
    dtype = torch.float32 if is_gloo else probe.dtype
    width = torch.empty(0, dtype=dtype).element_size()
    part = max(1, size // width // ranks)
    count = max(1, size // width) if operation in ("all-reduce", "send-receive") else part * ranks
    whole = torch.zeros(count, dtype=dtype, device=probe.device)
    other = torch.zeros_like(whole)
    if operation == "all-reduce":
        call = lambda: dist.all_reduce(whole, group=group)
    elif operation == "all-gather" and is_gloo:
        call = lambda: dist.all_gather(list(whole.chunk(ranks)), other[:part], group=group)
    elif operation == "all-gather":
        call = lambda: dist.all_gather_into_tensor(whole, other[:part], group=group)
    elif operation == "reduce-scatter":
        call = lambda: dist.reduce_scatter_tensor(other[:part], whole, group=group)
    elif operation == "all-to-all":
        call = lambda: dist.all_to_all_single(other, whole, group=group)
    else:
        to, source = ((dist.get_rank() + sign * stride) % ranks for sign in (1, -1))

        def call():
            for request in dist.batch_isend_irecv([dist.P2POp(dist.isend, whole, to, group),
                                                   dist.P2POp(dist.irecv, other, source, group)]):
                request.wait()

    return call, count * width


def measure_collectives(probe, entries):
    """Curves of all ranks, and of the first 2, 4 and 8 of a node. Every rank must call it."""
    world, local = dist.get_world_size(), int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    nodes = math.ceil(world / local)
    groups = [(world, nodes, None)] + [(n, 1, dist.new_group(list(range(n))))
                                       for n in (2, 4, 8) if n <= local and n < world]

    def largest(*values):
        tensor = torch.tensor(values, dtype=torch.float64, device=probe.device)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return tensor.tolist()

    def point(operation, size, ranks, group, stride):
        is_member, failure, each = dist.get_rank() < ranks, "", 0.0
        if largest(probe.is_over())[0]:
            return "the time was over (--seconds)"
        try:
            call, size = collective(probe, operation, size, ranks, group, stride)
            if is_member:
                call()
                each = probe.row(itertools.repeat(call), 2)
        except RuntimeError as error:
            failure = in_short(error)
        has_failed, each = largest(failure != "", each)
        if has_failed:
            return failure or "it failed on another rank"
        count, times = in_row(each), []
        blocks = FEWEST_BLOCKS if largest(probe.is_over())[0] else BLOCKS
        for _ in range(blocks):
            seconds = 0.0
            if is_member:
                dist.barrier(group=group)
                seconds = probe.row(itertools.repeat(call), count, 1e-4 * count, ahead=1)
            times += largest(seconds)
        probe.note_spread(times, f"{operation} of {ranks} ranks, {size} bytes")
        return {"bytes": size, "time_us": round(1e6 * statistics.median(times), 3)}

    for entry, (ranks, on_nodes, group) in itertools.product(entries, groups):
        points = []
        probe.curves.append({"operation": entry["operation"], "ranks": ranks, "nodes": on_nodes,
                             "points": points})
        for size in sorted(set(entry["bytes"])):
            result = point(entry["operation"], size, ranks, group, local if on_nodes > 1 else 1)
            if isinstance(result, str):
                probe.skip(f"{entry['operation']} of {ranks} ranks, {size} bytes: {result}")
            elif all(result["bytes"] != other["bytes"] for other in points):
                points.append(result)


# ---- the device


def ask_nvidia_smi(fields):
    """Values of this GPU by nvidia-smi's names, or None."""
    number = torch.cuda.current_device()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    name = visible[number].strip() if number < len(visible) and visible[number] else str(number)
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(["nvidia-smi", "-i", name, "--query-gpu=" + ",".join(fields),
                                 "--format=csv,noheader,nounits"], capture_output=True, text=True,
                                timeout=20, check=True).stdout
        values = [value.strip() for value in answer.strip().split(",")]
        if len(values) == len(fields):
            return dict(zip(fields, values))
    return None


def warn_of_throttling(probe):
    reasons = {f"clocks_throttle_reasons.{key}": text for key, text in [
        ("sw_power_cap", "its power limit"), ("hw_slowdown", "the hardware"),
        ("sw_thermal_slowdown", "heat"), ("hw_thermal_slowdown", "heat")]}
    state = ask_nvidia_smi(["clocks.sm", "clocks.max.sm", *reasons]) or {}
    causes = {text for key, text in reasons.items() if state.get(key) == "Active"}
    if causes:
        probe.warn(f"clocks throttled: {state['clocks.sm']} of {state['clocks.max.sm']} MHz under "
                   f"load, held back by {' and '.join(sorted(causes))}")


def describe_device(probe):
    if not probe.is_gpu:
        name = line_of("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return {"name": name, "memory_GiB": round(memory / 2**30, 3),
                "num_multiprocessors": torch.get_num_threads(), "compute_capability": None,
                "power_limit_W": None, "backend": "cpu"}
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    is_rocm = torch.version.hip is not None
    state = None if is_rocm else ask_nvidia_smi(["power.limit"])
    power = None
    with contextlib.suppress(TypeError, ValueError):
        power = float(state["power.limit"])
    return {"name": properties.name, "memory_GiB": round(properties.total_memory / 2**30, 3),
            "num_multiprocessors": properties.multi_processor_count,
            "compute_capability": getattr(properties, "gcnArchName", "unknown").split(":")[0]
            if is_rocm else f"{properties.major}.{properties.minor}",
            "power_limit_W": power, "backend": "rocm" if is_rocm else "cuda"}


# ---- the work list and the answer

COUNT, YES_OR_NO, MOST = "a whole number from 1", "true or false", 10**15
FORM = {
    "schema": ("ptdp.probe-work/1",),
    "precision": tuple(DTYPES),
    "products": [{
        "operation": ("forward-product", "input-gradient-product", "weight-gradient-product"),
        "m": COUNT, "n": COUNT, "k": COUNT}],
    "attention": [{"heads": COUNT, "seq_length": COUNT, "head_size": COUNT}],
    "element_wise": [{"operation": tuple(ELEMENT_WISE), "rows": COUNT, "width": COUNT}],
    "layers": [{
        "hidden_size": COUNT, "num_attention_heads": COUNT, "num_query_groups": COUNT,
        "kv_channels": COUNT, "ffn_hidden_size": COUNT, "gated_linear_unit": YES_OR_NO,
        "normalization": ("layer-norm", "rms-norm"), "activation_func": tuple(ACTIVATIONS),
        "add_bias_linear": YES_OR_NO, "rope": YES_OR_NO, "seq_length": COUNT,
        "micro_batch_size": COUNT, "tp": COUNT}],
    "collectives": [{
        "operation": ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "send-receive"),
        "bytes": [COUNT]}],
}
"""What each key must be: a kind of number, one of some names, a list or an object of such."""


def check(value, kind, place):
    """Refuses a value that is not of the kind, an unknown key and a missing one."""
    def expect(holds, expected):
        if not holds:
            raise Refused(f"{place}: expected {expected}, got {json.dumps(value)[:60]}")

    if kind == COUNT:
        expect(type(value) is int and value > 0, COUNT)
        expect(value <= MOST, f"at most {MOST}")
    elif kind == YES_OR_NO:
        expect(type(value) is bool, YES_OR_NO)
    elif isinstance(kind, tuple):
        expect(value in kind, " or ".join(json.dumps(name) for name in kind))
    elif isinstance(kind, list):
        expect(isinstance(value, list), "a list")
        for number, item in enumerate(value):
            check(item, kind[0], f"{place}[{number}]")
    else:
        expect(isinstance(value, dict), "an object")
        for key in [*kind, *value]:
            if key not in kind or key not in value:
                problem = "is missing" if key in kind else f"is unknown; expected {', '.join(kind)}"
                raise Refused(f"{place}.{key} ".lstrip(".") + problem)
            check(value[key], kind[key], f"{place}.{key}".lstrip("."))


def check_shard(layer, place):
    """Refuses a layer that tp cannot share out."""
    tp, heads, groups = (layer[key] for key in ("tp", "num_attention_heads", "num_query_groups"))
    for key in ("num_attention_heads", "ffn_hidden_size"):
        if layer[key] % tp:
            raise Refused(f"{place}.{key}: expected a multiple of tp, {tp}, got {layer[key]}")
    if heads % groups or (groups % tp and tp % groups):
        raise Refused(f"{place}.num_query_groups: expected a divisor of {heads} heads and a "
                      f"multiple or divisor of tp, {tp}, got {groups}")
    if layer["rope"] and layer["kv_channels"] % 2:
        raise Refused(f"{place}.kv_channels: expected an even number, got {layer['kv_channels']}")


def read_work(path):
    if path is None and WORK is None:
        raise Refused("--work is missing: expected a file of the form ptdp.probe-work/1")
    try:
        work = json.loads(pathlib.Path(path).read_text(encoding="utf-8") if path else WORK)
        if isinstance(work, dict):
            work = {**{key: [] for key in FORM if isinstance(FORM[key], list)}, **work}
        check(work, FORM, "")
        for number, layer in enumerate(work["layers"]):
            check_shard(layer, f"layers[{number}]")
        return work
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path or 'WORK'}: expected JSON: {error}") from None
    except Refused as refused:
        raise Refused(f"{path or 'WORK'}: {refused}".replace(": : ", ": ")) from None


def tables(probe, work):
    """Points of each operation as columns, in the order of the work list."""
    found = {}
    for section in ("products", "attention", "element-wise"):
        entries = work[section.replace("-", "_")]
        for number, times in sorted(probe.results[section].items()):
            sizes = {key: x for key, x in entries[number].items() if key != "operation"}
            for operation, time_us in times.items():
                table = found.setdefault(operation, {key: [] for key in [*sizes, "time_us"]})
                for key, value in {**sizes, "time_us": round(time_us, 3)}.items():
                    table[key].append(value)
    return [{"operation": operation, "precision": probe.precision, **table}
            for operation, table in found.items() if is_enough(probe, operation, table["time_us"])]


def is_enough(probe, what, times):
    """Whether a table or curve may be written; says so if not."""
    if len(times) < 2:
        probe.skip(f"{what}: left out, for {len(times)} sizes were measured, and two are needed")
    return len(times) > 1


def answer(probe, work):
    device = describe_device(probe)
    operations = tables(probe, work)
    return {
        "schema": "ptdp.probe/1",
        "source": f"measured by ptdp's probe on {device['name']}, torch {torch.__version__}, "
                  + datetime.date.today().isoformat(),
        "device": device, "torch": str(torch.__version__), "precision": probe.precision,
        "measured_operations": operations, **probe.basic,
        "layers": [{**work["layers"][number], "precision": probe.precision, **times}
                   for number, times in sorted(probe.results["layers"].items())],
        "collectives": [curve for curve in probe.curves if is_enough(
            probe, f"{curve['operation']} of {curve['ranks']} ranks", curve["points"])],
        "skipped": probe.skipped, "warnings": probe.warnings}


def write_file(path, text):
    """Writes a file whole or not at all. An empty text only tries whether it could be written."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a directory")
        part.write_text(text, encoding="utf-8")
        if text:
            os.replace(part, path)
        else:
            part.unlink()
    except OSError as error:
        raise Refused(f"{path}: expected a file that can be written: {error.strerror}", 5) from None


# ---- the command


def parse_arguments():
    parser = argparse.ArgumentParser(prog="probe.py", description=__doc__.split("\n")[0])
    parser.add_argument("--work", metavar="FILE", help="what to measure; else this file's own list")
    parser.add_argument("-o", "--output", metavar="FILE", type=pathlib.Path,
                        default=pathlib.Path("probe.json"), help="default: probe.json")
    parser.add_argument("--device", choices=["cuda", "cpu"], help="default: cuda if there is one")
    parser.add_argument("--seconds", type=float, metavar="S", help="measure for about this long")
    parser.add_argument("--only", metavar="LIST", default=",".join(SECTIONS),
                        help=f"measure only these of {','.join(SECTIONS)}")
    options = parser.parse_args()
    options.only = options.only.split(",")
    for name in options.only:
        if name not in SECTIONS:
            parser.error(f"--only: expected some of {','.join(SECTIONS)}, got \"{name}\"")
    if options.seconds is not None and not 0 < options.seconds < math.inf:
        parser.error(f"--seconds: expected a number above 0, got {options.seconds}")
    return options


def tell(text):
    if os.environ.get("RANK", "0") == "0":
        print(f"probe.py: {text}", file=sys.stderr, flush=True)


def choose_device(name):
    number, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if name == "cpu" or (name is None and gpus == 0):
        return "cpu"
    if number >= gpus:
        raise Refused(f"--device cuda: torch {torch.__version__} finds {gpus} GPUs, expected "
                      f"{number + 1} at least", 4)
    torch.cuda.set_device(number)
    return "cuda"


def sections_to_measure(probe, work, only, ranks):
    """The sections for which there is work. Says which of them are left out."""
    sections = [name for name in SECTIONS if name == "basic" or work[name.replace("-", "_")]]
    for name in sections:
        if name not in only:
            probe.skip(f"{name}: left out by --only")
        elif name == "collectives" and ranks < 2:
            probe.skip("collectives: several ranks measure them, which torchrun starts")
    return [name for name in sections if name in only and (name != "collectives" or ranks > 1)]


def measure_section(probe, section, work):
    if section == "basic":
        return measure_basic(probe)
    entries = work[section.replace("-", "_")]
    if section != "collectives":
        return measure_entries(probe, section, entries)
    dist.init_process_group("nccl" if probe.is_gpu else "gloo")
    measure_collectives(probe, entries)
    return dist.destroy_process_group()


def measure_all(probe, work, sections, rank):
    """Measures collectives on all ranks, and the rest on the first when the others have left."""
    probe.unfinished = list(sections)
    for number, section in enumerate(sections):
        if rank > 0 and section != "collectives":
            continue
        share = SECTIONS[section] / sum(SECTIONS[name] for name in sections[number:])
        probe.deadline = time.monotonic() + share * (probe.end - time.monotonic())
        tell(section)
        try:
            measure_section(probe, section, work)
        except RuntimeError as error:
            probe.skip(f"{section}: {in_short(error)}")
        probe.warn_of_spreads(section)
        probe.unfinished.remove(section)


def run():
    options = parse_arguments()
    work = read_work(options.work)
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    if rank == 0:
        write_file(options.output, "")  # before minutes are spent on it
    torch.manual_seed(0)
    torch.set_grad_enabled(False)
    probe = Probe(choose_device(options.device), work["precision"], options.seconds)
    probe.prepare()
    sections = sections_to_measure(probe, work, options.only, ranks)
    try:
        measure_all(probe, work, sections, rank)
    finally:
        if probe.unfinished:
            probe.skip(f"{', '.join(probe.unfinished)}: not complete: the probe was stopped")
        if rank == 0:
            write_file(options.output, json.dumps(answer(probe, work), indent=1) + "\n")
    for text in probe.warnings:
        tell(f"warning: {text}")
    if probe.skipped:
        tell(f"{len(probe.skipped)} things were not measured; {options.output} says which")


def stop(number, _):
    signal.signal(number, signal.SIG_DFL)  # the second one ends the process at once
    raise Stopped(number)


def main():
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        run()
    except Refused as refused:
        tell(refused)
        return refused.status
    except Stopped as stopped:
        tell("interrupted" if stopped.args[0] == signal.SIGINT else "terminated")
        return 128 + stopped.args[0]
    return 0


if __name__ == "__main__":
    sys.exit(main())
