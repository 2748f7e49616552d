"""The models that tools/gpu-check trains, and their floating-point operations."""

VOCABULARY = 50304
# Of a step. Positions are learned, the activation is GELU, embeddings are tied, as in GPT-2.
STACKS = {
    "hidden 4096": {"hidden": 4096, "heads": 32, "length": 4096, "vocabulary": VOCABULARY,
                    "batch": 16, "goal": 0.58, "stretch": 0.62},
    "hidden 8192": {"hidden": 8192, "heads": 64, "length": 4096, "vocabulary": VOCABULARY,
                    "batch": 16, "goal": 0.60, "stretch": 0.65},
}
TINY_STACKS = {
    "hidden 64": {"hidden": 64, "heads": 2, "length": 32, "vocabulary": 256, "batch": 4,
                  "goal": 0.58, "stretch": 0.62},
}
MOST_LAYERS = 96
# Of a short check: the share of the head and of the optimizer hardly changes beyond.
SHORT_LAYERS = {"hidden 4096": 12, "hidden 8192": 4}
MOST_TINY_LAYERS = 3
MICROBATCHES = (1, 2, 4)

# hidden, layers at most, sequence, sequences of a microbatch, microbatches, recomputation.
SWEEP = [
    (1024, 24, 1024, 8, 4, "none"),
    (1024, 24, 2048, 4, 4, "none"),
    (1024, 24, 4096, 4, 2, "full"),
    (1024, 24, 16384, 1, 2, "none"),
    (1024, 8, 1024, 1, 16, "none"),
    (2048, 24, 1024, 8, 4, "none"),
    (2048, 24, 2048, 4, 4, "full"),
    (2048, 16, 4096, 2, 4, "none"),
    (2048, 16, 8192, 1, 4, "none"),
    (2048, 12, 16384, 1, 2, "none"),
    (2048, 12, 16384, 1, 2, "full"),
    (4096, 16, 1024, 8, 2, "none"),
    (4096, 16, 2048, 4, 2, "none"),
    (4096, 16, 4096, 1, 8, "none"),
    (4096, 16, 4096, 2, 4, "none"),
    (4096, 16, 4096, 2, 4, "full"),
    (4096, 12, 8192, 1, 2, "none"),
    (4096, 8, 16384, 1, 2, "none"),
    (8192, 6, 1024, 4, 4, "none"),
    (8192, 6, 2048, 2, 4, "full"),
    (8192, 6, 4096, 1, 4, "none"),
    (8192, 4, 8192, 1, 2, "none"),
    (12288, 2, 1024, 4, 4, "none"),
    (12288, 2, 2048, 2, 4, "none"),
    (12288, 2, 2048, 4, 2, "full"),
    (12288, 2, 4096, 1, 4, "none"),
]
# Of a short check: every width, both recomputations, the step of section `step` first.
SHORT_SWEEP = [
    (4096, 2, 4096, 1, 4, "none"),
    (1024, 24, 1024, 8, 4, "none"),
    (2048, 12, 4096, 2, 4, "none"),
    (4096, 8, 4096, 2, 2, "full"),
    (8192, 3, 4096, 1, 4, "none"),
    (12288, 2, 2048, 2, 4, "none"),
]
TINY_SWEEP = [(64, 3, 32, 2, 2, "none"), (64, 3, 32, 2, 2, "full"), (128, 2, 64, 1, 4, "none")]


def model_of(stack, layers):
    """A shape for write_model, without dropout."""
    keys = ("hidden", "heads", "length", "vocabulary", "batch")
    return {"layers": layers, **{key: stack[key] for key in keys}, "dropout": False}


def sweep_model(hidden, layers, length, microbatch, microbatches):
    """Without learned positions, and so without dropout: predicted and run alike."""
    return {"layers": layers, "hidden": hidden, "heads": max(hidden // 128, 2), "length": length,
            "vocabulary": VOCABULARY if hidden >= 1024 else 256,
            "batch": microbatch * microbatches, "positions": "none"}


def step_flops(shape, causal):
    """Of products and attention, forward and twice that backward:
    3 T (L (24 h^2 + 4 s h) + 2 h V) for T tokens, L layers, hidden size h, sequences of s tokens
    and V words (arXiv:2104.04473, equation 3, without recomputation). `causal`: attention computes
    half of its scores."""
    tokens = shape["batch"] * shape["length"]
    hidden = shape["hidden"]
    attention = (2 if causal else 4) * shape["length"] * hidden
    layer = 24 * hidden * hidden + attention
    return 3 * tokens * (shape["layers"] * layer + 2 * hidden * shape["vocabulary"])

