// How a collective cuts a buffer.
#pragma once

#include <cassert>
#include <cstdint>

#include "runtime/transport/communicator.h"

namespace ptdp {

/// Cuts a collective's buffer into one part per rank (part_of) and each part into equally many
/// slices, so that no slice exceeds a limit. Round j of a collective handles slice j of every part.
/// The number of rounds is one or even, because some collectives run two rounds at a time; it is 0
/// for an empty buffer.
class CollectiveSlices {
 public:
  /// Cuts `whole` for `ranks` ranks into slices of at most `max_elements` elements, which is at
  /// least 1.
  CollectiveSlices(Buffer whole, int ranks, std::int64_t max_elements)
      : whole_(whole), ranks_(ranks) {
    assert(max_elements >= 1);
    const std::int64_t largest_part = (whole.size + ranks - 1) / ranks;
    rounds_ = (largest_part + max_elements - 1) / max_elements;
    rounds_ += rounds_ > 1 ? rounds_ % 2 : 0;
    largest_ = rounds_ == 0 ? 0 : (largest_part + rounds_ - 1) / rounds_;
  }

  /// Returns the number of rounds, which is the number of slices per part.
  [[nodiscard]] std::int64_t rounds() const { return rounds_; }
  /// Returns the number of elements of the largest slice.
  [[nodiscard]] std::int64_t largest() const { return largest_; }
  /// Returns slice `round` of the part of rank `owner`, 0 <= owner < ranks.
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
