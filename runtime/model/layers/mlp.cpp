#include "runtime/model/layers/mlp.h"

#include <utility>

namespace ptdp {
namespace {

ActivationKind kind_of(Activation activation) {
  switch (activation) {
    case Activation::kTanhGelu:
      return ActivationKind::kTanhGelu;
    case Activation::kGelu:
      return ActivationKind::kGelu;
    case Activation::kRelu:
      return ActivationKind::kRelu;
    case Activation::kSilu:
      return ActivationKind::kSilu;
    case Activation::kTanh:
      return ActivationKind::kTanh;
    case Activation::kSquaredRelu:
      return ActivationKind::kSquaredRelu;
    case Activation::kQuickGelu:
      return ActivationKind::kQuickGelu;
  }
  return ActivationKind::kTanhGelu;
}

/// Returns the outputs of the first product.
std::vector<LinearOutputs> first_outputs(const TransformerConfig& model, const std::string& name) {
  if (model.gated_linear_unit) {
    return {{name + ".gate", model.ffn_hidden_size}, {name + ".up", model.ffn_hidden_size}};
  }
  return {{name + ".fc1", model.ffn_hidden_size}};
}

bool has_mlp_bias(const TransformerConfig& model) {
  return model.add_bias_linear || model.add_mlp_bias;
}

}  // namespace

Mlp::Mlp(const LayerContext& context, int layer, const std::string& name)
    : context_(context),
      layer_(layer),
      kind_(kind_of(activation_of(context.model()))),
      fc1_(context, first_outputs(context.model(), name), has_mlp_bias(context.model())),
      fc2_(context, name + ".fc2", context.model().ffn_hidden_size, has_mlp_bias(context.model())) {
}

void Mlp::activate(MlpActivations& activations) const {
  const TransformerConfig& model = context_.model();
  if (!model.gated_linear_unit) {
    activations.activated = fc1_.forward_activated(activations.normed, kind_, activations.up);
    return;
  }
  activations.up = fc1_.forward(activations.normed);
  activations.activated = context_.tensor(context_.rows() * model.ffn_hidden_size / context_.tp());
  context_.backend().activation({.kind = kind_,
                                 .is_gated = true,
                                 .x = activations.up,
                                 .y = activations.activated,
                                 .rows = context_.rows()});
}

Tensor Mlp::forward(const Microbatch& microbatch, Buffer residual,
                    MlpActivations& activations) const {
  activate(activations);
  return fc2_.forward(activations.activated, residual,
                      context_.dropout(microbatch, layer_, DropoutSite::kMlp),
                      context_.range(microbatch));
}

void Mlp::activation_backward(Buffer of_sum, Tensor gradient, MlpActivations& activations) const {
  if (!context_.model().gated_linear_unit) {
    fc2_.activated_input_gradient(of_sum, kind_, activations.up, gradient);
    activations.up = std::move(gradient);
    return;
  }
  fc2_.input_gradient(of_sum, gradient);
  context_.backend().activation_backward({.kind = kind_,
                                          .is_gated = true,
                                          .x = activations.up,
                                          .dy = gradient,
                                          .dx = activations.up,
                                          .rows = context_.rows()});
}

Tensor Mlp::backward(const Microbatch& microbatch, Buffer dy, WeightGradients when,
                     MlpActivations& activations) const {
  activations.output_gradient = fc2_.output_gradient(
      dy, context_.dropout(microbatch, layer_, DropoutSite::kMlp), context_.range(microbatch));
  const Buffer of_sum =
      activations.output_gradient.empty() ? dy : activations.output_gradient.buffer();
  Tensor gradient;
  if (when == WeightGradients::kAtOnce) {
    fc2_.weight_gradient(activations.activated, of_sum);
    gradient = std::move(activations.activated);
  } else {
    gradient = context_.tensor(activations.activated.buffer().size);
  }
  activation_backward(of_sum, std::move(gradient), activations);
  if (when == WeightGradients::kAtOnce) {
    activations.output_gradient.reset();
  }
  return when == WeightGradients::kAtOnce
             ? fc1_.gradients(std::move(activations.normed), std::move(activations.up))
             : fc1_.input_gradient(activations.up);
}

void Mlp::weight_gradients(MlpActivations& activations) const {
  fc2_.weight_gradient(activations.activated, activations.output_gradient);
  activations.activated.reset();
  activations.output_gradient.reset();
  fc1_.weight_gradient(activations.normed, activations.up);
  activations = {};
}

}  // namespace ptdp
