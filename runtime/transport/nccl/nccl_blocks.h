// How many multiprocessors NCCL's kernels may take beside compute.
#pragma once

#include <algorithm>

namespace ptdp {

/// Most blocks (CTAs) of a kernel of NCCL, each of which occupies a multiprocessor. At once a rank
/// runs a collective on each of its lanes of compute and data and one of its tensor group, and a
/// message on each link, of which DualPipe has eight. That is at most 5/8 of the multiprocessors,
/// so that kernels of compute always find room beside it and no rank waits for ever.
struct NcclBlocks {
  int collective = 16;  ///< Most blocks of a collective.
  int link = 4;         ///< Most blocks of a message between two pipeline ranks.
};
/// Returns the limits for a GPU: 16 and 4, or fewer if it has less than 128 multiprocessors.
[[nodiscard]] constexpr NcclBlocks blocks_beside_compute(int multiprocessors) {
  const NcclBlocks most;
  return {.collective = std::clamp(multiprocessors / 8, 1, most.collective),
          .link = std::clamp(multiprocessors / 32, 1, most.link)};
}

}  // namespace ptdp
