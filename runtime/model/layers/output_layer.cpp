#include "runtime/model/layers/output_layer.h"

#include <utility>

#include "runtime/model/layers/sequence_parallel.h"
#include "runtime/model/layers/vocab_parallel_embedding.h"

namespace ptdp {

OutputLayer::OutputLayer(const LayerContext& context, StoredParameter table)
    : context_(context),
      norm_(context, "final_norm"),
      linear_(context, table, context.hidden_size(), vocab_shard(context).width),
      cross_entropy_(context) {}

void OutputLayer::forward(const Microbatch& microbatch, Tensor input,
                          OutputActivations& activations, Buffer total) const {
  activations.input = std::move(input);
  activations.normed = context_.tensor(context_.rows() * context_.hidden_size());
  activations.statistics = norm_.forward(activations.input, own_rows(context_, activations.normed));
  gather_rows(context_, activations.normed);
  activations.logits = context_.tensor(context_.rows() * linear_.outputs());
  linear_.forward(activations.normed, /*bias=*/{}, activations.logits);
  const TransformerConfig& model = context_.model();
  if (model.logits_multiplier != 1.0) {
    context_.backend().scale(activations.logits, model.logits_multiplier);
  }
  if (model.final_logit_softcapping > 0.0) {
    context_.backend().soft_cap(activations.logits, model.final_logit_softcapping);
  }
  activations.cross_entropy = cross_entropy_.forward(microbatch, activations.logits, total);
}

Tensor OutputLayer::backward(const Microbatch& microbatch, WeightGradients when,
                             OutputActivations& activations) const {
  cross_entropy_.backward(microbatch, activations.cross_entropy, activations.logits);
  activations.cross_entropy = {};
  if (when == WeightGradients::kAtOnce) {
    linear_.weight_gradient(activations.normed, activations.logits, /*bias_gradient=*/{});
    activations.normed.reset();
  }
  Tensor normed_gradient = context_.tensor(context_.rows() * context_.hidden_size());
  linear_.input_gradient(activations.logits, normed_gradient);
  if (when == WeightGradients::kAtOnce) {
    activations.logits.reset();
  }
  sum_rows(context_, normed_gradient);
  Tensor gradient = context_.tensor(activations.input.buffer().size);
  context_.backend().fill(gradient, 0.0);
  norm_.backward(own_rows(context_, normed_gradient), activations.input, activations.statistics,
                 gradient, gradient);
  activations.input.reset();
  activations.statistics = {};
  return gradient;
}

void OutputLayer::weight_gradients(OutputActivations& activations) const {
  linear_.weight_gradient(activations.normed, activations.logits, /*bias_gradient=*/{});
  activations = {};
}

void OutputLayer::weight_gradients_apart(OutputActivations& activations,
                                         Buffer table_gradient) const {
  linear_.weight_gradient_apart(activations.normed, activations.logits, table_gradient);
  activations = {};
}

}  // namespace ptdp
