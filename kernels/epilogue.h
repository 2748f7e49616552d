// Products with an epilogue on any backend: by the backend's own, or by single operations.
#pragma once

#include "kernels/backend.h"

namespace ptdp {

/// Returns the buffer that the product of a call writes where it runs without its epilogue: x for
/// kActivation, else c.
[[nodiscard]] Buffer plain_result(const EpilogueCall& call);
/// Runs what follows a product whose result is in plain_result(): a bias, an activation, its
/// gradient, or the sum of a bias gradient.
void finish_product(Backend& backend, const EpilogueCall& call);
/// Runs a product, then its epilogue, as single operations.
void multiply_apart(Backend& backend, const EpilogueCall& call);

}  // namespace ptdp
