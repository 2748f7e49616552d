#include "runtime/model/layers/mlp.h"

#include <utility>

namespace ptdp {

Mlp::Mlp(const LayerContext& context, int layer, const std::string& name)
    : context_(context),
      layer_(layer),
      fc1_(context, name + ".fc1", context.model().ffn_hidden_size),
      fc2_(context, name + ".fc2", context.model().ffn_hidden_size) {}

Tensor Mlp::forward(const Microbatch& microbatch, Buffer residual,
                    MlpActivations& activations) const {
  activations.up = fc1_.forward(activations.normed);
  activations.gelu = context_.tensor(activations.up.buffer().size);
  context_.backend().bias_gelu(activations.up, fc1_.bias(), activations.gelu, context_.rows());
  return fc2_.forward(activations.gelu, residual,
                      context_.dropout(microbatch, layer_, DropoutSite::kMlp),
                      context_.range(microbatch));
}

Tensor Mlp::backward(const Microbatch& microbatch, Buffer dy, WeightGradients when,
                     MlpActivations& activations) const {
  activations.output_gradient = fc2_.output_gradient(
      dy, context_.dropout(microbatch, layer_, DropoutSite::kMlp), context_.range(microbatch));
  Tensor gelu_gradient;
  if (when == WeightGradients::kAtOnce) {
    fc2_.weight_gradient(activations.gelu, activations.output_gradient);
    gelu_gradient = std::move(activations.gelu);
  } else {
    gelu_gradient = context_.tensor(activations.gelu.buffer().size);
  }
  fc2_.input_gradient(activations.output_gradient, gelu_gradient);
  if (when == WeightGradients::kAtOnce) {
    activations.output_gradient.reset();
  }
  context_.backend().gelu_backward(activations.up, gelu_gradient, activations.up);
  gelu_gradient.reset();
  return when == WeightGradients::kAtOnce
             ? fc1_.gradients(std::move(activations.normed), std::move(activations.up))
             : fc1_.input_gradient(activations.up);
}

void Mlp::weight_gradients(MlpActivations& activations) const {
  fc2_.weight_gradient(activations.gelu, activations.output_gradient);
  activations.gelu.reset();
  activations.output_gradient.reset();
  fc1_.weight_gradient(activations.normed, activations.up);
  activations = {};
}

}  // namespace ptdp
