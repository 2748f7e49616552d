// The operations of Backend (kernels/backend.h says what each does) as kernels on a stream. Working
// types are f32, bf16 and fp16; `scratch` is of the accumulator type unless said otherwise.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace ptdp::cuda {

// --- element by element: elementwise.cu; of any floating type but for the last three ---

void convert(cudaStream_t stream, Buffer from, Buffer to);
void fill(cudaStream_t stream, Buffer x, double value);  ///< i32 too.
void add(cudaStream_t stream, Buffer x, Buffer to);
void maximum(cudaStream_t stream, Buffer x, Buffer to);
void scale(cudaStream_t stream, Buffer x, double factor);
void add_bias(cudaStream_t stream, Buffer x, Buffer bias, std::int64_t rows);
void bias_gelu(cudaStream_t stream, Buffer x, Buffer bias, Buffer y, std::int64_t rows);
void gelu_backward(cudaStream_t stream, Buffer x, Buffer dy, Buffer dx);

// --- column_sums.cu ---

/// Elements that sums over the rows of [rows, width] need.
[[nodiscard]] std::int64_t column_sum_scratch(std::int64_t rows, std::int64_t width);
void bias_gradient(cudaStream_t stream, Buffer dy, Buffer gradient, std::int64_t rows,
                   Buffer scratch);

// --- dropout.cu ---

void bias_dropout_add(cudaStream_t stream, Buffer x, Buffer bias, Buffer residual,
                      const Dropout& dropout, const TokenRange& range, Buffer y, std::int64_t rows);
void dropout_backward(cudaStream_t stream, Buffer dy, const Dropout& dropout,
                      const TokenRange& range, Buffer dx, std::int64_t rows);

// --- layer_norm.cu ---

void layer_norm(cudaStream_t stream, Buffer x, Buffer gamma, Buffer beta, double epsilon, Buffer y,
                Buffer mean, Buffer rstd, std::int64_t rows);
/// Elements: at most 2·max(2^21, 256·width).
[[nodiscard]] std::int64_t layer_norm_backward_scratch(std::int64_t rows, std::int64_t width);
void layer_norm_backward(cudaStream_t stream, Buffer dy, Buffer x, Buffer mean, Buffer rstd,
                         Buffer gamma, Buffer dx, Buffer dgamma, Buffer dbeta, std::int64_t rows,
                         Buffer scratch);

// --- attention.cu, attention_backward.cu: any head size up to kMostHeadSize, with dropout ---

inline constexpr std::int64_t kMostHeadSize = 256;
void attention(cudaStream_t stream, const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum);
/// Bytes.
[[nodiscard]] std::int64_t attention_backward_scratch(const Attention& shape, DataType type);
/// `scratch` is of bytes as above, aligned to 16. dqkv may be qkv.
void attention_backward(cudaStream_t stream, const Attention& shape, Buffer qkv, Buffer out,
                        Buffer log_sum, Buffer dout, Buffer dqkv, void* scratch);

// --- embedding.cu ---

void embedding(cudaStream_t stream, Buffer ids, Buffer table, std::int64_t first, Buffer out);
/// Bytes, for rows of `width` elements.
[[nodiscard]] std::int64_t embedding_gradient_scratch(std::int64_t rows, std::int64_t width);
/// `scratch` is of bytes as above, aligned to 256. An entry's sum depends on its own rows alone.
void embedding_gradient(cudaStream_t stream, Buffer ids, Buffer dy, std::int64_t first,
                        Buffer gradient, void* scratch);
void add_positions(cudaStream_t stream, Buffer x, Buffer positions, const TokenRange& range,
                   std::int64_t rows);
void position_gradient(cudaStream_t stream, Buffer dy, Buffer gradient, const TokenRange& range,
                       std::int64_t rows);

// --- cross_entropy.cu ---

void row_maxima(cudaStream_t stream, Buffer logits, const VocabShard& shard, Buffer maxima,
                std::int64_t rows);
void softmax_sums(cudaStream_t stream, Buffer logits, const VocabShard& shard, Buffer targets,
                  Buffer maxima, Buffer sums, std::int64_t rows);
/// Elements of f64.
[[nodiscard]] std::int64_t total_scratch(std::int64_t size);
void add_losses(cudaStream_t stream, Buffer sums, Buffer total, std::int64_t rows, Buffer scratch);
void cross_entropy_backward(cudaStream_t stream, Buffer logits, const VocabShard& shard,
                            Buffer targets, Buffer maxima, Buffer sums, double scale,
                            std::int64_t rows);

// --- optimizer.cu ---

/// x is f32; `scratch` has total_scratch(x.size) elements of f64.
void add_squares(cudaStream_t stream, Buffer x, Buffer total, Buffer scratch);
void adamw(cudaStream_t stream, const AdamW& settings, std::span<const AdamWSlice> slices);
/// Also of f64; log and cos may differ from the host's in their last bits.
void fill_normal(cudaStream_t stream, Buffer x, const MatrixBlock& block, std::uint64_t key,
                 double deviation);

}  // namespace ptdp::cuda
