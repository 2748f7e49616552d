// Counts what the element-wise operations of a layer move through memory, out of what a stage
// calls, against arithmetic by hand and the cost model's list.
#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>

#include "cost_model/layer/element_wise.h"
#include "cost_model/layer/element_wise_operations.h"
#include "runtime/transport/solo_communicator.h"
#include "tests/runtime/model/idle_backend.h"
#include "tests/runtime/model/stage_run.h"

namespace ptdp {
namespace {

// Elements of matrices that an operation reads and writes. Vectors, such as biases, count for none.

std::int64_t moved_by(Operation<&Backend::copy> /*copy*/, Buffer from, Buffer to) {
  return from.size + to.size;
}
std::int64_t moved_by(Operation<&Backend::fill> /*fill*/, Buffer x, double /*value*/) {
  return x.size;
}
std::int64_t moved_by(Operation<&Backend::add> /*add*/, Buffer x, Buffer to) {
  // Bias gradients are in the accumulator type, hidden states in the working type.
  return x.type == DataType::kFloat32 ? 0 : x.size + 2 * to.size;
}
std::int64_t moved_by(Operation<&Backend::add_bias> /*add*/, Buffer x, Buffer /*bias*/,
                      std::int64_t /*rows*/) {
  return 2 * x.size;
}
std::int64_t moved_by(Operation<&Backend::bias_gradient> /*sum*/, Buffer dy, Buffer /*gradient*/,
                      std::int64_t /*rows*/) {
  return dy.size;
}
std::int64_t moved_by(Operation<&Backend::activation> /*activate*/, const ActivationCall& call) {
  return (call.bias.empty() ? 1 : 2) * call.x.size + call.y.size;
}
std::int64_t moved_by(Operation<&Backend::activation_backward> /*activate*/,
                      const ActivationBackwardCall& call) {
  return call.x.size + call.dy.size + call.dx.size;
}
std::int64_t moved_by(Operation<&Backend::bias_dropout_add> /*add*/,
                      const BiasDropoutAddCall& call) {
  return call.x.size + call.residual.size + call.y.size;
}
std::int64_t moved_by(Operation<&Backend::dropout_backward> /*drop*/, Buffer dy,
                      const Dropout& /*dropout*/, double /*scale*/, const TokenRange& /*range*/,
                      Buffer dx, std::int64_t /*rows*/) {
  return dy.size + dx.size;
}
std::int64_t moved_by(Operation<&Backend::norm> /*norm*/, const NormCall& call) {
  return 2 * call.rows * call.vectors * call.gamma.size;
}
std::int64_t moved_by(Operation<&Backend::sum_and_norm> /*both*/, const BiasDropoutAddCall& sum,
                      const NormCall& call) {
  return sum.x.size + sum.residual.size + sum.y.size + call.rows * call.gamma.size;
}
std::int64_t moved_by(Operation<&Backend::norm_backward> /*norm*/, const NormBackwardCall& call) {
  return (call.added.empty() ? 3 : 4) * call.rows * call.vectors * call.gamma.size;
}
std::int64_t moved_by(Operation<&Backend::rotate> /*turn*/, const RotaryCall& call) {
  return 2 * call.rows * call.heads * call.width;
}
std::int64_t moved_by(Operation<&Backend::matmul> /*product*/, const Matmul& /*shape*/,
                      Buffer /*a*/, Buffer /*b*/, Buffer /*c*/) {
  return 0;
}
std::int64_t moved_by(Operation<&Backend::attention> /*attend*/, const AttentionCall& /*call*/) {
  return 0;
}
/// A GPU's library computes gradients apart from inputs, and copies them where they replace these.
std::int64_t moved_by(Operation<&Backend::attention_backward> /*attend*/,
                      const AttentionBackwardCall& call) {
  const Attention& shape = call.shape;
  const bool is_copied = call.dq.elements.data == call.q.elements.data ||
                         call.dk.elements.data == call.k.elements.data ||
                         call.dv.elements.data == call.v.elements.data;
  return is_copied ? 2 * shape.seq_length * shape.batch * shape.head_size *
                         (shape.heads + 2 * shape.key_heads)
                   : 0;
}

/// A backend that computes nothing and counts what operations move. Those that no overload knows
/// are told.
class MovingBackend final : public IdleBackendOf<MovingBackend> {
 public:
  explicit MovingBackend(bool fuses_bias_gradients) : fuses_bias_gradients_(fuses_bias_gradients) {}

