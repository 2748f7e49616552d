// Matrix products on a GPU: cuBLASLt (products.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "kernels/backend.h"

namespace ptdp::cuda {

/// A product on its way to a stream.
struct ProductCall {
  Matmul product;
  Buffer a;
  Buffer b;
  Buffer c;
};

/// Of one rank, on the GPU of the thread that makes it. Descriptors and algorithms are kept by
/// shape, type and alignment. Unless results must be the same in every run, the first product of a
/// shape times those that the library proposes, unless the stream is being captured, on operands of
/// its own, and keeps the fastest.
class Products {
 public:
  Products(Backend& backend, bool is_deterministic);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  Products(Products&&) = delete;
  Products& operator=(Products&&) = delete;
  ~Products();

  /// Queues c = op(a)·op(b), or c += of it. f32 is multiplied in f32; bf16 and fp16 accumulate in
  /// f32. One thread at a time.
  void multiply(cudaStream_t stream, const ProductCall& call);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptdp::cuda
