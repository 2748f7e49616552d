// A backend that times each operation of another backend, under the names that the cost model has.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "cost_model/inputs/measured_operation.h"
#include "kernels/forwarding_backend.h"

namespace ptdp {

/// An operation as the cost model knows it, with sizes in DeviceOperation's order.
struct NamedOperation {
  DeviceOperation operation = DeviceOperation::kCopy;
  OperationSizes sizes = {1.0, 1.0, 1.0};
  /// Whether it is an operation by itself. Otherwise it is a part of the next whole one with the
  /// same sizes.
  bool is_whole = true;
};

/// Result of operation_name(), which has an overload for each operation that the cost model may
/// know. An overload decides by the arguments; the result is empty when the cost model has no name
/// for them. add_squares and adamw have no overload: the caller times all parameters together.
using OperationName = std::optional<NamedOperation>;

/// Returns the sizes of a matrix of `rows` rows, which must not be 0.
[[nodiscard]] inline OperationSizes matrix_sizes(std::int64_t rows, const Buffer& x) {
  const std::int64_t columns = x.size / rows;
  return {static_cast<double>(rows), static_cast<double>(columns), 1.0};
}

/// Returns the sizes of all of x as one row.
[[nodiscard]] inline OperationSizes row_sizes(const Buffer& x) {
  return {1.0, static_cast<double>(x.size), 1.0};
}

/// Returns the sizes of a rank's columns of the logits.
[[nodiscard]] inline OperationSizes logits_sizes(std::int64_t rows, const VocabShard& shard) {
  return {static_cast<double>(rows), static_cast<double>(shard.width), 1.0};
}

/// Returns the sizes of a norm of `vectors` vectors.
[[nodiscard]] inline OperationSizes norm_sizes(std::int64_t vectors, const Buffer& gamma) {
  return {static_cast<double>(vectors), static_cast<double>(gamma.size), 1.0};
}

/// Returns the sizes of attention, which counts the heads of all sequences.
[[nodiscard]] inline OperationSizes attention_sizes(const Attention& shape) {
  return {static_cast<double>(shape.batch * shape.heads), static_cast<double>(shape.seq_length),
          static_cast<double>(shape.head_size)};
}

/// Returns whether the cost model has a name for attention of this kind. It has none with a window
/// or a cap.
[[nodiscard]] inline bool is_plain(const Attention& shape) {
  return (shape.window == 0 || shape.window >= shape.seq_length) && shape.soft_cap == 0.0;
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::copy>, Buffer, Buffer to) {
  return {{DeviceOperation::kCopy, row_sizes(to)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::copy_columns>,
                                                  const VectorRows&, const VectorRows&,
                                                  std::int64_t width, std::int64_t rows) {
  return {{DeviceOperation::kCopy, {1.0, static_cast<double>(rows * width), 1.0}}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::fill>, Buffer x, double) {
  return {{DeviceOperation::kFill, row_sizes(x)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::add>, Buffer, Buffer to) {
  return {{DeviceOperation::kAdd, row_sizes(to)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::scale>, Buffer x, double) {
  return {{DeviceOperation::kScale, row_sizes(x)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::soft_cap>, Buffer x, double) {
  return {{DeviceOperation::kSoftCap, row_sizes(x)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::add_bias>, Buffer x, Buffer,
                                                  std::int64_t rows) {
  return {{DeviceOperation::kBias, matrix_sizes(rows, x)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::bias_gradient>, Buffer dy,
                                                  Buffer, std::int64_t rows) {
  return {{DeviceOperation::kBiasGradient, matrix_sizes(rows, dy)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::activation>,
                                                  const ActivationCall& call) {
  return {{call.is_gated ? DeviceOperation::kGatedActivation : DeviceOperation::kBiasGelu,
           matrix_sizes(call.rows, call.y)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::activation_backward>,
                                                  const ActivationBackwardCall& call) {
  if (call.is_gated) {
    return {{DeviceOperation::kGatedActivationBackward, matrix_sizes(call.rows, call.dy)}};
  }
  return {{DeviceOperation::kGeluBackward, row_sizes(call.x)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::bias_dropout_add>,
                                                  const BiasDropoutAddCall& call) {
  const bool is_alone = call.bias.empty() && call.residual.empty();
  if (call.dropout.probability > 0.0) {
    return {{is_alone ? DeviceOperation::kDropoutBackward : DeviceOperation::kBiasDropoutAdd,
             matrix_sizes(call.rows, call.x)}};
  }
  if (call.bias.empty()) {
    return {{is_alone ? DeviceOperation::kCopy : DeviceOperation::kAdd, row_sizes(call.x)}};
  }
  return {{call.residual.empty() ? DeviceOperation::kBias : DeviceOperation::kBiasAdd,
           matrix_sizes(call.rows, call.x)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::dropout_backward>, Buffer dy,
                                                  const Dropout& dropout, double, const TokenRange&,
                                                  Buffer, std::int64_t rows) {
  if (dropout.probability > 0.0) {
    return {{DeviceOperation::kDropoutBackward, matrix_sizes(rows, dy)}};
  }
  return {{DeviceOperation::kCopy, row_sizes(dy)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::matmul>,
                                                  const Matmul& product, Buffer, Buffer, Buffer) {
  const OperationSizes sizes = {static_cast<double>(product.m), static_cast<double>(product.n),
                                static_cast<double>(product.k)};
  if (product.transposes_a && product.accumulates) {
    return {{DeviceOperation::kWeightGradientProduct, sizes}};
  }
  if (product.transposes_b && !product.transposes_a && !product.accumulates) {
    return {{DeviceOperation::kForwardProduct, sizes}};
  }
  if (!product.transposes_b && !product.transposes_a && !product.accumulates) {
    return {{DeviceOperation::kInputGradientProduct, sizes}};
  }
  return std::nullopt;
}

/// Returns the name of a product with an epilogue. One that also writes or reads the input of an
/// activation has none, since the cost model counts that apart (DeviceOperation::kGeluEpilogue).
[[nodiscard]] inline OperationName name_of_product(const EpilogueCall& call) {
  if (call.epilogue == Epilogue::kActivation || call.epilogue == Epilogue::kActivationGradient) {
    return std::nullopt;
  }
  return operation_name(Operation<&Backend::matmul>(), call.product, call.a, call.b, call.c);
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::norm>, const NormCall& call) {
  return {{call.mean.empty() ? DeviceOperation::kRmsNorm : DeviceOperation::kLayerNorm,
           norm_sizes(call.rows * call.vectors, call.gamma)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::sum_and_norm>,
                                                  const BiasDropoutAddCall& sum,
                                                  const NormCall& call) {
  using enum DeviceOperation;
  const bool drops = sum.dropout.probability > 0.0;
  const DeviceOperation with_layer_norm = drops ? kDropoutSumLayerNorm : kSumLayerNorm;
  const DeviceOperation with_rms_norm = drops ? kDropoutSumRmsNorm : kSumRmsNorm;
  return {{call.mean.empty() ? with_rms_norm : with_layer_norm, norm_sizes(call.rows, call.gamma)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::norm_backward>,
                                                  const NormBackwardCall& call) {
  using enum DeviceOperation;
  const bool sums = !call.added_sum.empty();
  const DeviceOperation of_layer_norm = sums ? kLayerNormBackwardBias : kLayerNormBackward;
  const DeviceOperation of_rms_norm = sums ? kRmsNormBackwardBias : kRmsNormBackward;
  return {{call.mean.empty() ? of_rms_norm : of_layer_norm,
           norm_sizes(call.rows * call.vectors, call.gamma)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::row_products>,
                                                  const RowProductsCall& call) {
  return {{DeviceOperation::kRowProducts,
           {static_cast<double>(call.rows), static_cast<double>(call.width), 1.0}}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::split_norm>,
                                                  const SplitNormCall& call) {
  return {{DeviceOperation::kRmsNorm, norm_sizes(call.rows, call.gamma)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::split_norm_backward>,
                                                  const SplitNormBackwardCall& call) {
  return {{DeviceOperation::kRmsNormBackward, norm_sizes(call.rows, call.gamma)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::rotate>,
                                                  const RotaryCall& call) {
  return {{DeviceOperation::kRotary,
           {static_cast<double>(call.rows * call.heads), static_cast<double>(call.width), 1.0}}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::attention>,
                                                  const AttentionCall& call) {
  const Attention& shape = call.shape;
  if (!is_plain(shape)) {
    return std::nullopt;
  }
  return {{shape.dropout.probability > 0.0 ? DeviceOperation::kDropoutAttention
                                           : DeviceOperation::kAttention,
           attention_sizes(shape)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::attention_backward>,
                                                  const AttentionBackwardCall& call) {
  const Attention& shape = call.shape;
  if (!is_plain(shape)) {
    return std::nullopt;
  }
  return {{shape.dropout.probability > 0.0 ? DeviceOperation::kDropoutAttentionBackward
                                           : DeviceOperation::kAttentionBackward,
           attention_sizes(shape)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::embedding>, Buffer ids,
                                                  Buffer, std::int64_t, Buffer out) {
  return {{DeviceOperation::kEmbedding, matrix_sizes(ids.size, out)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::embedding_gradient>,
                                                  Buffer ids, Buffer dy, std::int64_t, Buffer) {
  return {{DeviceOperation::kEmbeddingGradient, matrix_sizes(ids.size, dy)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::add_positions>, Buffer x,
                                                  Buffer, const TokenRange&, std::int64_t rows) {
  return {{DeviceOperation::kPositions, matrix_sizes(rows, x)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::position_gradient>, Buffer dy,
                                                  Buffer, const TokenRange&, std::int64_t rows) {
  return {{DeviceOperation::kPositionGradient, matrix_sizes(rows, dy)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::row_maxima>, Buffer,
                                                  const VocabShard& shard, Buffer,
                                                  std::int64_t rows) {
  return {{DeviceOperation::kCrossEntropy, logits_sizes(rows, shard), /*is_whole=*/false}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::softmax_sums>, Buffer,
                                                  const VocabShard& shard, Buffer, Buffer, Buffer,
                                                  std::int64_t rows) {
  return {{DeviceOperation::kCrossEntropy, logits_sizes(rows, shard)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::cross_entropy_backward>,
                                                  const CrossEntropyBackwardCall& call) {
  return {{DeviceOperation::kCrossEntropyBackward, logits_sizes(call.rows, call.shard)}};
}

/// An operation that ran, timed from the end of the one before it to its own end.
struct TimedOperation {
  DeviceOperation operation = DeviceOperation::kCopy;
  OperationSizes sizes = {1.0, 1.0, 1.0};
  /// Whether it is an operation by itself. Otherwise it is a part of the next whole one with the
  /// same sizes.
  bool is_whole = true;
  double seconds = 0.0;
};

/// A backend that passes everything on to another one, which must outlive it. It keeps two events
/// for each operation that the cost model knows by name; the time of others counts for none. An
/// operation begins when the one before it ended, so that what the runtime does in between is part
/// of it.
class TimedBackend final : public ForwardingBackend<TimedBackend> {
 public:
  explicit TimedBackend(Backend& inner) : inner_(inner) {}

  /// Forgets all timed operations. The next operation begins now.
  void start();
  /// Returns the number of operations timed since start().
  [[nodiscard]] std::size_t num_timed() const { return spans_.size(); }
  /// Returns the operations timed since start(), in order.
  [[nodiscard]] std::vector<TimedOperation> take();

  void use_lane(int lane) override { inner_.use_lane(lane); }
  [[nodiscard]] Event record() override { return inner_.record(); }
  void wait(const Event& event) override { inner_.wait(event); }
  void synchronize() override { inner_.synchronize(); }
  [[nodiscard]] double seconds_between(const Event& first, const Event& second) override {
    return inner_.seconds_between(first, second);
  }
  [[nodiscard]] bool replaces_attention_inputs() const override {
    return inner_.replaces_attention_inputs();
  }
  [[nodiscard]] bool has_epilogue(const EpilogueCall& call) override {
    return inner_.has_epilogue(call);
  }
  void matmul_with_epilogue(const EpilogueCall& call) override {
    inner_.matmul_with_epilogue(call);
    ended(name_of_product(call));
  }
  /// Runs a graph. The time of its first operation begins in the graph.
  void run_as_graph(std::int64_t key, const std::function<void()>& issue) override;

 protected:
  [[nodiscard]] void* allocate_memory(std::int64_t bytes) override {
    return inner_.allocate(bytes);
  }
  void release_memory(void* memory, std::int64_t bytes) noexcept override {
    inner_.release(memory, bytes);
  }

 private:
  friend class ForwardingBackend<TimedBackend>;
  template <auto kOperation, class... Arguments>
  void run(const Arguments&... arguments) {
    (inner_.*kOperation)(arguments...);
    if constexpr (requires { operation_name(Operation<kOperation>(), arguments...); }) {
      ended(operation_name(Operation<kOperation>(), arguments...));
    } else {
      ended(std::nullopt);
    }
  }
  /// Notes that an operation ended just now. Without a name its time counts for none.
  void ended(const OperationName& name);

  /// A named operation and the events around it.
  struct Span {
    NamedOperation named;
    Event begin;
    Event end;
  };

  Backend& inner_;
  Event last_end_;
  std::vector<Span> spans_;
};

}  // namespace ptdp
