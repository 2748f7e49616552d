// Pieces of the Python module that makes a plan's model for torchtitan, for fmt::format().
#pragma once

#include <string_view>

namespace ptdp {

/// Head of the module: what it imports, and data that need no files.
inline constexpr std::string_view kTorchtitanHead = R"(
from dataclasses import dataclass

import torch
from torch.utils.data import IterableDataset
from torchtitan.components.dataloader import ParallelAwareDataloader
from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.components.metrics import MetricsProcessor
from torchtitan.components.optimizer import default_adamw
from torchtitan.components.tokenizer import BaseTokenizer
from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataLoader
from torchtitan.models import {module}
from torchtitan.trainer import Trainer

VOCABULARY = {vocab}


class NoTokenizer(BaseTokenizer):
    """Stands for a tokenizer where tokens are made up."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config, **kwargs):
        super().__init__()
        self.eos_id = 0

    def encode(self, *args, **kwargs):
        return []

    def decode(self, *args, **kwargs):
        return ""

    def get_vocab_size(self):
        return VOCABULARY


class RandomTokens(IterableDataset):
    """Sequences of random tokens, others on every data-parallel rank."""

    def __init__(self, seq_len, rank):
        self.seq_len, self.rank = seq_len, rank

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.rank)
        while True:
            row = torch.randint(VOCABULARY, (self.seq_len + 1,), generator=generator)
            yield {{"input": row[:-1], "positions": torch.arange(self.seq_len)}}, row[1:]


class MockData(ParallelAwareDataloader):
    """Batches of random tokens."""

    @dataclass(kw_only=True, slots=True)
    class Config(ParallelAwareDataloader.Config):
        pass

    def __init__(self, config, *, dp_world_size, dp_rank, seq_len, local_batch_size, **kwargs):
        super().__init__(RandomTokens(seq_len, dp_rank), dp_rank=dp_rank,
                         dp_world_size=dp_world_size, batch_size=local_batch_size)

)";

/// Shape of a dense or sparse model in the way of Llama 3 or Qwen 3. torchtitan builds layers with
/// functions of its own, which no flavor but this one calls with these sizes.
inline constexpr std::string_view kTorchtitanShape = R"(
def shape(attn_backend="flex"{backends}):
    """The plan's model."""
    rope = {module}.{rope}.Config(dim={head}, max_seq_len={seq}, {angles})
    config = {module}.{model}.Config(
        dim={hidden}, vocab_size=VOCABULARY, enable_weight_tying={tied},
        tok_embeddings={module}.Embedding.Config(
            num_embeddings=VOCABULARY, embedding_dim={hidden},
            param_init={module}.{init}),
        norm={module}.RMSNorm.Config(normalized_shape={hidden}, param_init={module}._NORM_INIT),
        lm_head={module}.Linear.Config(
            in_features={hidden}, out_features=VOCABULARY, param_init={module}._LINEAR_INIT),
        layers={module}.{builder}(
            n_layers={layers}, dim={hidden}, n_heads={heads}, n_kv_heads={groups}, rope=rope,
            attn_backend=attn_backend, {mlp}))
    for _, norm, _, _ in config.traverse({module}.RMSNorm.Config):
        norm.eps = {eps}
    return config


{module}.{module}_configs["plan"] = shape
)";

/// Tail of the module: what --config names.
inline constexpr std::string_view kTorchtitanTail = R"(

def text_data():
    """The plan's model on text: --dataloader.dataset and --hf_assets_path say which."""
    return Trainer.Config(
        model_spec={module}.model_registry({arguments}),
        loss={loss}(global_vocab_size=VOCABULARY),
        optimizer=default_adamw(lr=1e-4),
        metrics=MetricsProcessor.Config(log_freq=1),
        dataloader=HuggingFaceTextDataLoader.Config(dataset="c4"))


def mock_data():
    """The plan's model on random tokens."""
    config = text_data()
    config.tokenizer = NoTokenizer.Config()
    config.dataloader = MockData.Config()
    return config
)";

}  // namespace ptdp
