// A host as a device: memory of the process, OpenBLAS or oneDNN for products, own loops for the
// rest.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/product.h"
#include "kernels/forwarding_backend.h"

namespace ptdp {

/// The backend of one rank on a host. Every operation is done when its call returns. One thread
/// computes; other threads may copy, add and take maxima beside it. Equal shapes and elements give
/// equal bits in each call, whatever the alignment (NUMBERS.md says what else holds). Released
/// blocks are kept for the next request of the same size, up to the peak of bytes in use.
class CpuBackend final : public ForwardingBackend<CpuBackend> {
 public:
  /// Uses the fastest loops that this processor can run.
  CpuBackend();
  /// Uses given loops, which must be among runnable_kernels().
  explicit CpuBackend(const KernelTable& loops);
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
  void copy_columns(const VectorRows& from, const VectorRows& to, std::int64_t width,
                    std::int64_t rows) override;
  void copy_in(const void* from, Buffer to) override;
  void copy_out(Buffer from, void* to) override;
  void matmul(const Matmul& product, Buffer a, Buffer b, Buffer c) override;
  void add_losses(Buffer sums, Buffer total, std::int64_t rows) override;
  [[nodiscard]] bool replaces_attention_inputs() const override { return true; }
  void adamw(const AdamW& settings, std::span<const AdamWSlice> slices) override;
  void fill_normal(Buffer x, const MatrixBlock& block, std::uint64_t key,
                   double deviation) override;

 protected:
  [[nodiscard]] void* allocate_memory(std::int64_t bytes) override;
  void release_memory(void* memory, std::int64_t bytes) noexcept override;

 private:
  friend class ForwardingBackend<CpuBackend>;
  /// Carries out an operation by its loop.
  template <auto kOperation, class... Arguments>
  void run(const Arguments&... arguments) {
    static_cast<const Loop<kOperation>&>(loops_).function(*this, arguments...);
  }
  /// Releases the kept blocks to the system.
  void release_kept() noexcept;

  const KernelTable& loops_;
  Products products_;
  std::map<std::int64_t, std::vector<void*>> kept_;  ///< Released blocks by size [B].
  std::int64_t kept_bytes_ = 0;                      ///< Total size of the kept blocks [B].
};

}  // namespace ptdp
