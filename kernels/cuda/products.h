// Matrix products on a GPU by cuBLASLt (products.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "kernels/backend.h"

namespace ptdp::cuda {

/// The shape and operands of a matrix product.
struct ProductCall {
  Matmul product;
  Buffer a;
  Buffer b;
  Buffer c;
};

/// The matrix products of one rank, on the GPU of the thread that makes this object. Descriptors
/// and algorithms are kept by shape, type and alignment. The first product of a shape times the
/// algorithms that the library proposes and keeps the fastest; the timed products write to memory
/// of their own. With `is_deterministic`, or while the stream is captured, it uses the first
/// algorithm proposed.
class Products {
 public:
  Products(Backend& backend, bool is_deterministic);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  Products(Products&&) = delete;
  Products& operator=(Products&&) = delete;
  ~Products();

  /// Queues c = op(a)·op(b) or c += op(a)·op(b) on `stream`. f32 is multiplied in f32; bf16 and
  /// fp16 accumulate in f32. Throws CudaError. One thread at a time may call it.
  void multiply(cudaStream_t stream, const ProductCall& call);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptdp::cuda
