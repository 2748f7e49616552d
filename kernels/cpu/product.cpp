// Chooses what multiplies matrices, and handles sizes of 0.
#include "kernels/cpu/product.h"

#include <cassert>

#include "kernels/cpu/library_products.h"

namespace ptdp {

std::string_view name_of(ProductEngine engine) {
  switch (engine) {
    case ProductEngine::kOwn:
      return "own";
    case ProductEngine::kOpenBlas:
      return "openblas";
    case ProductEngine::kOneDnn:
      return "onednn";
  }
  return "";
}

std::vector<ProductEngine> product_engines(DataType type) {
  std::vector<ProductEngine> engines = {ProductEngine::kOwn};
  if (has_open_blas() && type == accumulator_of(type)) {
    engines.push_back(ProductEngine::kOpenBlas);
  }
  if (has_one_dnn(type)) {
    engines.push_back(ProductEngine::kOneDnn);
  }
  return engines;
}

ProductEngine best_engine(const Matmul& product, DataType type) {
  // Below this many multiply-adds, the call of a library costs more than it gains.
  constexpr std::int64_t small = std::int64_t{32} * 32 * 32;
  if (type == DataType::kFloat64 || product.m * product.n * product.k <= small) {
    return ProductEngine::kOwn;
  }
  if (has_one_dnn(type)) {
    return ProductEngine::kOneDnn;
  }
  return type == DataType::kFloat32 && prefers_open_blas() ? ProductEngine::kOpenBlas
                                                           : ProductEngine::kOwn;
}

void Products::multiply(const Matmul& product, const Buffer& a, const Buffer& b, const Buffer& c) {
  multiply_by(best_engine(product, a.type), product, a, b, c);
}

void Products::multiply_by(ProductEngine engine, const Matmul& product, const Buffer& a,
                           const Buffer& b, const Buffer& c) {
  assert(a.size == product.m * product.k && b.size == product.k * product.n);
  assert(c.size == product.m * product.n && a.type == b.type);
  assert(c.type == a.type || c.type == accumulator_of(a.type));
  if (c.size == 0) {
    return;
  }
  if (product.k == 0) {
    if (!product.accumulates) {
      backend_->fill(c, 0.0);
    }
    return;
  }
  switch (engine) {
    case ProductEngine::kOwn: {
      const Tensor scratch(*backend_, accumulator_of(a.type),
                           loops_->product_scratch(product, a.type, c.type));
      loops_->product(product, a, b, c, scratch);
      return;
    }
    case ProductEngine::kOpenBlas:
      multiply_by_open_blas(product, a, b, c);
      return;
    case ProductEngine::kOneDnn:
      multiply_by_one_dnn(*backend_, one_dnn_, product, a, b, c);
      return;
  }
}

}  // namespace ptdp
