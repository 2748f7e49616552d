// A backend that times each of another's operations.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "cost_model/inputs/measured_operation.h"
#include "kernels/backend.h"

namespace ptdp {

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
class TimedBackend final : public Backend {
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

  void copy(Buffer from, Buffer to) override;
  void copy_in(const void* from, Buffer to) override;
  void copy_out(Buffer from, void* to) override;
  void convert(Buffer from, Buffer to) override;
  void fill(Buffer x, double value) override;
  void add(Buffer x, Buffer to) override;
  void maximum(Buffer x, Buffer to) override;
  void scale(Buffer x, double factor) override;
  void add_bias(Buffer x, Buffer bias, std::int64_t rows) override;
  void bias_gradient(Buffer dy, Buffer gradient, std::int64_t rows) override;
  void bias_gelu(Buffer x, Buffer bias, Buffer y, std::int64_t rows) override;
  void gelu_backward(Buffer x, Buffer dy, Buffer dx) override;
  void bias_dropout_add(Buffer x, Buffer bias, Buffer residual, const Dropout& dropout,
                        const TokenRange& range, Buffer y, std::int64_t rows) override;
  void dropout_backward(Buffer dy, const Dropout& dropout, const TokenRange& range, Buffer dx,
                        std::int64_t rows) override;
  void matmul(const Matmul& product, Buffer a, Buffer b, Buffer c) override;
  void layer_norm(Buffer x, Buffer gamma, Buffer beta, double epsilon, Buffer y, Buffer mean,
                  Buffer rstd, std::int64_t rows) override;
  void layer_norm_backward(Buffer dy, Buffer x, Buffer mean, Buffer rstd, Buffer gamma, Buffer dx,
                           Buffer dgamma, Buffer dbeta, std::int64_t rows) override;
  void attention(const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum) override;
  void attention_backward(const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum,
                          Buffer dout, Buffer dqkv) override;
  void embedding(Buffer ids, Buffer table, std::int64_t first, Buffer out) override;
  void embedding_gradient(Buffer ids, Buffer dy, std::int64_t first, Buffer gradient) override;
  void add_positions(Buffer x, Buffer positions, const TokenRange& range,
                     std::int64_t rows) override;
  void position_gradient(Buffer dy, Buffer gradient, const TokenRange& range,
                         std::int64_t rows) override;
  void row_maxima(Buffer logits, const VocabShard& shard, Buffer maxima,
                  std::int64_t rows) override;
  void softmax_sums(Buffer logits, const VocabShard& shard, Buffer targets, Buffer maxima,
                    Buffer sums, std::int64_t rows) override;
  void add_losses(Buffer sums, Buffer total, std::int64_t rows) override;
  void cross_entropy_backward(Buffer logits, const VocabShard& shard, Buffer targets, Buffer maxima,
                              Buffer sums, double scale, std::int64_t rows) override;
  void add_squares(Buffer x, Buffer total) override;
  void adamw(const AdamW& settings, std::span<const AdamWSlice> slices) override;
  void fill_normal(Buffer x, const MatrixBlock& block, std::uint64_t key,
                   double deviation) override;

 protected:
  [[nodiscard]] void* allocate_memory(std::int64_t bytes) override {
    return inner_.allocate(bytes);
  }
  void release_memory(void* memory, std::int64_t bytes) noexcept override {
    inner_.release(memory, bytes);
  }

 private:
  struct Span {
    DeviceOperation operation = DeviceOperation::kCopy;
    OperationSizes sizes = {1.0, 1.0, 1.0};
    bool is_whole = true;
    Event begin;
    Event end;
  };
  /// Notes what ended just now.
  void ended(DeviceOperation operation, const OperationSizes& sizes, bool is_whole = true);
  void ended_unnamed() { last_end_ = inner_.record(); }

  Backend& inner_;
  Event last_end_;
  std::vector<Span> spans_;
};

}  // namespace ptdp
