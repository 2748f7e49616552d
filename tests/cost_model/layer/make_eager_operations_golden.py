"""Counts what PyTorch launches and moves for operations that frameworks do not fuse.

Written to tests/golden/eager_operations.csv, which eager_operations_test reads. The operations are
those of Megatron-Core b0cc2706dd, in their order: rope_utils.py with a factor of sines and cosines,
fused_bias_geglu.py with a bound, experts.py with biases. Gates and heads are those of nanotron
3a45a340, models/llama.py, with attention and rotary positions that do nothing in place of their
kernels. Rows are looked up and put back as by flash-attn 2.3.6, bert_padding.py. Gathers and
scatters are PyTorch's own: DTensor moves the second dimension of two sequences, among processes
that are not there.

Each is run on a processor. A kernel is an operation of ATen that is no view; its bytes are those of
all tensors that it reads and writes, but for tables, biases, weights of visits and indices.
Collectives are not counted.

    pip install torch==2.15.0
    make_eager_operations_golden.py > tests/golden/eager_operations.csv
"""

import torch
import torch.distributed
import torch.nn.functional
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

ROWS, WIDTH, HEADS = 1024, 128, 8
RANKS = 4
VIEWS = {
    *("_unsafe_view", "alias", "detach", "empty", "empty_like", "expand", "permute", "select"),
    *("slice", "split", "split_with_sizes", "squeeze", "transpose", "unbind", "unsqueeze", "view"),
}
COLLECTIVES = {
    "_wrap_tensor_autograd",
    "all_gather_into_tensor",
    "reduce_scatter_tensor",
    "wait_tensor",
}
FILLS = {"slice_backward", "zeros"}  # the former of a part that is empty: both read nothing
OVERWRITES = {"index_put_", "scatter_"}  # all of their first argument


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
        if name not in VIEWS | COLLECTIVES and name != "scalar_tensor":
            self.kernels += 1
            given = args[1:] if name in OVERWRITES else (args, kwargs or {})
            read = [] if name in FILLS else tree_flatten(given)[0]
            for each in read + tree_flatten(results)[0]:
                if isinstance(each, torch.Tensor) and each.dtype != torch.int64:
                    size = each.numel() * each.element_size()
                    self.bytes += size if size >= self.least_bytes else 0
        return results


def report(name, weights, parts, numbers, run, *inputs):
    """Prints a row for each pass, with bytes for each of `numbers`."""
    # The least that counts is a byte for each number of a part: what a comparison returns.
    least = numbers // parts
    with Counting(least) as forward:
        result = run(*inputs)
    gradient = torch.ones_like(result)
    with Counting(least) as backward:
        result.backward(gradient)
    for direction, count in (("forward", forward), ("backward", backward)):
        print(f"{name},{weights},{parts},{direction},{count.kernels},{count.bytes / numbers:g}")


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
    of_each = zip(torch.split(outputs, sizes), of_experts, torch.split(weights, sizes), strict=True)
    return torch.cat([rows + bias * weight for rows, bias, weight in of_each]).to(outputs.dtype)


