// Fills the table of loops of one instruction set.
#include "kernels/cpu/fill_loops.h"

#define PTDP_TEXT_OF(name) #name
#define PTDP_NAME_OF(name) PTDP_TEXT_OF(name)

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

KernelTable all_loops() {
  KernelTable loops;
  loops.name = PTDP_NAME_OF(PTDP_CPU_VARIANT);
  add_elementwise_loops(loops);
  add_dropout_loops(loops);
  add_activation_loops(loops);
  add_norm_loops(loops);
  add_split_norm_loops(loops);
  add_rotary_loops(loops);
  add_product_loops(loops);
  add_attention_loops(loops);
  add_attention_backward_loops(loops);
  add_embedding_loops(loops);
  add_cross_entropy_loops(loops);
  add_optimizer_loops(loops);
  return loops;
}

}  // namespace

const KernelTable& loops() {
  static const KernelTable all = all_loops();
  return all;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
