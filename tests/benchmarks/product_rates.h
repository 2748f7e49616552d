// Rates of the libraries on the matrix products of a training step, as ceilings of the whole step.
#pragma once

#include <cstdint>

#include "cost_model/inputs/transformer_config.h"
#include "kernels/data_type.h"

namespace ptdp {

/// Rates of libraries on the products of a step [FLOP/s], in seconds of the core.
struct ProductRates {
  double fastest = 0.0;    ///< The fastest product of the step by any library.
  double chosen = 0.0;     ///< All products of the step, by the libraries that the backend chooses.
  double open_blas = 0.0;  ///< All products of the step by OpenBLAS; 0 where it has none.
};

/// Measures the three products of every linear layer of a dense model, for `tokens` tokens. The
/// model must be resolved. A product counts with the best of a few runs.
[[nodiscard]] ProductRates product_rates(const TransformerConfig& model, std::int64_t tokens,
                                         DataType type);

}  // namespace ptdp
