// Products by OpenBLAS.
#include <cblas.h>

#include <algorithm>
#include <semaphore>
#include <string_view>
#include <thread>

#include "kernels/cpu/library_products.h"
#include "kernels/cpu/loops.h"

namespace ptdp {
namespace {

/// OpenBLAS keeps a fixed number of work buffers and ends the program when threads ask for more.
/// More calls at once than cores gain nothing.
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
    openblas_set_num_threads(1);
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    return std::clamp(2 * cores, 4, kMost);
  }
};

CBLAS_TRANSPOSE transpose_of(bool transposes) {
  return transposes ? CblasTrans : CblasNoTrans;
}

}  // namespace

bool has_open_blas() {
  return true;
}

bool prefers_open_blas() {
  // It runs kernels for the newest processor that it knows: an older one's on a newer processor.
  const std::string_view core = openblas_get_corename();
  return best_loops().name != "avx512" || core == "SkylakeX" || core == "Cooperlake" ||
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
    cblas_dgemm(CblasRowMajor, of_a, of_b, m, n, k, 1.0, elements<double>(a), stride_a,
                elements<double>(b), stride_b, product.accumulates ? 1.0 : 0.0, elements<double>(c),
                n);
  } else {
    cblas_sgemm(CblasRowMajor, of_a, of_b, m, n, k, 1.0F, elements<float>(a), stride_a,
                elements<float>(b), stride_b, product.accumulates ? 1.0F : 0.0F, elements<float>(c),
                n);
  }
}

}  // namespace ptdp
