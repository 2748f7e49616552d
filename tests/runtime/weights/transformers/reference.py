"""Computes dense transformers in f64 with plain operations, from their papers and a config.json."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from files import Tensors, read_tokens, read_weights
from rotary import rotary_angles

Linear = tuple[Tensor, Tensor | None]
"""A matrix [outputs, inputs] and biases [outputs]."""



@dataclass
class Layer:
    """The weights of a layer, whatever their names and order in the file."""

    q: Linear
    k: Linear
    v: Linear
    out: Linear
    gate: Linear | None
    up: Linear
    down: Linear
    before_attention: str | None
    behind_attention: str | None
    before_mlp: str | None
    behind_mlp: str | None


class Model:
    """A model as a config.json and weights describe it."""

    def __init__(self, config: dict[str, Any], weights: Tensors) -> None:
        self.config = config
        self.weights = weights
        self.type: str = config["model_type"]
        self.hidden: int = self._first("hidden_size", "n_embd")
        self.layers: int = self._first("num_hidden_layers", "n_layer")
        self.heads: int = self._first("num_attention_heads", "n_head")
        self.groups: int = config.get("num_key_value_heads") or self.heads
        self.width: int = config.get("head_dim") or self.hidden // self.heads
        self.epsilon: float = self._first("rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
                                          "norm_eps")
        self.activation: str = self._first("hidden_activation", "hidden_act",
                                           "activation_function")

    def _first(self, *keys: str) -> Any:
        """Returns the value of the first key that the configuration has."""
        return next(self.config[key] for key in keys if key in self.config)

    def linear(self, name: str) -> Linear:
        """Returns the weights of a linear layer."""
        return self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias")

    def split(self, name: str, rows: list[Tensor]) -> list[Linear]:
        """Returns linear layers that a file holds as rows of one."""
        weight, bias = self.linear(name)
        return [(weight[r], None if bias is None else bias[r]) for r in rows]

    def layer(self, number: int) -> Layer:
        """Returns the weights of a layer."""
        read = {"gpt_neox": self._neox_layer, "gpt2": self._gpt2_layer}
        return read.get(self.type, self._llama_layer)(number)

    def _llama_layer(self, number: int) -> Layer:
        """Reads a layer of the types that follow Llama's names."""
        at = f"model.layers.{number}."
        q_rows, k_rows = self.heads * self.width, self.groups * self.width
        if self.type == "phi3":
            q, k, v = self.split(at + "self_attn.qkv_proj", list(
                torch.arange(q_rows + 2 * k_rows).split([q_rows, k_rows, k_rows])))
            gate, up = self.split(at + "mlp.gate_up_proj", list(
                torch.arange(2 * self.config["intermediate_size"]).chunk(2)))
        else:
            q, k, v = (self.linear(f"{at}self_attn.{x}_proj") for x in "qkv")
            gate = None if self.type == "nemotron" else self.linear(at + "mlp.gate_proj")
            up = self.linear(at + "mlp.up_proj")
        norms: list[str | None] = ["input_layernorm", None, "post_attention_layernorm", None]
        if self.type == "gemma2":
            norms = ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                     "post_feedforward_layernorm"]
        if self.type == "olmo2":
            norms = [None, "post_attention_layernorm", None, "post_feedforward_layernorm"]
        return Layer(q, k, v, self.linear(at + "self_attn.o_proj"), gate, up,
                     self.linear(at + "mlp.down_proj"), *(name and at + name for name in norms))

    def _neox_layer(self, number: int) -> Layer:
        """Reads a layer whose rows of QKV are [head][q, k, v][element]."""
        at = f"gpt_neox.layers.{number}."
        rows = torch.arange(3 * self.hidden).view(self.heads, 3, self.width)
        q, k, v = self.split(at + "attention.query_key_value",
                             [rows[:, i].flatten() for i in range(3)])
        return Layer(q, k, v, self.linear(at + "attention.dense"), None,
                     self.linear(at + "mlp.dense_h_to_4h"), self.linear(at + "mlp.dense_4h_to_h"),
                     at + "input_layernorm", None, at + "post_attention_layernorm", None)

    def _gpt2_layer(self, number: int) -> Layer:
        """Reads a layer whose matrices are stored as [inputs, outputs]."""
        at = f"transformer.h.{number}."

        def turned(name: str) -> Linear:
            weight, bias = self.linear(at + name)
            return weight.T, bias

        weight, bias = turned("attn.c_attn")
        assert bias is not None
        q, k, v = zip(weight.chunk(3), bias.chunk(3))
        return Layer(q, k, v, turned("attn.c_proj"), None, turned("mlp.c_fc"),
                     turned("mlp.c_proj"), at + "ln_1", None, at + "ln_2", None)

    def norm(self, x: Tensor, name: str | None) -> Tensor:
        """Returns x normalized over its last axis, or as it is without a norm."""
        if name is None:
            return x
        gain, bias = self.linear(name)
        if self.type in ("gemma", "gemma2", "nemotron"):
            gain = gain + 1.0
        if self.type in ("gpt2", "gpt_neox", "nemotron"):
            x = x - x.mean(-1, keepdim=True)
        x = x / ((x * x).mean(-1, keepdim=True) + self.epsilon).sqrt() * gain
        return x if bias is None else x + bias

    def activate(self, x: Tensor) -> Tensor:
        """Returns the MLP's activation."""
        root = {"gelu_fast": 0.7978845608}.get(self.activation, math.sqrt(2.0 / math.pi))
        match self.activation:
            case "silu":
                return x / (1.0 + torch.exp(-x))
            case "gelu":
                return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))
            case "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast":
                return 0.5 * x * (1.0 + torch.tanh(root * (x + 0.044715 * x * x * x)))
            case "relu":
                return torch.where(x > 0.0, x, 0.0)
            case "relu2":
                return torch.where(x > 0.0, x * x, 0.0)
        raise ValueError(f"no activation {self.activation}")

    def scale(self, layer: int) -> float:
        """Returns the factor of attention scores."""
        if self.type == "granite":
            return self.config["attention_multiplier"]
        scale = 1.0 / math.sqrt(self.config.get("query_pre_attn_scalar", self.width))
        if not self.config.get("scale_attn_weights", True):
            scale = 1.0
        return scale / (layer + 1 if self.config.get("scale_attn_by_inverse_layer_idx") else 1)

    def window(self, layer: int) -> int | None:
        """Returns the number of tokens that a token of a layer attends to, itself included."""
        window = self.config.get("sliding_window")
        if self.type == "gemma2":
            return window if layer % 2 == 0 else None
        if self.type in ("qwen2", "qwen3"):
            first = self.config["max_window_layers"]
            return window if self.config["use_sliding_window"] and layer >= first else None
        return window


