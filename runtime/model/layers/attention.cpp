#include "runtime/model/layers/attention.h"

#include <utility>

namespace ptdp {

SelfAttention::SelfAttention(const LayerContext& context, int layer, const std::string& name)
    : context_(context),
      layer_(layer),
      qkv_(context, name + ".qkv", 3 * query_width(context.model())),
      projection_(context, name + ".projection", query_width(context.model())) {}

Attention SelfAttention::shape(const Microbatch& microbatch) const {
  const TransformerConfig& model = context_.model();
  const int heads = model.num_attention_heads / context_.tp();
  return {.seq_length = model.seq_length,
          .batch = context_.settings().micro_batch_size,
          .heads = heads,
          .first_head = std::int64_t{1} * context_.tensor_rank() * heads,
          .total_heads = model.num_attention_heads,
          .head_size = model.kv_channels,
          .first_sample = microbatch.first_sample,
          .dropout = context_.dropout(microbatch, layer_, DropoutSite::kAttention)};
}

std::int64_t SelfAttention::own_width() const {
  return query_width(context_.model()) / context_.tp();
}

Tensor SelfAttention::forward(const Microbatch& microbatch, Buffer residual,
                              AttentionActivations& activations) const {
  activations.qkv = qkv_.forward(activations.normed);
  if (!qkv_.bias().empty()) {
    context_.backend().add_bias(activations.qkv, qkv_.bias(), context_.rows());
  }
  recompute_core(microbatch, activations);
  return projection_.forward(activations.output, residual,
                             context_.dropout(microbatch, layer_, DropoutSite::kProjection),
                             context_.range(microbatch));
}

void SelfAttention::recompute_core(const Microbatch& microbatch,
                                   AttentionActivations& activations) const {
  const Attention core = shape(microbatch);
  activations.output = context_.tensor(context_.rows() * own_width());
  activations.log_sum = context_.accumulator(context_.rows() * core.heads);
  context_.timed(OperationKind::kAttention, [&] {
    context_.backend().attention(core, activations.qkv, activations.output, activations.log_sum);
  });
}

Tensor SelfAttention::backward(const Microbatch& microbatch, Buffer dy, WeightGradients when,
                               AttentionActivations& activations) const {
  activations.output_gradient = projection_.output_gradient(
      dy, context_.dropout(microbatch, layer_, DropoutSite::kProjection),
      context_.range(microbatch));
  Tensor core_gradient = context_.tensor(context_.rows() * own_width());
  projection_.input_gradient(activations.output_gradient, core_gradient);
  // The core's backward pass reads its output, and so does this weight gradient.
  if (when == WeightGradients::kAtOnce) {
    projection_.weight_gradient(activations.output, activations.output_gradient);
    activations.output_gradient.reset();
  }
  context_.timed(OperationKind::kAttention, [&] {
    context_.backend().attention_backward(shape(microbatch), activations.qkv, activations.output,
                                          activations.log_sum, core_gradient, activations.qkv);
  });
  core_gradient.reset();
  activations.log_sum.reset();
  if (when == WeightGradients::kAtOnce) {
    activations.output.reset();
    return qkv_.gradients(std::move(activations.normed), std::move(activations.qkv));
  }
  return qkv_.input_gradient(activations.qkv);
}

void SelfAttention::weight_gradients(AttentionActivations& activations) const {
  projection_.weight_gradient(activations.output, activations.output_gradient);
  activations.output.reset();
  activations.output_gradient.reset();
  qkv_.weight_gradient(activations.normed, activations.qkv);
  activations = {};
}

}  // namespace ptdp
