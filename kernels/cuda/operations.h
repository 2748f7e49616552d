// The operations of Backend (kernels/backend.h says what each does) as kernels on a stream. Working
// types are f32, bf16 and fp16.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/forwarding_backend.h"

namespace ptdp::cuda {

/// The stream on which an operation is queued, and the backend whose memory it may also use.
struct Queue {
  cudaStream_t stream = nullptr;
  Backend& memory;

  /// Returns scratch of at least `bytes` bytes, aligned to 256. Its release keeps to the order of
  /// the stream.
  [[nodiscard]] Tensor scratch(std::int64_t bytes) const {
    constexpr std::int64_t word = bytes_of(DataType::kInt32);
    return {memory, DataType::kInt32, (bytes + word - 1) / word};
  }
};

/// The function that launches an operation's kernels. It takes the queue, then the operation's
/// arguments.
template <auto kOperation>
using Kernel = OperationEntry<const Queue&, kOperation>;

/// The kernels of all operations. Those of copies and matmul are null here, since the backend has
/// them.
struct Kernels : OperationTable<const Queue&> {};

/// Returns the place of an operation in the table, to be filled as in
/// kernel_of<&Backend::add>(kernels) = add.
template <auto kOperation>
[[nodiscard]] auto& kernel_of(Kernels& kernels) {
  return static_cast<Kernel<kOperation>&>(kernels).function;
}

// Each source fills its part of the table.

/// Adds the kernels of elementwise.cu. They take any floating type; fill, add and maximum also take
/// i32, and bias and soft caps take no f64.
void add_elementwise_kernels(Kernels& kernels);
/// Adds the kernels of activation.cu.
void add_activation_kernels(Kernels& kernels);
/// Adds the kernels of column_sums.cu.
void add_column_sum_kernels(Kernels& kernels);
/// Adds the kernels of dropout.cu.
void add_dropout_kernels(Kernels& kernels);
/// Adds the kernels of norm.cu.
void add_norm_kernels(Kernels& kernels);
/// Adds the kernels of sum_norm.cu.
void add_sum_norm_kernels(Kernels& kernels);
/// Adds the kernels of norm_backward.cu.
void add_norm_backward_kernels(Kernels& kernels);
/// Adds the kernels of split_norm.cu.
void add_split_norm_kernels(Kernels& kernels);
/// Adds the kernel of rotary.cu.
void add_rotary_kernels(Kernels& kernels);
/// Adds the kernel of attention.cu, which takes dropout and heads of at most kMostHeadSize
/// elements.
void add_attention_kernels(Kernels& kernels);
/// Adds the kernels of attention_backward.cu, which take dropout and heads of at most kMostHeadSize
/// elements.
void add_attention_backward_kernels(Kernels& kernels);
/// Adds the kernels of embedding.cu.
void add_embedding_kernels(Kernels& kernels);
/// Adds the kernels of cross_entropy.cu.
void add_cross_entropy_kernels(Kernels& kernels);
/// Adds the kernels of optimizer.cu. fill_normal also takes f64; its log and cos may differ from
/// the host's in the last bits.
void add_optimizer_kernels(Kernels& kernels);

/// Queues the copy of `rows` rows that follow each other to rows with a stride (in
/// attention_backward.cu).
void copy_rows(cudaStream_t stream, Buffer from, const VectorRows& to, std::int64_t rows);

/// Largest size of a head that own attention kernels take.
inline constexpr std::int64_t kMostHeadSize = 256;

}  // namespace ptdp::cuda
