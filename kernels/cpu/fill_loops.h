// The parts of a table of loops, one per source.
#pragma once

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/variant.h"

namespace ptdp::PTDP_CPU_VARIANT {

/// All of them.
[[nodiscard]] const KernelTable& loops();

/// The place of an operation in the table is filled by loop_of<&Backend::add>(loops) = add.
template <auto kOperation>
[[nodiscard]] auto& loop_of(KernelTable& loops) {
  return static_cast<Loop<kOperation>&>(loops).function;
}

void add_elementwise_loops(KernelTable& loops);
void add_dropout_loops(KernelTable& loops);
void add_layer_norm_loops(KernelTable& loops);
void add_product_loops(KernelTable& loops);
void add_attention_loops(KernelTable& loops);
void add_attention_backward_loops(KernelTable& loops);
void add_embedding_loops(KernelTable& loops);
void add_cross_entropy_loops(KernelTable& loops);
void add_optimizer_loops(KernelTable& loops);

}  // namespace ptdp::PTDP_CPU_VARIANT