def gate(halves):
    """Multiplies half of a product by the activation of the other half."""
    first, second = torch.split(halves, halves.shape[-1] // 2, dim=-1)
    return torch.nn.functional.silu(first) * second


class Kernel(torch.autograd.Function):
    """Stands for a kernel that returns a tensor like its first, and gradients like all of them."""

    @staticmethod
    def forward(context, *tensors):
        context.like = [(each.shape, each.dtype) for each in tensors]
        return torch.empty(tensors[0].shape, dtype=tensors[0].dtype)

    @staticmethod
    def backward(context, gradient):
        return tuple(torch.empty(shape, dtype=dtype) for shape, dtype in context.like)


class LookUp(torch.autograd.Function):
    """Copies rows that an index chooses."""

    @staticmethod
    def forward(context, rows, index):
        context.save_for_backward(index)
        context.rows = rows.shape[0]
        return torch.gather(rows, 0, index[:, None].expand(-1, rows.shape[1]))

    @staticmethod
    def backward(context, gradient):
        (index,) = context.saved_tensors
        whole = torch.zeros(context.rows, gradient.shape[1], dtype=gradient.dtype)
        return whole.scatter_(0, index[:, None].expand(-1, gradient.shape[1]), gradient), None


class PutBack(torch.autograd.Function):
    """Copies rows to where an index says."""

    @staticmethod
    def forward(context, rows, index):
        context.save_for_backward(index)
        whole = torch.zeros(rows.shape[0], rows.shape[1], dtype=rows.dtype)
        whole[index] = rows
        return whole

    @staticmethod
    def backward(context, gradient):
        (index,) = context.saved_tensors
        return gradient[index], None


def heads_of_groups(groups):
    """Returns a function from the product for QKV to the input of attention's projection."""

    def run(product):
        length, batch, _ = product.shape
        if groups == HEADS:
            parts = product.view(length, batch, 3, HEADS, WIDTH).permute(2, 1, 0, 3, 4).contiguous()
            queries, keys, values = parts
        else:
            sizes = [HEADS * WIDTH, groups * WIDTH, groups * WIDTH]
            queries, keys, values = (
                part.transpose(0, 1).contiguous().view(batch, length, -1, WIDTH)
                for part in torch.split(product, sizes, dim=-1)
            )
        both = torch.cat([keys.unsqueeze(0), values.unsqueeze(0)], dim=0)
        both = Kernel.apply(both.permute(1, 2, 0, 3, 4).contiguous())
        keys, values = torch.split(both, 1, dim=2)
        tokens = batch * length
        output = Kernel.apply(
            Kernel.apply(queries).view(tokens, HEADS, WIDTH),
            keys.view(tokens, groups, WIDTH),
            values.view(tokens, groups, WIDTH),
        )
        ordered = output.view(batch, length, HEADS * WIDTH).transpose(0, 1)
        return ordered.reshape(tokens, HEADS * WIDTH)

    return run


def redistributed(mesh, before, after, of_gradient):
    """Returns a function that moves a rank's tensor from one placement to another."""

    def run(local):
        moved = DTensor.from_local(local, mesh, [before]).redistribute(mesh, [after])
        return moved.to_local(grad_placements=[of_gradient])

    return run


def numbers(*shape, dtype=torch.bfloat16):
    """Returns a tensor that needs a gradient."""
    return torch.ones(*shape, dtype=dtype, requires_grad=True)


def main():
    """Prints the table."""
    print("operation,weights,parts,pass,kernels,bytes")
    heads = numbers(ROWS, 1, HEADS, WIDTH)
    report("positions", "", 1, heads.numel(), positions, heads, torch.ones(ROWS, 1, 1, WIDTH))
    report("bounds", "", 1, ROWS * WIDTH, bounds, numbers(ROWS, 2 * WIDTH))
    for dtype, name in ((torch.bfloat16, "bf16"), (torch.float32, "fp32")):
        for experts in (2, 16):
            of_experts = [numbers(WIDTH) for _ in range(experts)]
            weights = numbers(ROWS, 1, dtype=dtype)
            outputs = numbers(ROWS, WIDTH)
            report("biases", name, experts, ROWS * WIDTH, biases, outputs, weights, of_experts)
    report("gate", "", 1, ROWS * WIDTH, gate, numbers(ROWS, 2 * WIDTH))
    for groups in (HEADS, HEADS // 4):
        product = numbers(ROWS // 2, 2, (HEADS + 2 * groups) * WIDTH)
        numbers_of_queries = ROWS * HEADS * WIDTH
        report("heads", "", HEADS // groups, numbers_of_queries, heads_of_groups(groups), product)
    index = torch.arange(ROWS)
    report("look up", "", 1, ROWS * WIDTH, LookUp.apply, numbers(ROWS, WIDTH), index)
    report("put back", "", 1, ROWS * WIDTH, PutBack.apply, numbers(ROWS, WIDTH), index)
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    whole = 2 * ROWS * WIDTH
    gathered = redistributed(mesh, Shard(1), Replicate(), Partial())
    report("gather", "", RANKS, whole, gathered, numbers(2, ROWS // RANKS, WIDTH))
    scattered = redistributed(mesh, Partial(), Shard(1), Shard(1))
    report("scatter", "", RANKS, whole, scattered, numbers(2, ROWS, WIDTH))


if __name__ == "__main__":
    main()
