// The loops behind the operations of a host, as functions of buffers. They are compiled for several
// instruction sets, and one table of them is chosen.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/forwarding_backend.h"

namespace ptdp {

/// The loop of an operation. It takes the backend whose memory it may use, then the operation's
/// arguments.
template <auto kOperation>
using Loop = OperationEntry<Backend&, kOperation>;

/// The loops of an instruction set. Those of copies, matmul, add_losses, adamw and fill_normal are
/// null here, since CpuBackend has them.
struct KernelTable : OperationTable<Backend&> {
  std::string_view name = {};  ///< Name of the instruction set.

  /// Returns how many elements of accumulator type `product` needs as scratch, when a and b are of
  /// `type` and c is of `c_type`.
  std::int64_t (*product_scratch)(const Matmul& product, DataType type, DataType c_type) = nullptr;
  /// Carries out Backend::matmul for m, n and k above 0. The contents of `scratch` mean nothing
  /// before and after.
  void (*product)(const Matmul& product, Buffer a, Buffer b, Buffer c, Buffer scratch) = nullptr;

  /// Carries out Backend::adamw for one slice, whose weight decay is in `settings`.
  void (*adamw_slice)(const AdamW& settings, const AdamWSlice& slice) = nullptr;
};

/// Returns the tables of loops that this processor can run, the fastest last.
[[nodiscard]] std::vector<const KernelTable*> runnable_kernels();
/// Returns the fastest table of loops that this processor can run.
[[nodiscard]] const KernelTable& best_kernels();

}  // namespace ptdp
