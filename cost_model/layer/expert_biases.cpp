// Counts what biases and bounds of experts move and launch.
#include "cost_model/layer/expert_biases.h"

namespace ptdp {
namespace {

constexpr double kHalfPasses = 11.0;    // over a half of the first product, backward
constexpr double kComparedBytes = 8.0;  // of comparisons, for each number of a half
constexpr double kBoundsForward = 4.0;  // two bounds, a concatenation, the gate's offset
constexpr double kBoundsBackward = 7.0;

/// Whether operations of their own add biases of experts.
bool biases_apart(const TransformerConfig& model, const StackSpec& stack) {
  return !stack.fused_expert_biases && (model.add_bias_linear || model.add_mlp_bias);
}

/// Returns the bytes of a visit's weight.
double weight_bytes(const StackSpec& stack) {
  return stack.expert_dispatch == ExpertDispatch::kHierarchical
             ? 4.0
             : 1.0 * element_bytes(stack.precision);
}

}  // namespace

bool bounds_apart(const TransformerConfig& model, const StackSpec& stack) {
  return !stack.fused_expert_biases && model.activation_func_clamp_value != 0.0 &&
         activation_of(model) == Activation::kQuickGelu;
}

ExpertBiasTraffic expert_bias_traffic(const TransformerConfig& model, const StackSpec& stack,
                                      double rows, double width) {
  const double element = element_bytes(stack.precision);
  const double weight = weight_bytes(stack);
  ExpertBiasTraffic traffic;
  if (bounds_apart(model, stack)) {
    traffic.bounds = Bytes(8.0 * element * rows * width);
    traffic.forward += traffic.bounds;
    traffic.backward += Bytes((kHalfPasses * element + kComparedBytes) * rows * width);
  }
  if (biases_apart(model, stack)) {
    const double conversion = weight == element ? 0.0 : weight + element;
    const double numbers = rows * model.hidden_size;
    traffic.forward += Bytes((5.0 * weight + element + conversion) * numbers);
    traffic.backward += Bytes((6.0 * weight + 2.0 * element + 2.0 * conversion) * numbers);
  }
  return traffic;
}

ExpertBiasKernels expert_bias_kernels(const TransformerConfig& model, const StackSpec& stack,
                                      double experts) {
  ExpertBiasKernels kernels;
  if (bounds_apart(model, stack)) {
    kernels = {.forward = kBoundsForward, .backward = kBoundsBackward, .bounds = kBoundsForward};
  }
  if (biases_apart(model, stack)) {
    const bool converts = weight_bytes(stack) != element_bytes(stack.precision);
    kernels.forward += 2.0 * experts + 1.0 + (converts ? 1.0 : 0.0);
    kernels.backward += 6.0 * experts + 2.0 + (converts ? 2.0 * experts + 1.0 : 0.0);
  }
  return kernels;
}

}  // namespace ptdp
