#include "runtime/shrink.h"

namespace ptdp {

TransformerConfig shrunk(const TransformerConfig& model, const ParallelConfig& config) {
  constexpr int channels = 2;
  constexpr int vocabulary = 64;
  TransformerConfig small = model;
  small.num_attention_heads = config.tp;
  small.num_query_groups = config.tp;
  small.kv_channels = channels;
  small.hidden_size = config.tp * channels;
  small.ffn_hidden_size = 4 * small.hidden_size;
  small.seq_length = config.tp;
  small.vocab_size = vocabulary;
  return small;
}

ParallelConfig shrunk(ParallelConfig config) {
  config.dp = 1;
  config.micro_batch_size = 1;
  return config;
}

}  // namespace ptdp
