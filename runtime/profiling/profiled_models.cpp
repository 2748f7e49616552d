#include "runtime/profiling/profiled_models.h"

#include "cost_model/memory/memory.h"
#include "cost_model/memory/runtime_stack.h"

namespace ptdp {

ProfiledModel profiled_model(const ModelShape& shape) {
  ProfiledModel profiled{.model = {.num_layers = shape.layers,
                                   .hidden_size = shape.hidden,
                                   .num_attention_heads = shape.heads,
                                   .num_query_groups = shape.heads,
                                   .kv_channels = shape.head_size,
                                   .ffn_hidden_size = shape.ffn,
                                   .vocab_size = shape.vocab,
                                   .seq_length = shape.seq_length},
                         .micro_batch_size = shape.micro_batch_size,
                         .dropout = shape.dropout};
  if (shape.parts == ModelParts::kToday) {
    TransformerConfig& model = profiled.model;
    model.num_query_groups = shape.heads % 2 == 0 ? shape.heads / 2 : shape.heads;
    model.gated_linear_unit = true;
    model.add_bias_linear = false;
    model.position_embedding = PositionEmbedding::kRope;
    model.normalization = Normalization::kRmsNorm;
    model.qk_layernorm = true;
    model.embedding_multiplier = 2.0;
    model.final_logit_softcapping = 30.0;
  }
  return profiled;
}

Bytes step_memory(const ProfiledModel& profiled, Precision precision) {
  const Scenario scenario{
      .job = {.model = profiled.model, .global_batch_size = profiled.micro_batch_size},
      .stack = runtime_stack(precision)};
  return peak_memory({scenario, {.micro_batch_size = profiled.micro_batch_size}});
}

}  // namespace ptdp
