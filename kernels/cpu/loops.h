// The loops behind the operations of a host, as functions of buffers. Compiled for several
// instruction sets; a table of them is chosen once. Arguments are those of Backend's operations of
// the same names; scratch is memory whose content means nothing before and after.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/backend.h"

namespace ptdp {

struct Loops {
  std::string_view name = {};  ///< Of the instruction set.

  void (*convert)(Buffer from, Buffer to) = nullptr;
  void (*fill)(Buffer x, double value) = nullptr;
  void (*add)(Buffer x, Buffer to) = nullptr;
  void (*maximum)(Buffer x, Buffer to) = nullptr;
  void (*scale)(Buffer x, double factor) = nullptr;
  void (*add_bias)(Buffer x, Buffer bias, std::int64_t rows) = nullptr;
  /// `scratch` [2·width] accumulator.
  void (*bias_gradient)(Buffer dy, Buffer gradient, std::int64_t rows, Buffer scratch) = nullptr;
  void (*bias_gelu)(Buffer x, Buffer bias, Buffer y, std::int64_t rows) = nullptr;
  void (*gelu_backward)(Buffer x, Buffer dy, Buffer dx) = nullptr;
  void (*bias_dropout_add)(Buffer x, Buffer bias, Buffer residual, const Dropout& dropout,
                           const TokenRange& range, Buffer y, std::int64_t rows) = nullptr;
  void (*dropout_backward)(Buffer dy, const Dropout& dropout, const TokenRange& range, Buffer dx,
                           std::int64_t rows) = nullptr;

  /// Elements of accumulator type that `product` needs as scratch, for a and b of `type`, c of
  /// `c_type`.
  std::int64_t (*product_scratch)(const Matmul& product, DataType type, DataType c_type) = nullptr;
  /// Backend::matmul; m, n and k are not 0.
  void (*product)(const Matmul& product, Buffer a, Buffer b, Buffer c, Buffer scratch) = nullptr;

  void (*layer_norm)(Buffer x, Buffer gamma, Buffer beta, double epsilon, Buffer y, Buffer mean,
                     Buffer rstd, std::int64_t rows) = nullptr;
  /// `scratch` [4·h] accumulator.
  void (*layer_norm_backward)(Buffer dy, Buffer x, Buffer mean, Buffer rstd, Buffer gamma,
                              Buffer dx, Buffer dgamma, Buffer dbeta, std::int64_t rows,
                              Buffer scratch) = nullptr;

  /// Elements of the accumulator type `sum` that attention and its backward need as scratch.
  std::int64_t (*attention_scratch)(const Attention& shape, DataType sum) = nullptr;
  std::int64_t (*attention_backward_scratch)(const Attention& shape, DataType sum) = nullptr;
  void (*attention)(const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum,
                    Buffer scratch) = nullptr;
  void (*attention_backward)(const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum,
                             Buffer dout, Buffer dqkv, Buffer scratch) = nullptr;

  void (*embedding)(Buffer ids, Buffer table, std::int64_t first, Buffer out) = nullptr;
  /// `order` i32 [rows], `sum` [h] accumulator are scratch.
  void (*embedding_gradient)(Buffer ids, Buffer dy, std::int64_t first, Buffer gradient,
                             Buffer order, Buffer sum) = nullptr;
  void (*add_positions)(Buffer x, Buffer positions, const TokenRange& range,
                        std::int64_t rows) = nullptr;
  /// `sum` [h] accumulator is scratch.
  void (*position_gradient)(Buffer dy, Buffer gradient, const TokenRange& range, std::int64_t rows,
                            Buffer sum) = nullptr;

  void (*row_maxima)(Buffer logits, const VocabShard& shard, Buffer maxima,
                     std::int64_t rows) = nullptr;
  void (*softmax_sums)(Buffer logits, const VocabShard& shard, Buffer targets, Buffer maxima,
                       Buffer sums, std::int64_t rows) = nullptr;
  void (*cross_entropy_backward)(Buffer logits, const VocabShard& shard, Buffer targets,
                                 Buffer maxima, Buffer sums, double scale,
                                 std::int64_t rows) = nullptr;

  void (*add_squares)(Buffer x, Buffer total) = nullptr;
  void (*adamw)(const AdamW& settings, Buffer master, Buffer moment1, Buffer moment2,
                Buffer gradient, Buffer weights) = nullptr;
};

/// The loops that this processor can run, the fastest last.
[[nodiscard]] std::vector<const Loops*> runnable_loops();
/// The last of them.
[[nodiscard]] const Loops& best_loops();

}  // namespace ptdp
