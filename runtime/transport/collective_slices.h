// How a collective cuts a buffer.
#pragma once

#include <cassert>
#include <cstdint>

#include "runtime/transport/communicator.h"

namespace ptdp {

/// A part per rank (part_of), and each part in as many slices, so that none exceeds a limit. Round
/// j of a collective is about slice j of every part. There are one or an even number of rounds, for
/// those who run two at a time; none where the buffer is empty.
class CollectiveSlices {
 public:
  /// `max_elements` is at least 1.
  CollectiveSlices(Buffer whole, int ranks, std::int64_t max_elements)
      : whole_(whole), ranks_(ranks) {
    assert(max_elements >= 1);
    const std::int64_t largest_part = (whole.size + ranks - 1) / ranks;
    rounds_ = (largest_part + max_elements - 1) / max_elements;
    rounds_ += rounds_ > 1 ? rounds_ % 2 : 0;
    largest_ = rounds_ == 0 ? 0 : (largest_part + rounds_ - 1) / rounds_;
  }

  [[nodiscard]] std::int64_t rounds() const { return rounds_; }
  /// Elements of the largest slice.
  [[nodiscard]] std::int64_t largest() const { return largest_; }
  /// Slice `round` of the part of `owner`, 0 <= owner < ranks.
  [[nodiscard]] Buffer at(int owner, std::int64_t round) const {
    const Part part = part_of(whole_.size, ranks_, owner);
    const std::int64_t first = part.count * round / rounds_;
    return whole_.slice(part.first + first, part.count * (round + 1) / rounds_ - first);
  }

 private:
  Buffer whole_;
  int ranks_;
  std::int64_t rounds_ = 0;
  std::int64_t largest_ = 0;
};

}  // namespace ptdp
