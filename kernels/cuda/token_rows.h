// The positions and sequences of an activation's rows, on a GPU.
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace ptdp::cuda {

/// What TokenRange says of fewer than 2^31 rows, by divisions of 32 bits.
class TokenRows {
 public:
  explicit TokenRows(const TokenRange& range)
      : first_sample_(range.first_sample),
        first_(range.runs[0].first),
        second_(range.runs[1].first - range.runs[0].count),
        first_count_(range.runs[0].count),
        batch_(static_cast<std::uint32_t>(range.batch)) {}

  /// Returns position number `number` of the runs.
  [[nodiscard]] __device__ std::int64_t position(std::int64_t number) const {
    return number + (number < first_count_ ? first_ : second_);
  }
  /// Returns the position of a row.
  [[nodiscard]] __device__ std::int64_t position_of(std::int64_t row) const {
    return position(static_cast<std::uint32_t>(row) / batch_);
  }
  /// Returns the sequence of a row, in the global batch.
  [[nodiscard]] __device__ std::int64_t sample_of(std::int64_t row) const {
    return first_sample_ + static_cast<std::uint32_t>(row) % batch_;
  }

 private:
  std::int64_t first_sample_;
  std::int64_t first_;        ///< First position of the first run.
  std::int64_t second_;       ///< What turns a number of the second run into its position.
  std::int64_t first_count_;  ///< Positions of the first run.
  std::uint32_t batch_;
};

}  // namespace ptdp::cuda
