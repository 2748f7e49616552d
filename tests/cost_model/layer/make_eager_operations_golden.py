"""Counts what PyTorch launches and moves for operations that Megatron-Core does not fuse.

Written to tests/golden/eager_operations.csv, which expert_biases_test and memory_bound_test read.
The operations are those of Megatron-Core b0cc2706dd, in their order: rope_utils.py with a factor of
sines and cosines, fused_bias_geglu.py with a bound, experts.py with biases. Each is run on a
processor. A kernel is an operation of ATen that is no view; its bytes are those of all tensors that
it reads and writes, but for tables, biases and weights of visits.

    pip install torch==2.15.0
    make_eager_operations_golden.py > tests/golden/eager_operations.csv
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

ROWS, WIDTH, HEADS = 1024, 128, 8
VIEWS = {"alias", "detach", "expand", "slice", "split", "split_with_sizes", "unsqueeze", "view"}
FILLS = {"slice_backward"}  # of a part that is empty: reads nothing


class Counting(TorchDispatchMode):
    """Adds up kernels and bytes of the operations that run within."""

    def __init__(self, least_bytes):
        super().__init__()
        self.least_bytes = least_bytes
        self.kernels = 0
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        results = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name not in VIEWS and name != "scalar_tensor":
            self.kernels += 1
            read = [] if name in FILLS else tree_flatten((args, kwargs or {}))[0]
            for each in read + tree_flatten(results)[0]:
                if isinstance(each, torch.Tensor):
                    size = each.numel() * each.element_size()
                    self.bytes += size if size >= self.least_bytes else 0
        return results


def report(name, weights, experts, numbers, run, *inputs):
    """Prints a row for the forward and one for the backward pass, in bytes for each of `numbers`."""
    # The least that counts is a byte for each number of an expert: what a comparison returns.
    least = numbers // experts
    with Counting(least) as forward:
        result = run(*inputs)
    gradient = torch.ones_like(result)
    with Counting(least) as backward:
        result.backward(gradient)
    for direction, count in (("forward", forward), ("backward", backward)):
        print(f"{name},{weights},{experts},{direction},{count.kernels},{count.bytes / numbers:g}")


def positions(heads, angles):
    """Turns heads by angles whose sines and cosines grow, one operation after another."""
    width = angles.shape[-1]
    turned, rest = heads[..., :width], heads[..., width:]
    cosine = (torch.cos(angles) * 1.3466).to(heads.dtype)
    sine = (torch.sin(angles) * 1.3466).to(heads.dtype)
    first, second = torch.chunk(turned, 2, dim=-1)
    turned = turned * cosine + torch.cat((-second, first), dim=-1) * sine
    return torch.cat((turned, rest), dim=-1)


def bounds(gates):
    """Bounds both halves of what enters a gated activation."""
    gate, linear = gates.chunk(2, -1)
    return torch.cat((gate.clamp(min=None, max=7.0), linear.clamp(min=-7.0, max=7.0)), -1)


def biases(outputs, weights, of_experts):
    """Adds the bias of each expert, times the weights of its visits."""
    sizes = [ROWS // len(of_experts)] * len(of_experts)
    parts = zip(
        torch.split(outputs, sizes), of_experts, torch.split(weights, sizes), strict=True
    )
    return torch.cat([rows + bias * weight for rows, bias, weight in parts]).to(outputs.dtype)


def numbers(*shape, dtype=torch.bfloat16):
    """Returns a tensor that needs a gradient."""
    return torch.ones(*shape, dtype=dtype, requires_grad=True)


def main():
    """Prints the table."""
    print("operation,weights,experts,pass,kernels,bytes")
    heads = numbers(ROWS, 1, HEADS, WIDTH)
    report("positions", "", 1, heads.numel(), positions, heads, torch.ones(ROWS, 1, 1, WIDTH))
    report("bounds", "", 1, ROWS * WIDTH, bounds, numbers(ROWS, 2 * WIDTH))
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "fp32")):
        for experts in (2, 16):
            of_experts = [numbers(WIDTH) for _ in range(experts)]
            weights = numbers(ROWS, 1, dtype=dtype)
            outputs = numbers(ROWS, WIDTH)
            report("biases", name, experts, ROWS * WIDTH, biases, outputs, weights, of_experts)


if __name__ == "__main__":
    main()
