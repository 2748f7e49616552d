#include "kernels/cpu/loops.h"

namespace ptdp {

// kernels/cpu/fill_loops.h, for each instruction set that the build has.
namespace baseline {
const Loops& loops();
}
#ifdef PTDP_X86_LOOPS
namespace avx2 {
const Loops& loops();
}
namespace avx512 {
const Loops& loops();
}
#endif

std::vector<const Loops*> runnable_loops() {
  std::vector<const Loops*> runnable = {&baseline::loops()};
#ifdef PTDP_X86_LOOPS
  // The flags of kernels/cpu/CMakeLists.txt.
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx2) {
    runnable.push_back(&avx2::loops());
  }
  if (has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    runnable.push_back(&avx512::loops());
  }
#endif
  return runnable;
}

const Loops& best_loops() {
  static const Loops& best = *runnable_loops().back();
  return best;
}

}  // namespace ptdp
