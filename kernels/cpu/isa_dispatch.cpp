// Chooses the tables of loops that this processor can run.
#include "kernels/cpu/kernel_table.h"

namespace ptdp {

// Declared as in kernels/cpu/fill_loops.h, for each instruction set of the build.
namespace baseline {
const KernelTable& loops();
}
namespace avx2 {
const KernelTable& loops();
}
namespace avx512 {
const KernelTable& loops();
}

std::vector<const KernelTable*> runnable_kernels() {
  std::vector<const KernelTable*> runnable = {&baseline::loops()};
  // These are the instruction sets that kernels/cpu/CMakeLists.txt compiles for.
#ifdef PTDP_AVX2_LOOPS
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    runnable.push_back(&avx2::loops());
  }
#endif
#ifdef PTDP_AVX512_LOOPS
  if (__builtin_cpu_supports("fma") && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    runnable.push_back(&avx512::loops());
  }
#endif
  return runnable;
}

const KernelTable& best_kernels() {
  static const KernelTable& best = *runnable_kernels().back();
  return best;
}

}  // namespace ptdp
