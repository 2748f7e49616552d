// The operations of Backend (kernels/backend.h says what each does) as kernels on a stream. Working
// types are f32, bf16 and fp16.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/forwarding_backend.h"

namespace ptdp::cuda {

/// A queue is the stream that an operation goes to, and the backend whose memory it may use
/// besides.
struct Queue {
  cudaStream_t stream = nullptr;
  Backend& memory;

  /// So many bytes, aligned to 256. Their release keeps to the order of the stream.
  [[nodiscard]] Tensor scratch(std::int64_t bytes) const {
    constexpr std::int64_t word = bytes_of(DataType::kInt32);
    return {memory, DataType::kInt32, (bytes + word - 1) / word};
  }
};

/// An operation's function that launches kernels. It takes the queue, then the arguments.
template <auto kOperation>
using Kernel = OperationEntry<const Queue&, kOperation>;

/// The kernels of all operations. Copies and matmul are null here, since the backend has them.
struct Kernels : OperationTable<const Queue&> {};

/// The place of an operation in the table is filled by kernel_of<&Backend::add>(kernels) = add.
template <auto kOperation>
[[nodiscard]] auto& kernel_of(Kernels& kernels) {
  return static_cast<Kernel<kOperation>&>(kernels).function;
}

// Each source fills its part of the table.

/// These take any floating type; fill, add and maximum take i32 too, bias and GELU no f64.
void add_elementwise_kernels(Kernels& kernels);
void add_column_sum_kernels(Kernels& kernels);
void add_dropout_kernels(Kernels& kernels);
void add_layer_norm_kernels(Kernels& kernels);
/// Attention takes heads of up to kMostHeadSize, and dropout.
void add_attention_kernels(Kernels& kernels);
void add_attention_backward_kernels(Kernels& kernels);
void add_embedding_kernels(Kernels& kernels);
void add_cross_entropy_kernels(Kernels& kernels);
/// Adds the optimizer's kernels. fill_normal takes f64 too; its log and cos may differ from the
/// host's in the last bits.
void add_optimizer_kernels(Kernels& kernels);

inline constexpr std::int64_t kMostHeadSize = 256;

}  // namespace ptdp::cuda
