#include "runtime/model/layers/transformer_block.h"

#include <utility>

#include "runtime/model/layers/sequence_parallel.h"

namespace ptdp {
namespace {

std::string name_of_layer(int layer) {
  return "layers." + std::to_string(layer);
}

}  // namespace

TransformerBlock::TransformerBlock(const LayerContext& context, int layer)
    : context_(context),
      norm1_(context, name_of_layer(layer) + ".ln1"),
      attention_(context, layer, name_of_layer(layer) + ".attention"),
      norm2_(context, name_of_layer(layer) + ".ln2"),
      mlp_(context, layer, name_of_layer(layer) + ".mlp") {}

Tensor TransformerBlock::compute(const Microbatch& microbatch,
                                 BlockActivations& activations) const {
  const std::int64_t size = activations.input.buffer().size;
  activations.attention.normed = context_.tensor(size);
  activations.statistics1 = norm1_.forward(activations.input, activations.attention.normed);
  activations.middle = attention_.forward(microbatch, activations.input, activations.attention);
  if (repeats(context_.settings().recompute) == Repeats::kModules) {
    activations.attention.output.reset();
    activations.attention.log_sum.reset();
  }
  activations.mlp.normed = context_.tensor(size);
  activations.statistics2 = norm2_.forward(activations.middle, activations.mlp.normed);
  return mlp_.forward(microbatch, activations.middle, activations.mlp);
}

Tensor TransformerBlock::forward(const Microbatch& microbatch, Tensor input,
                                 BlockActivations& activations) const {
  activations.input = std::move(input);
  Tensor output = compute(microbatch, activations);
  if (repeats(context_.settings().recompute) == Repeats::kLayer) {
    activations = {.input = std::move(activations.input)};
  }
  return output;
}

void TransformerBlock::backward(const Microbatch& microbatch, Buffer gradient, WeightGradients when,
                                BlockActivations& activations) const {
  if (repeats(context_.settings().recompute) == Repeats::kLayer) {
    // Recomputes the layer up to its unused output, as Megatron-LM does, since its collectives are
    // counted.
    static_cast<void>(compute(microbatch, activations));
  }
  Tensor normed = mlp_.backward(microbatch, gradient, when, activations.mlp);
  norm2_.backward(own_rows(context_, normed), activations.middle, activations.statistics2,
                  gradient);
  normed.reset();
  activations.middle.reset();
  activations.statistics2 = {};
  if (repeats(context_.settings().recompute) == Repeats::kModules) {
    attention_.recompute_core(microbatch, activations.attention);
  }
  normed = attention_.backward(microbatch, gradient, when, activations.attention);
  norm1_.backward(own_rows(context_, normed), activations.input, activations.statistics1, gradient);
  activations.input.reset();
  activations.statistics1 = {};
}

void TransformerBlock::weight_gradients(BlockActivations& activations) const {
  mlp_.weight_gradients(activations.mlp);
  attention_.weight_gradients(activations.attention);
}

}  // namespace ptdp
