"""Computes angles of rotary positions in f64, from the papers and a config.json."""

import math
from typing import Any

import torch
from torch import Tensor


def _rotary(config: dict[str, Any]) -> dict[str, Any]:
    """Returns base, part and scaling of rotary angles, from either spelling of a config.json."""
    rope = {"partial_rotary_factor": config.get("partial_rotary_factor",
                                                config.get("rotary_pct", 1.0)),
            "rope_theta": config.get("rope_theta", config.get("rotary_emb_base"))}
    rope |= config.get("rope_parameters") or config.get("rope_scaling") or {}
    rope.setdefault("rope_type", rope.get("type", "default"))
    return rope


def _llama3_frequency(frequency: float, rope: dict[str, Any]) -> float:
    """Returns a frequency that is divided by the factor where its wavelength is long."""
    turns = rope["original_max_position_embeddings"] * frequency / (2.0 * math.pi)
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    kept = min(max((turns - low) / (high - low), 0.0), 1.0)
    return frequency * (kept + (1.0 - kept) / rope["factor"])


def _yarn_frequencies(frequencies: list[float], width: int, rope: dict[str, Any]) -> list[float]:
    """Returns frequencies on a ramp between kept and divided, by their index (arXiv:2309.00071)."""
    length, base = rope["original_max_position_embeddings"], rope["rope_theta"]

    def index_of(turns: float) -> float:
        return width * math.log(length / (2.0 * math.pi * turns)) / (2.0 * math.log(base))

    low = max(math.floor(index_of(rope.get("beta_fast", 32.0))), 0)
    high = min(math.ceil(index_of(rope.get("beta_slow", 1.0))), width - 1)
    span = high - low if high != low else 0.001
    divided = [min(max((i - low) / span, 0.0), 1.0) for i in range(len(frequencies))]
    return [f * (d / rope["factor"] + 1.0 - d) for f, d in zip(frequencies, divided)]


def _longrope(frequencies: list[float], config: dict[str, Any], rope: dict[str, Any],
              sequence: int) -> tuple[list[float], float]:
    """Returns frequencies that each have a factor (arXiv:2402.13753), and the growth of sines."""
    length = config.get("original_max_position_embeddings",
                        rope.get("original_max_position_embeddings"))
    factors = rope["long_factor" if sequence > length else "short_factor"]
    stretch = rope.get("factor", config["max_position_embeddings"] / length)
    growth = math.sqrt(1.0 + math.log(stretch) / math.log(length)) if stretch > 1.0 else 1.0
    return ([f / divisor for f, divisor in zip(frequencies, factors)],
            rope.get("attention_factor", growth))


def rotary_angles(config: dict[str, Any], width: int, sequence: int) -> tuple[Tensor, float]:
    """Returns angles [sequence, turned / 2] of a head and the factor of their sines and cosines."""
    rope = _rotary(config)
    turned = int(width * rope["partial_rotary_factor"])
    frequencies = [rope["rope_theta"] ** (-2.0 * i / turned) for i in range(turned // 2)]
    factor = 1.0
    match rope["rope_type"]:
        case "linear":
            frequencies = [f / rope["factor"] for f in frequencies]
        case "llama3":
            frequencies = [_llama3_frequency(f, rope) for f in frequencies]
        case "longrope":
            frequencies, factor = _longrope(frequencies, config, rope, sequence)
        case "yarn":
            frequencies = _yarn_frequencies(frequencies, turned, rope)
            factor = rope.get("attention_factor", 0.1 * math.log(rope["factor"]) + 1.0)
    positions = torch.arange(sequence, dtype=torch.float64)
    return torch.outer(positions, torch.tensor(frequencies, dtype=torch.float64)), factor
