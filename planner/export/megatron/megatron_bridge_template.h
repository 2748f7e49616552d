// Pieces of the Python file that makes a ConfigContainer of Megatron-Bridge.
#pragma once

#include <string_view>

namespace ptdp {

/// Head of the file: what it imports, and the start of the plan's values.
inline constexpr std::string_view kBridgeHead = R"(import sys
from functools import partial  # noqa: F401

import torch  # noqa: F401
from megatron.bridge.models.gpt_provider import GPTModelProvider  # noqa: F401
from megatron.bridge.models.mla_provider import MLAModelProvider  # noqa: F401
from megatron.bridge.training.comm_overlap import CommOverlapConfig
from megatron.bridge.training.config import (
    CheckpointConfig,
    ConfigContainer,
    DistributedDataParallelConfig,
    DistributedInitConfig,
    GPTDatasetConfig,
    LoggerConfig,
    OptimizerConfig,
    RNGConfig,
    SchedulerConfig,
    TokenizerConfig,
    TrainingConfig,
    ValidationConfig,
)
from megatron.bridge.training.mixed_precision import (
    MixedPrecisionConfig,  # noqa: F401
    get_mixed_precision_config,  # noqa: F401
)
from megatron.bridge.training.utils.omegaconf_utils import process_config_with_overrides
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec  # noqa: F401
from megatron.core.transformer.enums import AttnBackend

# Everything that the plan decides.
SETTINGS = {
)";

/// Tail of the file: a run of 20 steps on made-up data, which users replace. {0} is the model's
/// provider, {1} the precision, {2} the sequence length and {3} the environment.
inline constexpr std::string_view kBridgeTail = R"(}}


def plan_config(overrides=()) -> ConfigContainer:
    """Returns the plan's configuration, for 20 steps on made-up data, with PATH=VALUE over it."""
    cfg = ConfigContainer(
        model={0}(),
        train=TrainingConfig(train_iters=20),
        validation=ValidationConfig(eval_iters=0),
        optimizer=OptimizerConfig(
            optimizer="adam", lr=1e-4, min_lr=1e-5, weight_decay=0.1, clip_grad=1.0
        ),
        scheduler=SchedulerConfig(lr_decay_style="cosine"),
        ddp=DistributedDataParallelConfig(),
        dist=DistributedInitConfig(),
        dataset=GPTDatasetConfig(
            seq_length={2},
            random_seed=1234,
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
            dataloader_type="single",
            split="99,1,0",
        ),
        tokenizer=TokenizerConfig(tokenizer_type="NullTokenizer"),
        logger=LoggerConfig(log_interval=1, log_throughput=True),
        checkpoint=CheckpointConfig(),
        rng=RNGConfig(seed=1234),
        mixed_precision={1},
        comm_overlap=CommOverlapConfig(tp_comm_overlap=False),
        env_vars={{{3}}},
    )
    for path, value in SETTINGS.items():
        group, name = path.split(".")
        if not hasattr(getattr(cfg, group), name):
            raise AttributeError(f"this Megatron-Bridge has no {{path}}")
        setattr(getattr(cfg, group), name, value)
    cfg = process_config_with_overrides(cfg, cli_overrides=list(overrides))
    if cfg.model.window_size is not None:
        cfg.model.window_size = tuple(cfg.model.window_size)  # overrides know lists only
    return cfg


if __name__ == "__main__":
    from megatron.bridge.training.gpt_step import forward_step
    from megatron.bridge.training.pretrain import pretrain

    pretrain(plan_config(sys.argv[1:]), forward_step)
)";

}  // namespace ptdp
