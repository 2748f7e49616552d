// A backend that times each of another's operations, by the names that the cost model has for them.
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
  /// Whether it is one by itself, or a part of the next that is, with the same sizes.
  bool is_whole = true;
};

/// operation_name has an overload for each operation that the cost model may know, and decides by
/// the arguments. The result is empty where it has no name for them. add_squares and adamw have no
/// overload: the caller times those of all parameters together.
using OperationName = std::optional<NamedOperation>;

/// A matrix of `rows` rows, not 0, has these sizes.
[[nodiscard]] inline OperationSizes matrix_sizes(std::int64_t rows, const Buffer& x) {
  const std::int64_t columns = x.size / rows;
  return {static_cast<double>(rows), static_cast<double>(columns), 1.0};
}

/// All of x is one row.
[[nodiscard]] inline OperationSizes row_sizes(const Buffer& x) {
  return {1.0, static_cast<double>(x.size), 1.0};
}

/// A rank's columns of the logits have these sizes.
[[nodiscard]] inline OperationSizes logits_sizes(std::int64_t rows, const VocabShard& shard) {
  return {static_cast<double>(rows), static_cast<double>(shard.width), 1.0};
}

/// Attention counts heads of all sequences.
[[nodiscard]] inline OperationSizes attention_sizes(const Attention& shape) {
  return {static_cast<double>(shape.batch * shape.heads), static_cast<double>(shape.seq_length),
          static_cast<double>(shape.head_size)};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::copy>, Buffer, Buffer to) {
  return {{DeviceOperation::kCopy, row_sizes(to)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::fill>, Buffer x, double) {
  return {{DeviceOperation::kFill, row_sizes(x)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::add_bias>, Buffer x, Buffer,
                                                  std::int64_t rows) {
  return {{DeviceOperation::kBias, matrix_sizes(rows, x)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::bias_gradient>, Buffer dy,
                                                  Buffer, std::int64_t rows) {
  return {{DeviceOperation::kBiasGradient, matrix_sizes(rows, dy)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::bias_gelu>, Buffer x, Buffer,
                                                  Buffer, std::int64_t rows) {
  return {{DeviceOperation::kBiasGelu, matrix_sizes(rows, x)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::gelu_backward>, Buffer x,
                                                  Buffer, Buffer) {
  return {{DeviceOperation::kGeluBackward, row_sizes(x)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::bias_dropout_add>,
                                                  const BiasDropoutAddCall& call) {
  if (call.bias.empty() || call.residual.empty()) {
    return std::nullopt;  // an embedding's
  }
  return {{call.dropout.probability > 0.0 ? DeviceOperation::kBiasDropoutAdd
                                          : DeviceOperation::kBiasAdd,
           matrix_sizes(call.rows, call.x)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::dropout_backward>, Buffer dy,
                                                  const Dropout& dropout, const TokenRange&, Buffer,
                                                  std::int64_t rows) {
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

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::layer_norm>,
                                                  const LayerNormCall& call) {
  return {{DeviceOperation::kLayerNorm, matrix_sizes(call.rows, call.x)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::layer_norm_backward>,
                                                  const LayerNormBackwardCall& call) {
  return {{DeviceOperation::kLayerNormBackward, matrix_sizes(call.rows, call.x)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::attention>,
                                                  const Attention& shape, Buffer, Buffer, Buffer) {
  return {{shape.dropout.probability > 0.0 ? DeviceOperation::kDropoutAttention
                                           : DeviceOperation::kAttention,
           attention_sizes(shape)}};
}

[[nodiscard]] inline OperationName operation_name(Operation<&Backend::attention_backward>,
                                                  const Attention& shape, Buffer, Buffer, Buffer,
                                                  Buffer, Buffer) {
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

/// An operation that ran, from the end of the one before it to its own.
struct TimedOperation {
  DeviceOperation operation = DeviceOperation::kCopy;
  OperationSizes sizes = {1.0, 1.0, 1.0};
  /// Whether it is one by itself, or a part of the next that is, with the same sizes.
  bool is_whole = true;
  double seconds = 0.0;
};

/// Passes everything on to another backend, which outlives it, and keeps two events for each
/// operation that the cost model knows by name; the time of others counts for none. An operation
/// begins where the one before it ended, so that what the runtime does in between is part of it.
class TimedBackend final : public ForwardingBackend<TimedBackend> {
 public:
  explicit TimedBackend(Backend& inner) : inner_(inner) {}

  /// Forgets what was timed; the next operation begins here.
  void start();
  /// Operations since then, so far.
  [[nodiscard]] std::size_t num_timed() const { return spans_.size(); }
  /// Operations since start(), in order.
  [[nodiscard]] std::vector<TimedOperation> take();

  void use_lane(int lane) override { inner_.use_lane(lane); }
  [[nodiscard]] Event record() override { return inner_.record(); }
  void wait(const Event& event) override { inner_.wait(event); }
  void synchronize() override { inner_.synchronize(); }
  [[nodiscard]] double seconds_between(const Event& first, const Event& second) override {
    return inner_.seconds_between(first, second);
  }
  /// Of a graph's first operation the time begins in the graph.
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
  /// Notes what ended just now.
  void ended(const OperationName& name);

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
