"""GPT-2 out of PyTorch's own parts, with this project's names of parameters: the reference."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, hidden, heads, head_size, bias):
        super().__init__()
        self.heads, self.head_size = heads, head_size
        self.query = nn.Linear(hidden, heads * head_size, bias=bias)
        self.key = nn.Linear(hidden, heads * head_size, bias=bias)
        self.value = nn.Linear(hidden, heads * head_size, bias=bias)
        self.projection = nn.Linear(heads * head_size, hidden, bias=bias)

    def forward(self, x):
        b, s, _ = x.shape
        q, k, v = (linear(x).view(b, s, self.heads, self.head_size)
                   for linear in (self.query, self.key, self.value))
        scores = torch.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(self.head_size)
        future = torch.ones(s, s, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        return self.projection(torch.einsum("bhij,bjhd->bihd", weights, v).reshape(b, s, -1))


class Mlp(nn.Module):
    def __init__(self, hidden, width, bias):
        super().__init__()
        self.fc1 = nn.Linear(hidden, width, bias=bias)
        self.fc2 = nn.Linear(width, hidden, bias=bias)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


class Layer(nn.Module):
    def __init__(self, hidden, heads, head_size, width, bias, epsilon):
        super().__init__()
        self.ln1 = nn.LayerNorm(hidden, eps=epsilon)
        self.attention = Attention(hidden, heads, head_size, bias)
        self.ln2 = nn.LayerNorm(hidden, eps=epsilon)
        self.mlp = Mlp(hidden, width, bias)

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT2(nn.Module):
    """`model` has the keys of a plan's inputs.model."""

    def __init__(self, model):
        super().__init__()
        hidden, heads = model["hidden_size"], model["num_attention_heads"]
        head_size = model.get("kv_channels") or hidden // heads
        width = model.get("ffn_hidden_size") or 4 * hidden
        bias = model.get("add_bias_linear", True)
        epsilon = model.get("layernorm_epsilon", 1e-5)
        self.embedding = nn.ModuleDict({
            "word": nn.Embedding(model["vocab_size"], hidden),
            "position": nn.Embedding(model["seq_length"], hidden)})
        self.layers = nn.ModuleList(
            Layer(hidden, heads, head_size, width, bias, epsilon) for _ in range(model["num_layers"]))
        self.final_norm = nn.LayerNorm(hidden, eps=epsilon)
        self.output = nn.Linear(hidden, model["vocab_size"], bias=False)
        if not model.get("untied_embeddings", False):
            self.output.weight = self.embedding["word"].weight

    def forward(self, tokens, targets):
        """Mean loss of the tokens [b, s]."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embedding["word"](tokens) + self.embedding["position"](places)
        for layer in self.layers:
            x = layer(x)
        logits = self.output(self.final_norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def parameters_by_name(self):
        """Every parameter once, by this project's name."""
        norms = {name for name, module in self.named_modules() if isinstance(module, nn.LayerNorm)}
        result = {}
        for name, parameter in self.named_parameters():
            owner, kind = name.rsplit(".", 1)
            if owner in norms:
                kind = {"weight": "gamma", "bias": "beta"}[kind]
            result[f"{owner}.{kind}"] = parameter
        return result


def adamw(parameters, beta1, beta2, epsilon, weight_decay):
    """PyTorch's AdamW; matrices decay, biases and norms do not."""
    return torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": weight_decay},
         {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}],
        lr=0.0, betas=(beta1, beta2), eps=epsilon)


def learning_rate(step, maximum, minimum, warm_up, decay):
    """Of step 1, 2, ...: linear, then a cosine down to `minimum` at step `decay` (0: none)."""
    if step <= warm_up:
        return maximum * step / warm_up
    if decay == 0:
        return maximum
    if step >= decay:
        return minimum
    progress = (step - warm_up) / (decay - warm_up)
    return minimum + (maximum - minimum) * 0.5 * (1.0 + math.cos(math.pi * progress))


def train_step(model, optimizer, rate, clip, tokens, targets):
    """The loss and the norm of all gradients before clipping (0: none)."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    loss = model(tokens, targets)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip if clip > 0 else float("inf"))
    optimizer.step()
    return loss.item(), norm.item()
