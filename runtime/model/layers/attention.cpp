#include "runtime/model/layers/attention.h"

#include <cmath>
#include <utility>

#include "cost_model/inputs/rank_sizes.h"

namespace ptdp {

SelfAttention::SelfAttention(const LayerContext& context, int layer, const std::string& name)
    : context_(context),
      layer_(layer),
      heads_(context.model().num_attention_heads / context.tp()),
      key_heads_(key_heads_of_rank(context.model(), context.tp())),
      qkv_(context,
           {{name + ".query", query_width(context.model())},
            {name + ".key", key_width(context.model())},
            {name + ".value", key_width(context.model())}},
           context.model().add_bias_linear || context.model().add_qkv_bias),
      projection_(context, name + ".projection", query_width(context.model()),
                  context.model().add_bias_linear || context.model().add_projection_bias) {
  if (splits_key_heads(context.model(), context.tp())) {
    shared_.emplace(context);
  }
  if (splits_norms(context.model(), context.tp())) {
    split_norms_.emplace(context, name);
  } else if (context.model().qk_layernorm) {
    query_norm_.emplace(context, name + ".query_norm", heads_);
    key_norm_.emplace(context, name + ".key_norm", key_heads_);
  }
}

double SelfAttention::scale() const {
  const TransformerConfig& model = context_.model();
  if (!model.scale_attn_weights) {
    return 1.0;
  }
  const double width =
      model.query_pre_attn_scalar > 0.0 ? model.query_pre_attn_scalar : model.kv_channels;
  return 1.0 / std::sqrt(width);
}

Attention SelfAttention::shape(const Microbatch& microbatch) const {
  const TransformerConfig& model = context_.model();
  return {.seq_length = model.seq_length,
          .batch = context_.settings().micro_batch_size,
          .heads = heads_,
          .key_heads = key_heads_,
          .first_head = std::int64_t{1} * context_.tensor_rank() * heads_,
          .total_heads = model.num_attention_heads,
          .head_size = model.kv_channels,
          .first_sample = microbatch.first_sample,
          .scale = model.scale_attn_by_inverse_layer_idx ? scale() / (layer_ + 1) : scale(),
          .window = has_window(model, layer_) ? model.window_size : 0,
          .soft_cap = model.attn_logit_softcapping,
          .dropout = context_.dropout(microbatch, layer_, DropoutSite::kAttention)};
}

VectorRows SelfAttention::projected_keys(Buffer qkv) const {
  const std::int64_t queries = std::int64_t{1} * heads_ * context_.model().kv_channels;
  const std::int64_t keys = key_width(context_.model()) / context_.tp();
  return {qkv.slice(queries, qkv.size - queries), queries + 2 * keys};
}

SelfAttention::Vectors SelfAttention::projected_vectors(Buffer qkv) const {
  const VectorRows keys = projected_keys(qkv);
  const std::int64_t width = key_width(context_.model()) / context_.tp();
  return {{qkv, keys.stride},
          keys,
          {keys.elements.slice(width, keys.elements.size - width), keys.stride}};
}

SelfAttention::Vectors SelfAttention::raw_vectors(Buffer qkv, Buffer shared) const {
  const VectorRows projected = projected_keys(qkv);
  const std::int64_t d = context_.model().kv_channels;
  const VectorRows keys = shared_ ? VectorRows{shared, 2 * d} : projected;
  const std::int64_t width = key_heads_ * d;
  return {{qkv, projected.stride},
          keys,
          {keys.elements.slice(width, keys.elements.size - width), keys.stride},
          shared_.has_value()};
}

SelfAttention::Vectors SelfAttention::core_vectors(const AttentionActivations& activations) const {
  Vectors vectors = raw_vectors(activations.qkv, activations.shared);
  if (query_norm_ || split_norms_) {
    const std::int64_t d = context_.model().kv_channels;
    const Buffer qk = activations.normed_qk;
    vectors.keys_lie_apart = shared_ && !query_norm_;
    const std::int64_t stride = (heads_ + (vectors.keys_lie_apart ? 0 : key_heads_)) * d;
    vectors.queries = {qk, stride};
    if (!vectors.keys_lie_apart) {
      vectors.keys = {qk.slice(heads_ * d, qk.size - heads_ * d), stride};
    }
  }
  return vectors;
}

void SelfAttention::rotate(const Microbatch& microbatch, const VectorRows& vectors, int heads,
                           bool turns_back) const {
  const TransformerConfig& model = context_.model();
  context_.backend().rotate({.x = vectors,
                             .angles = context_.rotary_angles(),
                             .heads = heads,
                             .head_size = model.kv_channels,
                             .width = rotary_width(model),
                             .range = context_.range_of_all(microbatch),
                             .rows = context_.rows(),
                             .turns_back = turns_back});
}

void SelfAttention::rotate(const Microbatch& microbatch, const Vectors& vectors,
                           bool turns_back) const {
  if (rotary_width(context_.model()) == 0) {
    return;
  }
  if (vectors.keys_lie_apart) {
    rotate(microbatch, vectors.queries, heads_, turns_back);
    rotate(microbatch, vectors.keys, key_heads_, turns_back);
  } else {
    rotate(microbatch, vectors.queries, heads_ + key_heads_, turns_back);
  }
}

void SelfAttention::norm_split(AttentionActivations& activations) const {
  const std::int64_t rows = context_.rows();
  const Vectors raw = projected_vectors(activations.qkv);
  const Tensor squares = split_norms_->squares({raw.queries, raw.keys});
  if (shared_) {
    const Tensor parts = shared_->parts();
    const SharedKeyHead::OwnPart own = shared_->own_part(parts);
    activations.key_statistics.rstd = split_norms_->norm_keys(raw.keys, squares, own.keys);
    context_.backend().copy_columns(raw.values, own.values, shared_->width(), rows);
    activations.shared = shared_->gather(parts);
  }
  const std::int64_t heads = heads_ + (shared_ ? 0 : key_heads_);
  activations.normed_qk = context_.tensor(rows * heads * context_.model().kv_channels);
  const Vectors normed = core_vectors(activations);
  activations.query_statistics.rstd =
      split_norms_->norm_queries(raw.queries, squares, normed.queries);
  if (!shared_) {
    activations.key_statistics.rstd = split_norms_->norm_keys(raw.keys, squares, normed.keys);
  }
}

void SelfAttention::norm_split_backward(QkvGradients& gradients,
                                        const AttentionActivations& activations) const {
  const Vectors raw = projected_vectors(activations.qkv);
  const Vectors of_raw = projected_vectors(gradients.qkv);
  const SplitNorms::Vectors x = {raw.queries, raw.keys};
  const SplitNorms::Vectors dx = {of_raw.queries, of_raw.keys};
  const SplitNorms::Statistics rstd = {activations.query_statistics.rstd,
                                       activations.key_statistics.rstd};
  if (!shared_) {
    split_norms_->backward(dx, x, rstd, dx);
    return;
  }
  const Tensor parts = shared_->reduce(std::move(gradients.shared));
  const SharedKeyHead::OwnPart own = shared_->own_part(parts);
  split_norms_->backward({of_raw.queries, own.keys}, x, rstd, dx);
  context_.backend().copy_columns(own.values, of_raw.values, shared_->width(), context_.rows());
}

void SelfAttention::prepare(const Microbatch& microbatch, AttentionActivations& activations) const {
  if (split_norms_) {
    norm_split(activations);
  } else if (shared_) {
    const Tensor parts = shared_->parts();
    context_.backend().copy_columns(projected_keys(activations.qkv), shared_->own_part(parts).keys,
                                    2 * shared_->width(), context_.rows());
    activations.shared = shared_->gather(parts);
  }
  if (query_norm_) {
    const Vectors raw = raw_vectors(activations.qkv, activations.shared);
    activations.normed_qk =
        context_.tensor(context_.rows() * (heads_ + key_heads_) * context_.model().kv_channels);
    const Vectors normed = core_vectors(activations);
    activations.query_statistics = query_norm_->forward(raw.queries, normed.queries);
    activations.key_statistics = key_norm_->forward(raw.keys, normed.keys);
  }
  rotate(microbatch, core_vectors(activations), /*turns_back=*/false);
}

void SelfAttention::prepare_backward(const Microbatch& microbatch, QkvGradients gradients,
                                     AttentionActivations& activations) const {
  const Vectors of_core = raw_vectors(gradients.qkv, gradients.shared);
  rotate(microbatch, of_core, /*turns_back=*/true);
  if (query_norm_) {
    const Vectors raw = raw_vectors(activations.qkv, activations.shared);
    query_norm_->backward(of_core.queries, raw.queries, activations.query_statistics,
                          of_core.queries, /*added=*/{});
    key_norm_->backward(of_core.keys, raw.keys, activations.key_statistics, of_core.keys,
                        /*added=*/{});
  }
  activations.shared.reset();
  if (split_norms_) {
    norm_split_backward(gradients, activations);
  }
  activations.qkv = std::move(gradients.qkv);
  activations.query_statistics = {};
  activations.key_statistics = {};
  if (shared_ && !split_norms_) {
    const Tensor parts = shared_->reduce(std::move(gradients.shared));
    context_.backend().copy_columns(shared_->own_part(parts).keys, projected_keys(activations.qkv),
                                    2 * shared_->width(), context_.rows());
  }
}

SelfAttention::QkvGradients SelfAttention::core_backward(const Microbatch& microbatch,
                                                         Buffer core_gradient, WeightGradients when,
                                                         AttentionActivations& activations) const {
  const Vectors vectors = core_vectors(activations);
  QkvGradients gradients;
  // Where weight gradients wait, what the MLP keeps is still there, and more would be a peak.
  if (when == WeightGradients::kLater && !query_norm_ && !split_norms_ &&
      context_.backend().replaces_attention_inputs()) {
    gradients = {std::move(activations.qkv), std::move(activations.shared)};
  } else {
    gradients.qkv = context_.tensor(activations.qkv.buffer().size);
    gradients.shared = context_.tensor(activations.shared.buffer().size);
  }
  const Vectors of_vectors = raw_vectors(gradients.qkv, gradients.shared);
  context_.timed(OperationKind::kAttention, [&] {
    context_.backend().attention_backward({.shape = shape(microbatch),
                                           .q = vectors.queries,
                                           .k = vectors.keys,
                                           .v = vectors.values,
                                           .out = activations.output,
                                           .log_sum = activations.log_sum,
                                           .dout = core_gradient,
                                           .dq = of_vectors.queries,
                                           .dk = of_vectors.keys,
                                           .dv = of_vectors.values});
  });
  return gradients;
}

Tensor SelfAttention::forward(const Microbatch& microbatch, Buffer residual,
                              AttentionActivations& activations, const NormOfSum& next) const {
  activations.qkv = qkv_.forward(activations.normed);
  prepare(microbatch, activations);
  recompute_core(microbatch, activations);
  return projection_.forward(activations.output, residual,
                             context_.dropout(microbatch, layer_, DropoutSite::kProjection),
                             context_.range(microbatch), next);
}

void SelfAttention::recompute_core(const Microbatch& microbatch,
                                   AttentionActivations& activations) const {
  const Attention core = shape(microbatch);
  const Vectors vectors = core_vectors(activations);
  activations.output = context_.tensor(context_.rows() * heads_ * core.head_size);
  activations.log_sum = context_.accumulator(context_.rows() * heads_);
  context_.timed(OperationKind::kAttention, [&] {
    context_.backend().attention({.shape = core,
                                  .q = vectors.queries,
                                  .k = vectors.keys,
                                  .v = vectors.values,
                                  .out = activations.output,
                                  .log_sum = activations.log_sum});
  });
}

Tensor SelfAttention::backward(const Microbatch& microbatch, Buffer dy, WeightGradients when,
                               AttentionActivations& activations) const {
  activations.output_gradient = projection_.output_gradient(
      dy, context_.dropout(microbatch, layer_, DropoutSite::kProjection),
      context_.range(microbatch));
  const Buffer of_sum =
      activations.output_gradient.empty() ? dy : activations.output_gradient.buffer();
  Tensor core_gradient = context_.tensor(activations.output.buffer().size);
  projection_.input_gradient(of_sum, core_gradient);
  // The core's backward pass reads its output, and so does this weight gradient.
  if (when == WeightGradients::kAtOnce) {
    projection_.weight_gradient(activations.output, of_sum);
    activations.output_gradient.reset();
  }
  QkvGradients gradients = core_backward(microbatch, core_gradient, when, activations);
  core_gradient.reset();
  activations.log_sum.reset();
  activations.normed_qk.reset();
  if (when == WeightGradients::kAtOnce) {
    activations.output.reset();
  }
  prepare_backward(microbatch, std::move(gradients), activations);
  if (when == WeightGradients::kAtOnce) {
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
