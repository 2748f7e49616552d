// Measures matrix products of a training step by each library.
#include "tests/benchmarks/product_rates.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <limits>
#include <vector>

#include "cost_model/inputs/rank_sizes.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/product.h"

namespace ptdp {
namespace {

/// Linear layers of one shape.
struct LinearShape {
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  int count = 0;  ///< Number of such layers in the model.
};

std::array<LinearShape, 5> linear_shapes(const TransformerConfig& model) {
  const std::int64_t h = model.hidden_size;
  const int layers = model.num_layers;
  return {{{query_width(model) + 2 * key_width(model), h, layers},
           {h, query_width(model), layers},
           {mlp_up_width(model), h, layers},
           {h, model.ffn_hidden_size, layers},
           {padded_vocab_size(model, 1), h, 1}}};
}

/// Returns the forward product of a linear layer and the products of its two gradients.
std::array<Matmul, 3> products_of(const LinearShape& shape, std::int64_t tokens) {
  const auto [outputs, inputs, count] = shape;
  return {{{.m = tokens, .n = outputs, .k = inputs, .transposes_b = true},
           {.m = tokens, .n = inputs, .k = outputs},
           {.m = outputs, .n = inputs, .k = tokens, .transposes_a = true, .accumulates = true}}};
}

/// The buffers of all products, which are as large as the largest of them needs.
class Operands {
 public:
  Operands(const std::array<LinearShape, 5>& shapes, std::int64_t tokens, DataType type) {
    std::int64_t most = 0;
    for (const LinearShape& shape : shapes) {
      most = std::max(
          {most, tokens * shape.outputs, tokens * shape.inputs, shape.outputs * shape.inputs});
    }
    a_ = filled(type, most);
    b_ = filled(type, most);
    y_ = filled(type, most);
    c_ = filled(accumulator_of(type), most);
  }

  /// Returns the best time of a product by `engine` [s of the core].
  double time(ProductEngine engine, const Matmul& product) {
    const Buffer a = a_.buffer().slice(0, product.m * product.k);
    const Buffer b = b_.buffer().slice(0, product.k * product.n);
    // Weight gradients are of accumulator type, and other results of the working type.
    const Tensor& results = product.accumulates ? c_ : y_;
    const Buffer c = results.buffer().slice(0, product.m * product.n);
    double best = std::numeric_limits<double>::infinity();
    for (int run = 0; run < kRuns; ++run) {
      const std::clock_t start = std::clock();
      products_.multiply_by(engine, product, a, b, c);
      best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    return best;
  }

 private:
  static constexpr int kRuns = 3;

  Tensor filled(DataType type, std::int64_t size) {
    Tensor tensor(backend_, type, size);
    backend_.fill(tensor, 0.01);
    return tensor;
  }

  CpuBackend backend_;
  Products products_{backend_, best_kernels()};
  Tensor a_;
  Tensor b_;
  Tensor y_;
  Tensor c_;
};

}  // namespace

ProductRates product_rates(const TransformerConfig& model, std::int64_t tokens, DataType type) {
  const std::array<LinearShape, 5> shapes = linear_shapes(model);
  Operands operands(shapes, tokens, type);
  ProductRates rates;
  double flops = 0.0;
  double chosen = 0.0;
  double open_blas = 0.0;
  for (const LinearShape& shape : shapes) {
    for (const Matmul& product : products_of(shape, tokens)) {
      const double of_one = 2.0 * static_cast<double>(product.m * product.n * product.k);
      flops += shape.count * of_one;
      for (const ProductEngine engine : product_engines(type)) {
        const bool is_chosen = engine == best_engine(product, type);
        if (engine == ProductEngine::kOwn && !is_chosen) {
          continue;
        }
        const double seconds = operands.time(engine, product);
        rates.fastest = std::max(rates.fastest, of_one / seconds);
        chosen += is_chosen ? shape.count * seconds : 0.0;
        open_blas += engine == ProductEngine::kOpenBlas ? shape.count * seconds : 0.0;
      }
    }
  }
  rates.chosen = flops / chosen;
  rates.open_blas = open_blas > 0.0 ? flops / open_blas : 0.0;
  return rates;
}

}  // namespace ptdp
