// Matrix products on a host, by own loops or by a library.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/kernel_table.h"

namespace ptdp {

/// What carries out a matrix product.
enum class ProductEngine : std::uint8_t { kOwn, kOpenBlas, kOneDnn };

/// Returns the name of an engine: "own", "openblas" or "onednn".
[[nodiscard]] std::string_view name_of(ProductEngine engine);

/// Keeps OpenBLAS, when it is loaded, from starting a thread for each core, which no rank uses.
/// main() must call it before there are threads.
void prepare_open_blas_environment();

/// Returns the engines that multiply operands of a working type in this build and on this
/// processor. kOwn is always among them.
[[nodiscard]] std::vector<ProductEngine> product_engines(DataType type);

/// Returns the engine that is fastest for a product, by its shape and type alone. f64 is always
/// multiplied by own loops, whose bits do not depend on cuts of rows and columns.
[[nodiscard]] ProductEngine best_engine(const Matmul& product, DataType type);

/// Primitives of oneDNN that were made before.
struct OneDnnCache;
/// Deletes a OneDnnCache, whose definition only with_one_dnn.cpp knows.
struct OneDnnCacheDeleter {
  void operator()(OneDnnCache* cache) const noexcept;
};

/// The matrix products of one backend.
class Products {
 public:
  /// `backend` provides the scratch. `backend` and `loops` must outlive this object.
  Products(Backend& backend, const KernelTable& loops) : backend_(&backend), loops_(&loops) {}

  /// Carries out Backend::matmul with best_engine().
  void multiply(const Matmul& product, const Buffer& a, const Buffer& b, const Buffer& c);
  /// Carries out Backend::matmul with `engine`, which must be one of product_engines(a.type).
  void multiply_by(ProductEngine engine, const Matmul& product, const Buffer& a, const Buffer& b,
                   const Buffer& c);

 private:
  Backend* backend_;  ///< The backend from which scratch comes.
  const KernelTable* loops_;
  std::unique_ptr<OneDnnCache, OneDnnCacheDeleter> one_dnn_;
};

}  // namespace ptdp
