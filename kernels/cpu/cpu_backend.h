// A host as a device: memory of the process, OpenBLAS or oneDNN for products, own loops for the
// rest. Every operation is done when its call returns.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/product.h"

namespace ptdp {

/// One rank's. One thread computes; others may copy, add and take the maximum beside it. Equal
/// shapes and elements give equal bits in each call, whatever the alignment (NUMBERS.md says what
/// else holds). Released blocks are kept for the next request of the same size, up to the peak of
/// bytes in use.
class CpuBackend final : public Backend {
 public:
  /// With the fastest loops that this processor can run.
  CpuBackend() : CpuBackend(best_loops()) {}
  /// With some of runnable_loops().
  explicit CpuBackend(const Loops& loops) : loops_(loops), products_(*this, loops) {}
  CpuBackend(const CpuBackend&) = delete;
  CpuBackend& operator=(const CpuBackend&) = delete;
  CpuBackend(CpuBackend&&) = delete;
  CpuBackend& operator=(CpuBackend&&) = delete;
  ~CpuBackend() override;

  void use_lane(int lane) override;
  [[nodiscard]] Event record() override;
  void wait(const Event& event) override;
  void synchronize() override;
  [[nodiscard]] double seconds_between(const Event& first, const Event& second) override;

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
  [[nodiscard]] void* allocate_memory(std::int64_t bytes) override;
  void release_memory(void* memory, std::int64_t bytes) noexcept override;

 private:
  void release_kept() noexcept;

  const Loops& loops_;
  Products products_;
  std::map<std::int64_t, std::vector<void*>> kept_;  ///< Released blocks by size.
  std::int64_t kept_bytes_ = 0;
};

}  // namespace ptdp
