// Products by libraries that a build may lack; the sources without_*.cpp stand in for those.
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/product.h"

namespace ptdp {

/// Whether OpenBLAS is there when the program runs, and whether it is likely the fastest on this
/// processor.
[[nodiscard]] bool has_open_blas();
[[nodiscard]] bool prefers_open_blas();
/// f64 or f32, no size 0.
void multiply_by_open_blas(const Matmul& product, const Buffer& a, const Buffer& b,
                           const Buffer& c);

/// Whether oneDNN is there and multiplies operands of this type in hardware.
[[nodiscard]] bool has_one_dnn(DataType type);
/// f32 or bf16, no size 0. Makes `cache` when it is null; scratch comes from `backend`.
void multiply_by_one_dnn(Backend& backend, std::unique_ptr<OneDnnCache, OneDnnCacheDeleter>& cache,
                         const Matmul& product, const Buffer& a, const Buffer& b, const Buffer& c);

}  // namespace ptdp
