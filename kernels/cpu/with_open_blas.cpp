// Matrix products by OpenBLAS, which is loaded when it is first asked for. A program that is linked
// to OpenBLAS starts its threads before main(), and is ended when the system grants none.
#include <cblas.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <semaphore>
#include <string_view>
#include <thread>

#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/library_products.h"
#include "kernels/cpu/product.h"

namespace ptdp {
namespace {

/// The functions of OpenBLAS that are used.
struct OpenBlas {
  decltype(&openblas_get_corename) get_corename = nullptr;
  decltype(&openblas_set_num_threads) set_num_threads = nullptr;
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&cblas_dgemm) dgemm = nullptr;
};

template <class Function>
bool find_function(void* library, const char* name, Function& function) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): what dlsym is for
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

/// Loads the library with which this program was built. If that is gone, as on a machine that only
/// runs the program, loads the one of the system or LD_LIBRARY_PATH. Returns nullopt when there is
/// none.
std::optional<OpenBlas> load_open_blas() {
  void* library = ::dlopen(PTDP_OPENBLAS_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  library = library != nullptr ? library : ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  OpenBlas functions;
  const bool is_whole =
      library != nullptr &&
      find_function(library, "openblas_get_corename", functions.get_corename) &&
      find_function(library, "openblas_set_num_threads", functions.set_num_threads) &&
      find_function(library, "cblas_sgemm", functions.sgemm) &&
      find_function(library, "cblas_dgemm", functions.dgemm);
  return is_whole ? std::optional(functions) : std::nullopt;
}

/// Returns the functions of OpenBLAS, loaded at the first call, or nullopt.
const std::optional<OpenBlas>& open_blas() {
  static const std::optional<OpenBlas> library = load_open_blas();
  return library;
}

/// A turn to call OpenBLAS, at most two per core (and at least four) at a time. OpenBLAS keeps a
/// fixed number of work buffers and ends the program when threads ask for more. More calls at once
/// than cores gain nothing.
class Turn {
 public:
  Turn() { turns().acquire(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  Turn(Turn&&) = delete;
  Turn& operator=(Turn&&) = delete;
  ~Turn() { turns().release(); }

 private:
  static constexpr int kMost = 1024;
  static std::counting_semaphore<kMost>& turns() {
    static std::counting_semaphore<kMost> all(first_turns());
    return all;
  }
  static int first_turns() {
    open_blas()->set_num_threads(1);
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    return std::clamp(2 * cores, 4, kMost);
  }
};

CBLAS_TRANSPOSE transpose_of(bool transposes) {
  return transposes ? CblasTrans : CblasNoTrans;
}

}  // namespace

void prepare_open_blas_environment() {
  constexpr int overwrites = 1;
  ::setenv("OPENBLAS_NUM_THREADS", "1", overwrites);
}

bool has_open_blas() {
  return open_blas().has_value();
}

bool prefers_open_blas() {
  // On a processor newer than all that it knows, OpenBLAS runs kernels for an older one.
  if (!has_open_blas()) {
    return false;
  }
  const std::string_view core = open_blas()->get_corename();
  return best_kernels().name != "avx512" || core == "SkylakeX" || core == "Cooperlake" ||
         core == "SapphireRapids";
}

void multiply_by_open_blas(const Matmul& product, const Buffer& a, const Buffer& b,
                           const Buffer& c) {
  const Turn turn;
  const CBLAS_TRANSPOSE of_a = transpose_of(product.transposes_a);
  const CBLAS_TRANSPOSE of_b = transpose_of(product.transposes_b);
  const auto m = static_cast<blasint>(product.m);
  const auto n = static_cast<blasint>(product.n);
  const auto k = static_cast<blasint>(product.k);
  const blasint stride_a = product.transposes_a ? m : k;
  const blasint stride_b = product.transposes_b ? k : n;
  if (c.type == DataType::kFloat64) {
    open_blas()->dgemm(CblasRowMajor, of_a, of_b, m, n, k, 1.0, elements<double>(a), stride_a,
                       elements<double>(b), stride_b, product.accumulates ? 1.0 : 0.0,
                       elements<double>(c), n);
  } else {
    open_blas()->sgemm(CblasRowMajor, of_a, of_b, m, n, k, 1.0F, elements<float>(a), stride_a,
                       elements<float>(b), stride_b, product.accumulates ? 1.0F : 0.0F,
                       elements<float>(c), n);
  }
}

}  // namespace ptdp