def _turned(x: Tensor, angles: tuple[Tensor, float]) -> Tensor:
    """Returns heads [batch, heads, sequence, width] turned by halves."""
    angle, factor = angles
    half = angle.shape[1]
    cos, sin = torch.cos(angle) * factor, torch.sin(angle) * factor
    a, b, rest = x[..., :half], x[..., half:2 * half], x[..., 2 * half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def _apply(x: Tensor, linear: Linear) -> Tensor:
    """Returns a linear layer's outputs."""
    weight, bias = linear
    product = torch.einsum("...i,oi->...o", x, weight)
    return product if bias is None else product + bias


def _capped(x: Tensor, cap: float | None) -> Tensor:
    """Returns x pressed below a cap."""
    return x if cap is None else cap * torch.tanh(x / cap)


def _attention(model: Model, number: int, layer: Layer, x: Tensor,
               angles: tuple[Tensor, float] | None) -> Tensor:
    """Returns attention's output, without the norms around it."""
    batch, sequence, _ = x.shape
    at = f"model.layers.{number}.self_attn."
    q, k, v = _apply(x, layer.q), _apply(x, layer.k), _apply(x, layer.v)
    if model.type == "olmo2":
        q, k = model.norm(q, at + "q_norm"), model.norm(k, at + "k_norm")
    q, k, v = (y.view(batch, sequence, -1, model.width).transpose(1, 2) for y in (q, k, v))
    if model.type == "qwen3":
        q, k = model.norm(q, at + "q_norm"), model.norm(k, at + "k_norm")
    if angles is not None:
        q, k = _turned(q, angles), _turned(k, angles)
    q = q.reshape(batch, model.groups, -1, sequence, model.width)
    scores = torch.einsum("bgnid,bgjd->bgnij", q, k) * model.scale(number)
    scores = _capped(scores, model.config.get("attn_logit_softcapping"))
    distance = torch.arange(sequence)[:, None] - torch.arange(sequence)
    is_hidden = (distance < 0) | (distance >= (model.window(number) or sequence))
    weights = torch.exp(scores - scores.amax(-1, keepdim=True)).masked_fill(is_hidden, 0.0)
    weights = weights / weights.sum(-1, keepdim=True)
    context = torch.einsum("bgnij,bgjd->bignd", weights, v).reshape(batch, sequence, -1)
    return _apply(context, layer.out)


def _mlp(model: Model, layer: Layer, x: Tensor) -> Tensor:
    """Returns the MLP's output, without the norms around it."""
    up = _apply(x, layer.up)
    if layer.gate is None:
        return _apply(model.activate(up), layer.down)
    return _apply(model.activate(_apply(x, layer.gate)) * up, layer.down)


def logits_of(model: Model, tokens: Tensor) -> Tensor:
    """Returns logits [batch, sequence, vocabulary]."""
    weights, config, sequence = model.weights, model.config, tokens.shape[1]
    embedding = weights[{"gpt2": "transformer.wte.weight", "gpt_neox": "gpt_neox.embed_in.weight"}
                        .get(model.type, "model.embed_tokens.weight")]
    x = embedding[tokens] * config.get("embedding_multiplier", 1.0)
    if model.type in ("gemma", "gemma2"):
        x = x * math.sqrt(model.hidden)
    if model.type == "gpt2":
        x = x + weights["transformer.wpe.weight"][:sequence]
    angles = None if model.type == "gpt2" else rotary_angles(
        config, model.width, sequence)
    residual = config.get("residual_multiplier", 1.0)
    for number in range(model.layers):
        layer = model.layer(number)
        attended = model.norm(_attention(model, number, layer, model.norm(
            x, layer.before_attention), angles), layer.behind_attention) * residual
        mlp_input = x if config.get("use_parallel_residual") else x + attended
        x = x + attended + model.norm(_mlp(model, layer, model.norm(
            mlp_input, layer.before_mlp)), layer.behind_mlp) * residual
    x = model.norm(x, {"gpt2": "transformer.ln_f", "gpt_neox": "gpt_neox.final_layer_norm"}
                   .get(model.type, "model.norm"))
    head = weights.get("embed_out.weight", weights.get("lm_head.weight", embedding))
    return _capped(_apply(x, (head, None)) / config.get("logits_scaling", 1.0),
                   config.get("final_logit_softcapping"))


def results(directory: Path) -> Tensors:
    """Returns `logits`, `loss` and `grad.<parameter>` of a directory's model and tokens."""
    weights = {name: weight.double().requires_grad_()
               for name, weight in read_weights(directory).items()}
    tokens = read_tokens(directory)
    model = Model(json.loads((directory / "config.json").read_text()), weights)
    logits = logits_of(model, tokens[:, :-1])
    right = logits.gather(-1, tokens[:, 1:, None]).squeeze(-1)
    loss = (torch.logsumexp(logits, -1) - right).mean()
    loss.backward()
    gradients = {f"grad.{name}": weight.grad for name, weight in weights.items()}
    return {"logits": logits.detach(), "loss": loss.detach()} | gradients
