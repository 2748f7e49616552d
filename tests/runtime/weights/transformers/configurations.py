"""Draws small configurations of models of Hugging Face transformers that leave no field at ease."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

Config = dict[str, Any]

SCALINGS = ["default", "linear", "llama3", "yarn"]


@dataclass(frozen=True)
class Sizes:
    """Ranges and choices that the sizes of a model are drawn from."""

    hidden: tuple[int, int]
    layers: tuple[int, int]
    heads: Sequence[tuple[int, int]]
    head_dims: Sequence[int]
    mlp: tuple[int, int]
    vocabulary: Sequence[int]
    sequence: tuple[int, int]
    batch: tuple[int, int]


LIVE = Sizes(hidden=(16, 64), layers=(2, 4),
             heads=[(2, 1), (2, 2), (3, 1), (4, 1), (4, 2), (5, 1), (6, 2), (6, 3), (8, 2), (8, 4)],
             head_dims=[4, 6, 8, 10, 12, 16], mlp=(17, 90),
             vocabulary=[41, 43, 47, 53, 59, 67, 73, 83, 89, 97, 101, 113, 127],
             sequence=(8, 24), batch=(2, 3))
GOLDEN = Sizes(hidden=(8, 8), layers=(2, 2), heads=[(2, 1), (4, 2)], head_dims=[4, 6],
               mlp=(5, 5), vocabulary=[29, 31], sequence=(7, 7), batch=(2, 2))
# Heads wide enough that a part of one has two angles.
GOLDEN_PARTIAL = replace(GOLDEN, hidden=(12, 12), heads=[(2, 1)])


@dataclass(frozen=True)
class Case:
    """A configuration and the shape of its tokens."""

    config: Config
    batch: int
    sequence: int
    is_old: bool
    """Whether config.json is spelled as transformers 4 did it, as most published files are."""


class Lottery:
    """Draws the fields of one configuration."""

    def __init__(self, seed: str, turn: int, sizes: Sizes) -> None:
        self._random = random.Random(seed)
        self.turn = turn
        self.sizes = sizes
        self.sequence = self.between(*sizes.sequence)

    def between(self, least: int, most: int) -> int:
        """Returns an integer in [least, most]."""
        return self._random.randint(least, most)

    def one_of(self, choices: Sequence[Any]) -> Any:
        """Returns one of the choices."""
        return self._random.choice(choices)

    def flag(self) -> bool:
        """Returns true or false."""
        return self._random.random() < 0.5

    def number(self, least: float, most: float) -> float:
        """Returns a number in [least, most] with three digits."""
        return round(self._random.uniform(least, most), 3)

    def window(self) -> int:
        """Returns a sliding window shorter than the sequence."""
        return self.between(2, self.sequence - 2)

    def base(self) -> float:
        """Returns a base of rotary angles."""
        return self.one_of([50.0, 500.0, 10000.0, 1000000.0])

    def epsilon(self) -> float:
        """Returns an epsilon of norms, large enough at times to be seen in every result."""
        return self.one_of([1e-6, 1e-5, 1e-3, 0.05])


def _heads_of_hidden(lottery: Lottery, has_own_width: bool) -> Config:
    """Draws heads and a hidden size, which heads without a width share out in even parts."""
    least, most = lottery.sizes.hidden

    def hidden_sizes(heads: int) -> list[int]:
        return [hidden for hidden in range(least, most + 1)
                if hidden % (heads if has_own_width else 2 * heads) == 0
                and (has_own_width or hidden >= 4 * heads)]
    heads, groups = lottery.one_of([pair for pair in lottery.sizes.heads
                                    if hidden_sizes(pair[0])])
    drawn = {"hidden_size": lottery.one_of(hidden_sizes(heads)), "num_attention_heads": heads,
             "num_key_value_heads": groups}
    return drawn | ({"head_dim": lottery.one_of(lottery.sizes.head_dims)} if has_own_width else {})


def _common(lottery: Lottery, has_own_width: bool = False) -> Config:
    """Draws the fields that all types but gpt2 have."""
    return _heads_of_hidden(lottery, has_own_width) | {
        "num_hidden_layers": lottery.between(*lottery.sizes.layers),
        "intermediate_size": lottery.between(*lottery.sizes.mlp),
        "vocab_size": lottery.one_of(lottery.sizes.vocabulary),
        "max_position_embeddings": lottery.sequence + lottery.between(0, 40),
        "tie_word_embeddings": lottery.flag(),
        "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}


def _rope(lottery: Lottery, scaling: str) -> Config:
    """Draws rotary angles with a scaling, whose ramps end within the few angles of a small head."""
    rope: Config = {"rope_type": scaling, "rope_theta": lottery.base()}
    if scaling != "default":
        rope["factor"] = lottery.one_of([2.0, 4.0, 8.0])
    if scaling in ("llama3", "yarn"):
        rope["original_max_position_embeddings"] = lottery.one_of([32, 64, 128])
    if scaling == "llama3":
        rope |= {"low_freq_factor": lottery.one_of([1.0, 2.0]),
                 "high_freq_factor": lottery.one_of([4.0, 8.0])}
    if scaling == "yarn":
        given = {"beta_fast": lottery.one_of([2.0, 4.0, 16.0]),
                 "beta_slow": lottery.one_of([0.25, 0.5, 1.5]),
                 "attention_factor": lottery.number(0.8, 1.6)}
        rope |= {key: value for key, value in given.items() if lottery.flag()}
    return rope


def _with_rope(config: Config, lottery: Lottery, scaling: str | None = None) -> Config:
    """Adds rotary angles, and the longest sequence that follows from their scaling."""
    rope = _rope(lottery, scaling or lottery.one_of(["default", *SCALINGS]))
    if "original_max_position_embeddings" in rope:
        longest = int(rope["original_max_position_embeddings"] * rope["factor"])
        config = config | {"max_position_embeddings": longest}
    return config | {"rope_parameters": rope}


def _partial(config: Config, lottery: Lottery) -> Config:
    """Adds an even part of a head that rotary angles turn."""
    width = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    turned = [r for r in range(2, width + 1, 2) if int(width * (r / width)) == r]
    config["rope_parameters"]["partial_rotary_factor"] = lottery.one_of(turned) / width
    return config


def _llama(lottery: Lottery) -> Config:
    config = _common(lottery, has_own_width=True) | {
        "rms_norm_eps": lottery.epsilon(),
        "attention_bias": lottery.flag(), "mlp_bias": lottery.flag(),
        "hidden_act": lottery.one_of(["silu", "silu", "gelu"])}
    return _with_rope(config, lottery, SCALINGS[lottery.turn % len(SCALINGS)])


def _mistral(lottery: Lottery) -> Config:
    config = _common(lottery, has_own_width=True) | {
        "rms_norm_eps": lottery.epsilon(),
        "sliding_window": None if lottery.turn % 4 == 3 else lottery.window()}
    return _with_rope(config, lottery)


def _qwen2(lottery: Lottery, has_own_width: bool = False) -> Config:
    config = _common(lottery, has_own_width) | {"rms_norm_eps": lottery.epsilon()}
    return _with_rope(config | _qwen_window(lottery, config["num_hidden_layers"]), lottery)


def _qwen3(lottery: Lottery) -> Config:
    return _qwen2(lottery, has_own_width=True) | {"attention_bias": lottery.flag()}


def _qwen_window(lottery: Lottery, layers: int) -> Config:
    """Draws a window of the last layers, or at times one that is not used."""
    return {"use_sliding_window": lottery.turn % 4 != 3, "sliding_window": lottery.window(),
            "max_window_layers": lottery.between(1 if lottery.turn % 2 == 0 else 0, layers - 1)}


def _gemma(lottery: Lottery) -> Config:
    config = _common(lottery, has_own_width=True) | {
        "rms_norm_eps": lottery.epsilon(),
        "attention_bias": lottery.flag(),
        "hidden_act": lottery.one_of(["gelu_pytorch_tanh", "gelu_pytorch_tanh", "gelu"])}
    # Versions of transformers read either key.
    return _with_rope(config | {"hidden_activation": config["hidden_act"]}, lottery)


def _gemma2(lottery: Lottery) -> Config:
    config = _gemma(lottery)
    del config["hidden_act"]
    has_caps = lottery.turn % 4 != 3
    return config | {
        "query_pre_attn_scalar": lottery.between(3, 40), "sliding_window": lottery.window(),
        "attn_logit_softcapping": lottery.number(1.0, 4.0) if has_caps else None,
        "final_logit_softcapping": lottery.number(1.5, 6.0) if has_caps else None}


def _gpt_neox(lottery: Lottery) -> Config:
    config = _common(lottery) | {
        "layer_norm_eps": lottery.epsilon(), "hidden_dropout": 0.0,
        "attention_bias": lottery.turn % 4 != 3, "use_parallel_residual": lottery.turn % 2 == 0,
        "hidden_act": lottery.one_of(["gelu", "gelu_fast", "gelu_new"])}
    del config["num_key_value_heads"]
    return _partial(_with_rope(config, lottery), lottery)


def _phi3(lottery: Lottery) -> Config:
    config = _common(lottery) | {
        "rms_norm_eps": lottery.epsilon(), "resid_pdrop": 0.0, "embd_pdrop": 0.0,
        "sliding_window": None if lottery.turn % 4 == 3 else lottery.window()}
    config["original_max_position_embeddings"] = config["max_position_embeddings"]
    config = _partial(_with_rope(config, lottery, "default"), lottery)
    return config if lottery.turn % 3 == 0 else _with_longrope(config, lottery)


def _with_longrope(config: Config, lottery: Lottery) -> Config:
    """Adds a factor for each angle, of sequences shorter than the original or longer."""
    rope = config["rope_parameters"]
    width = config["hidden_size"] // config["num_attention_heads"]
    pairs = int(width * rope["partial_rotary_factor"]) // 2
    shift = lottery.between(0, 4) if lottery.turn % 3 == 1 else -lottery.between(1, 4)
    original = lottery.sequence + shift
    rope |= {"rope_type": "longrope",
             "short_factor": [lottery.number(0.8, 1.5) for _ in range(pairs)],
             "long_factor": [lottery.number(1.0, 30.0) for _ in range(pairs)]}
    if lottery.flag():
        rope["attention_factor"] = lottery.number(0.8, 1.6)
    return config | {"original_max_position_embeddings": original,
                     "max_position_embeddings": original * lottery.one_of([2, 8, 32])}


def _olmo2(lottery: Lottery) -> Config:
    config = _common(lottery) | {"rms_norm_eps": lottery.epsilon(),
                                 "attention_bias": lottery.flag()}
    return _with_rope(config, lottery)


def _granite(lottery: Lottery) -> Config:
    config = _common(lottery) | {
        "rms_norm_eps": lottery.epsilon(), "attention_bias": lottery.flag(),
        "mlp_bias": lottery.flag(), "embedding_multiplier": lottery.number(1.5, 4.0),
        "attention_multiplier": lottery.number(0.1, 0.5),
        "residual_multiplier": lottery.number(0.2, 0.9), "logits_scaling": lottery.number(0.5, 3.0)}
    return _with_rope(config, lottery)


def _nemotron(lottery: Lottery) -> Config:
    config = _common(lottery, has_own_width=True) | {
        "norm_eps": lottery.epsilon(),
        "attention_bias": lottery.flag(), "mlp_bias": lottery.flag()}
    config = _partial(_with_rope(config, lottery, "default"), lottery)
    # Its class writes this at the top as well, 0.5 unless it is given.
    return config | {"partial_rotary_factor": config["rope_parameters"]["partial_rotary_factor"]}


def _gpt2(lottery: Lottery) -> Config:
    common = _common(lottery)
    return {"n_embd": common["hidden_size"], "n_head": common["num_attention_heads"],
            "n_layer": common["num_hidden_layers"],
            "n_inner": common["intermediate_size"] if lottery.flag() else None,
            "n_positions": lottery.sequence + (3 if lottery.turn % 2 else 0),
            "activation_function": lottery.one_of(["gelu_new", "gelu_new", "gelu", "relu"]),
            "layer_norm_epsilon": lottery.epsilon(), "scale_attn_weights": lottery.turn % 4 != 3,
            "scale_attn_by_inverse_layer_idx": lottery.flag(),
            "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0} | {
                key: common[key] for key in ("vocab_size", "tie_word_embeddings", "bos_token_id",
                                             "eos_token_id", "pad_token_id")}


_DRAWS: dict[str, Callable[[Lottery], Config]] = {
    "llama": _llama, "mistral": _mistral, "qwen2": _qwen2, "qwen3": _qwen3, "gemma2": _gemma2,
    "gpt_neox": _gpt_neox, "phi3": _phi3, "olmo2": _olmo2, "gpt2": _gpt2, "nemotron": _nemotron,
    "gemma": _gemma, "granite": _granite}

TYPES = list(_DRAWS)


def draw_case(model_type: str, seed: str, turn: int, sizes: Sizes) -> Case:
    """Draws a configuration of a type; turns go round the variants that each type must show."""
    lottery = Lottery(f"{seed}:{model_type}:{turn}", turn, sizes)
    config = {"model_type": model_type} | _DRAWS[model_type](lottery)
    return Case(config=config, batch=lottery.between(*sizes.batch), sequence=lottery.sequence,
                is_old=lottery.flag())
