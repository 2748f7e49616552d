// The loops behind the operations of a host, as functions of buffers. They are compiled for several
// instruction sets, and a table of them is chosen once.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/forwarding_backend.h"

namespace ptdp {

/// An operation's loop takes the backend whose memory it may use, then the operation's arguments.
template <auto kOperation>
using Loop = OperationEntry<Backend&, kOperation>;

/// The loops of an instruction set. Copies, matmul, add_losses, adamw and fill_normal are null
/// here, since CpuBackend has them.
struct KernelTable : OperationTable<Backend&> {
  std::string_view name = {};  ///< The instruction set's.

  /// Elements of accumulator type that `product` needs as scratch, for a and b of `type`, c of
  /// `c_type`.
  std::int64_t (*product_scratch)(const Matmul& product, DataType type, DataType c_type) = nullptr;
  /// Backend::matmul; m, n and k are not 0. What scratch holds means nothing before and after.
  void (*product)(const Matmul& product, Buffer a, Buffer b, Buffer c, Buffer scratch) = nullptr;

  /// Backend::adamw for one slice; `settings` has its weight decay.
  void (*adamw_slice)(const AdamW& settings, const AdamWSlice& slice) = nullptr;
};

/// The loops that this processor can run, the fastest last.
[[nodiscard]] std::vector<const KernelTable*> runnable_kernels();
/// The last of them.
[[nodiscard]] const KernelTable& best_kernels();

}  // namespace ptdp