  /// Begins to count, behind what making a stage moves.
  void start() {
    is_counting_ = true;
    moved_ = 0;
  }
  [[nodiscard]] std::int64_t moved() const { return moved_; }

  [[nodiscard]] bool replaces_attention_inputs() const override { return false; }
  [[nodiscard]] bool has_epilogue(const EpilogueCall& call) override {
    if (call.epilogue == Epilogue::kBiasGradient) {
      return fuses_bias_gradients_;
    }
    return call.x.empty() || call.activation == ActivationKind::kTanhGelu;
  }
  /// Counts what a product alone would neither read nor write.
  void matmul_with_epilogue(const EpilogueCall& call) override { moved_ += call.x.size; }

 private:
  friend class ForwardingBackend<MovingBackend>;
  template <auto kOperation, class... Arguments>
  void run(const Arguments&... arguments) {
    if constexpr (requires { moved_by(Operation<kOperation>(), arguments...); }) {
      moved_ += moved_by(Operation<kOperation>(), arguments...);
    } else {
      EXPECT_FALSE(is_counting_) << "an operation that no overload counts";
    }
  }

  bool fuses_bias_gradients_;
  std::int64_t moved_ = 0;
  bool is_counting_ = false;
};

constexpr int kHidden = 32;

/// Returns GPT of one layer: 4 heads of 8, an MLP of 4h.
TransformerConfig gpt_layer() {
  return {.num_layers = 1,
          .hidden_size = kHidden,
          .num_attention_heads = 4,
          .num_query_groups = 4,
          .kv_channels = 8,
          .ffn_hidden_size = 4 * kHidden,
          .vocab_size = 64,
          .seq_length = 16};
}

/// Returns Llama of one layer: two query heads for a key head, gates, an MLP of 3.5h as in Llama 3.
TransformerConfig llama_layer() {
  TransformerConfig model = gpt_layer();
  model.num_query_groups = 2;
  model.ffn_hidden_size = 7 * kHidden / 2;
  model.gated_linear_unit = true;
  model.add_bias_linear = false;
  model.position_embedding = PositionEmbedding::kRope;
  model.normalization = Normalization::kRmsNorm;
  return model;
}

/// Returns the units, of as many elements as a hidden state, that a layer moves forward and
/// backward.
double units_of_runtime(const TransformerConfig& model, bool fuses_bias_gradients) {
  MovingBackend backend(fuses_bias_gradients);
  SoloCommunicator group(/*rank=*/0, /*size=*/1);
  TransformerStage stage(backend, group,
                         {.model = model, .micro_batch_size = 2, .type = DataType::kBFloat16},
                         {.count = 1}, nullptr);
  const std::int64_t hidden_state = std::int64_t{2} * model.seq_length * model.hidden_size;
  const Microbatch microbatch{.gradient_scale = 1.0};
  backend.start();
  static_cast<void>(stage.forward(microbatch, Tensor(backend, DataType::kBFloat16, hidden_state)));
  static_cast<void>(stage.backward(microbatch, Tensor(backend, DataType::kBFloat16, hidden_state)));
  return static_cast<double>(backend.moved()) / static_cast<double>(hidden_state);
}

/// Returns the units that the cost model counts.
double units_of_model(TransformerConfig model, bool fuses_bias_gradients) {
  model.dropout = false;
  double moved = 0.0;
  for (const ElementWiseOperation& each :
       layer_operations(model, {.micro_batch_size = 2},
                        {.biases = true, .bias_gradients = fuses_bias_gradients, .gelu = true})) {
    moved += element_wise_passes(each.operation) * each.sizes[0] * each.sizes[1];
  }
  return moved / (2.0 * model.seq_length * model.hidden_size);
}

// By hand, in hidden states read and written:
//
//   forward   norm 2; projection's bias, residual and norm 4; GELU's input 4; fc2's bias and
//             residual 3: 13
//   backward  GELU's input 4; norms 2·4: 12
//
// Products add all other biases. Norms sum the bias gradients of the projection and of fc2, and
// products the others. The floor is 24: the next layer's norm could share the last residual, 4 for
// its 3 + 2. Where kernels of their own sum the others, they read QKV's 3, and the MLP's 4.
TEST(MovedUnits, OfAGptLayerAreThoseOfTheArithmetic) {
  const double units = units_of_runtime(gpt_layer(), /*fuses_bias_gradients=*/true);
  std::cout << "a GPT layer moves " << units << " hidden states\n";
  EXPECT_EQ(units, 13.0 + 12.0);
  EXPECT_EQ(units, units_of_model(gpt_layer(), /*fuses_bias_gradients=*/true));
  EXPECT_EQ(units_of_runtime(gpt_layer(), /*fuses_bias_gradients=*/false), 13.0 + 12.0 + 3.0 + 4.0);
  EXPECT_EQ(units_of_model(gpt_layer(), /*fuses_bias_gradients=*/false), 13.0 + 12.0 + 3.0 + 4.0);
}

// With dropout the gradients of a branch's result and of its sum differ: each is read once more, by
// the kernel that sums it. So it is where norms are behind branches, or both branches are parallel,
// and where rows are too wide for the sums of three columns each.
TEST(MovedUnits, AreMoreWhereNormsCannotSumBiasGradients) {
  const auto units_of_sums = [](const TransformerConfig& model) {
    double moved = 0.0;
    for (const ElementWiseOperation& each :
         layer_operations(model, {.micro_batch_size = 2}, {.biases = true, .gelu = true})) {
      if (each.operation == DeviceOperation::kBiasGradient) {
        moved += each.sizes[0] * each.sizes[1];
      }
    }
    return moved / (2.0 * model.seq_length * model.hidden_size);
  };
  TransformerConfig model = gpt_layer();
  EXPECT_EQ(units_of_sums(model), 3.0 + 4.0 + 2.0) << "with dropout";
  model.dropout = false;
  EXPECT_EQ(units_of_sums(model), 3.0 + 4.0);
  model.norm_placement = NormPlacement::kBeforeAndBehind;
  EXPECT_EQ(units_of_sums(model), 3.0 + 4.0 + 2.0);
  model.norm_placement = NormPlacement::kBefore;
  model.parallel_residual = true;
  EXPECT_EQ(units_of_sums(model), 3.0 + 4.0 + 2.0);
  EXPECT_EQ(units_of_runtime(model, /*fuses_bias_gradients=*/false),
            units_of_model(model, /*fuses_bias_gradients=*/false));
  model.parallel_residual = false;
  model.residual_multiplier = 0.5;
  EXPECT_EQ(units_of_sums(model), 3.0 + 4.0 + 2.0);
  EXPECT_EQ(units_of_runtime(model, /*fuses_bias_gradients=*/false),
            units_of_model(model, /*fuses_bias_gradients=*/false));
}

// By hand, f = 3.5h, and keys half as wide as queries:
//
//   forward   norm 2; rotary positions 2·1.5; residual and norm 4; gate 3·3.5; residual 3: 22.5
//   backward  gate 5·3.5; rotary positions 2·1.5; norms 2·4: 28.5
//
// Each must be but the last residual, which the next layer's norm could share: 4 for its 3 + 2.
TEST(MovedUnits, OfALlamaLayerAreWithinThreeTenthsOfTheirFloor) {
  const double units = units_of_runtime(llama_layer(), /*fuses_bias_gradients=*/false);
  std::cout << "a Llama layer moves " << units << " hidden states\n";
  EXPECT_EQ(units, 22.5 + 28.5);
  EXPECT_EQ(units, units_of_model(llama_layer(), /*fuses_bias_gradients=*/false));
  const double least = 2.0 * 1.5 + 2.0 * 4.0 + 3.0 * 3.5 + 5.0 * 3.5 + 2.0 * 1.5 + 2.0 * 4.0;
  EXPECT_LE(units, 1.3 * least);
}

}  // namespace
}  // namespace ptdp
