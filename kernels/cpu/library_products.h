// Matrix products by libraries that a build may lack; without_*.cpp stands in for missing ones.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/product.h"

namespace ptdp {

/// Returns whether OpenBLAS is present when the program runs.
[[nodiscard]] bool has_open_blas();
/// Returns whether OpenBLAS is present and likely the fastest on this processor.
[[nodiscard]] bool prefers_open_blas();
/// Multiplies f64 or f32 matrices by OpenBLAS. No size may be 0.
void multiply_by_open_blas(const Matmul& product, const Buffer& a, const Buffer& b,
                           const Buffer& c);

/// Returns whether oneDNN is present and multiplies operands of `type` in hardware.
[[nodiscard]] bool has_one_dnn(DataType type);
/// Multiplies f32 or bf16 matrices by oneDNN. No size may be 0. Makes `cache` when it is null.
/// Scratch comes from `backend`.
void multiply_by_one_dnn(Backend& backend, std::unique_ptr<OneDnnCache, OneDnnCacheDeleter>& cache,
                         const Matmul& product, const Buffer& a, const Buffer& b, const Buffer& c);

}  // namespace ptdp
