// Matrix products on a host, by own loops or by a library.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"

namespace ptdp {

enum class ProductEngine : std::uint8_t { kOwn, kOpenBlas, kOneDnn };

/// "own", "openblas", "onednn".
[[nodiscard]] std::string_view name_of(ProductEngine engine);

/// Keeps OpenBLAS from starting a thread for each core, which no rank uses, when it is loaded. To
/// be called by main before there are threads.
void prepare_open_blas_environment();

/// What multiplies operands of a working type in this build and on this processor; kOwn is always
/// among them.
[[nodiscard]] std::vector<ProductEngine> product_engines(DataType type);

/// The fastest of them by shape and type alone. f64 is always multiplied by own loops, whose bits
/// survive any cut of rows and columns.
[[nodiscard]] ProductEngine best_engine(const Matmul& product, DataType type);

/// Primitives of oneDNN that were made before.
struct OneDnnCache;
struct OneDnnCacheDeleter {
  void operator()(OneDnnCache* cache) const noexcept;
};

/// The products of one backend.
class Products {
 public:
  Products(Backend& backend, const KernelTable& loops) : backend_(&backend), loops_(&loops) {}

  /// Backend::matmul.
  void multiply(const Matmul& product, const Buffer& a, const Buffer& b, const Buffer& c);
  /// By one of product_engines(a.type).
  void multiply_by(ProductEngine engine, const Matmul& product, const Buffer& a, const Buffer& b,
                   const Buffer& c);

 private:
  Backend* backend_;  ///< Scratch comes from here.
  const KernelTable* loops_;
  std::unique_ptr<OneDnnCache, OneDnnCacheDeleter> one_dnn_;
};

}  // namespace ptdp
