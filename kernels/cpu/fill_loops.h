// The parts of a table of loops: one function for each source that has some.
#pragma once

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/variant.h"

namespace ptdp::PTDP_CPU_VARIANT {

/// Returns the table of all loops for this instruction set.
[[nodiscard]] const KernelTable& loops();

/// Returns the place of an operation in the table, to be filled as in loop_of<&Backend::add>(loops)
/// = add.
template <auto kOperation>
[[nodiscard]] auto& loop_of(KernelTable& loops) {
  return static_cast<Loop<kOperation>&>(loops).function;
}

/// Enters the loops of elementwise.cpp.
void add_elementwise_loops(KernelTable& loops);
/// Enters the loops of dropout.cpp.
void add_dropout_loops(KernelTable& loops);
/// Enters the loops of activation.cpp.
void add_activation_loops(KernelTable& loops);
/// Enters the loops of norm.cpp.
void add_norm_loops(KernelTable& loops);
/// Enters the loops of split_norm.cpp.
void add_split_norm_loops(KernelTable& loops);
/// Enters the loop of rotary.cpp.
void add_rotary_loops(KernelTable& loops);
/// Enters the loops of portable_gemm.cpp.
void add_product_loops(KernelTable& loops);
/// Enters the loops of attention.cpp.
void add_attention_loops(KernelTable& loops);
/// Enters the loops of attention_backward.cpp.
void add_attention_backward_loops(KernelTable& loops);
/// Enters the loops of embedding.cpp.
void add_embedding_loops(KernelTable& loops);
/// Enters the loops of cross_entropy.cpp.
void add_cross_entropy_loops(KernelTable& loops);
/// Enters the loops of optimizer.cpp.
void add_optimizer_loops(KernelTable& loops);

}  // namespace ptdp::PTDP_CPU_VARIANT
