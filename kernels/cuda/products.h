// Matrix products on a GPU by cuBLASLt (products.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kernels/backend.h"

namespace ptdp::cuda {

/// The shape and operands of a matrix product, and its epilogue if there is one, whose buffers are
/// those of EpilogueCall.
struct ProductCall {
  Matmul product;
  Buffer a;
  Buffer b;
  Buffer c;
  std::optional<Epilogue> epilogue = {};
  Buffer bias = {};
  Buffer x = {};
  Buffer bias_gradient = {};
};

/// Returns a call with its epilogue. The activation, if there is one, must be kTanhGelu.
[[nodiscard]] inline ProductCall product_call(const EpilogueCall& call) {
  return {call.product,  call.a,    call.b, call.c,
          call.epilogue, call.bias, call.x, call.bias_gradient};
}

/// The matrix products of one rank, on the GPU of the thread that makes this object. Descriptors
/// and algorithms are kept by shape, type, alignment and epilogue. The first product of a shape
/// times the algorithms that the library proposes and keeps the fastest; the timed products write
/// to memory of their own. With `is_deterministic`, or while the stream is captured, it uses the
/// first algorithm proposed. One thread at a time may call the methods, which throw CudaError.
class Products {
 public:
  Products(Backend& backend, bool is_deterministic);
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;
  Products(Products&&) = delete;
  Products& operator=(Products&&) = delete;
  ~Products();

  /// Returns why a product does not run with its epilogue, or nullopt if it does. The text for the
  /// user is empty where single operations took less time: nothing is then wrong.
  [[nodiscard]] std::optional<std::string> refusal(cudaStream_t stream, const ProductCall& call);
  /// Queues c = op(a)·op(b) or c += op(a)·op(b) on `stream`, with an epilogue for which refusal()
  /// is nullopt. f32 is multiplied in f32; bf16 and fp16 accumulate in f32.
  void multiply(cudaStream_t stream, const ProductCall& call);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptdp::cuda
