#include "runtime/profiling/timed_backend.h"

namespace ptdp {
namespace {

OperationSizes matrix(std::int64_t rows, const Buffer& x) {
  const std::int64_t columns = x.size / rows;
  return {static_cast<double>(rows), static_cast<double>(columns), 1.0};
}

OperationSizes row(const Buffer& x) {
  return {1.0, static_cast<double>(x.size), 1.0};
}

OperationSizes logits_sizes(std::int64_t rows, const VocabShard& shard) {
  return {static_cast<double>(rows), static_cast<double>(shard.width), 1.0};
}

OperationSizes attention_sizes(const Attention& shape) {
  return {static_cast<double>(shape.batch * shape.heads), static_cast<double>(shape.seq_length),
          static_cast<double>(shape.head_size)};
}

}  // namespace

void TimedBackend::start() {
  spans_.clear();
  last_end_ = inner_.record();
}

std::vector<TimedOperation> TimedBackend::take() {
  std::vector<TimedOperation> timed;
  timed.reserve(spans_.size());
  for (const Span& span : std::exchange(spans_, {})) {
    timed.push_back({.operation = span.operation,
                     .sizes = span.sizes,
                     .is_whole = span.is_whole,
                     .seconds = inner_.seconds_between(span.begin, span.end)});
  }
  return timed;
}

void TimedBackend::run_as_graph(std::int64_t key, const std::function<void()>& issue) {
  inner_.run_as_graph(key, [&] {
    ended_unnamed();
    issue();
  });
}

void TimedBackend::ended(DeviceOperation operation, const OperationSizes& sizes, bool is_whole) {
  const Event end = inner_.record();
  spans_.push_back({operation, sizes, is_whole, last_end_, end});
  last_end_ = end;
}

void TimedBackend::copy(Buffer from, Buffer to) {
  inner_.copy(from, to);
  ended(DeviceOperation::kCopy, row(to));
}

void TimedBackend::copy_in(const void* from, Buffer to) {
  inner_.copy_in(from, to);
  ended_unnamed();
}

void TimedBackend::copy_out(Buffer from, void* to) {
  inner_.copy_out(from, to);
  ended_unnamed();
}

void TimedBackend::convert(Buffer from, Buffer to) {
  inner_.convert(from, to);
  ended_unnamed();
}

void TimedBackend::fill(Buffer x, double value) {
  inner_.fill(x, value);
  ended(DeviceOperation::kFill, row(x));
}

void TimedBackend::add(Buffer x, Buffer to) {
  inner_.add(x, to);
  ended_unnamed();
}

void TimedBackend::maximum(Buffer x, Buffer to) {
  inner_.maximum(x, to);
  ended_unnamed();
}

void TimedBackend::scale(Buffer x, double factor) {
  inner_.scale(x, factor);
  ended_unnamed();
}

void TimedBackend::add_bias(Buffer x, Buffer bias, std::int64_t rows) {
  inner_.add_bias(x, bias, rows);
  ended(DeviceOperation::kBias, matrix(rows, x));
}

void TimedBackend::bias_gradient(Buffer dy, Buffer gradient, std::int64_t rows) {
  inner_.bias_gradient(dy, gradient, rows);
  ended(DeviceOperation::kBiasGradient, matrix(rows, dy));
}

void TimedBackend::bias_gelu(Buffer x, Buffer bias, Buffer y, std::int64_t rows) {
  inner_.bias_gelu(x, bias, y, rows);
  ended(DeviceOperation::kBiasGelu, matrix(rows, x));
}

void TimedBackend::gelu_backward(Buffer x, Buffer dy, Buffer dx) {
  inner_.gelu_backward(x, dy, dx);
  ended(DeviceOperation::kGeluBackward, row(x));
}

void TimedBackend::bias_dropout_add(Buffer x, Buffer bias, Buffer residual, const Dropout& dropout,
                                    const TokenRange& range, Buffer y, std::int64_t rows) {
  inner_.bias_dropout_add(x, bias, residual, dropout, range, y, rows);
  if (bias.empty() || residual.empty()) {
    ended_unnamed();  // an embedding's
  } else {
    ended(dropout.probability > 0.0 ? DeviceOperation::kBiasDropoutAdd : DeviceOperation::kBiasAdd,
          matrix(rows, x));
  }
}

void TimedBackend::dropout_backward(Buffer dy, const Dropout& dropout, const TokenRange& range,
                                    Buffer dx, std::int64_t rows) {
  inner_.dropout_backward(dy, dropout, range, dx, rows);
  if (dropout.probability > 0.0) {
    ended(DeviceOperation::kDropoutBackward, matrix(rows, dy));
  } else {
    ended(DeviceOperation::kCopy, row(dy));
  }
}

void TimedBackend::matmul(const Matmul& product, Buffer a, Buffer b, Buffer c) {
  inner_.matmul(product, a, b, c);
  const OperationSizes sizes = {static_cast<double>(product.m), static_cast<double>(product.n),
                                static_cast<double>(product.k)};
  if (product.transposes_a && product.accumulates) {
    ended(DeviceOperation::kWeightGradientProduct, sizes);
  } else if (product.transposes_b && !product.transposes_a && !product.accumulates) {
    ended(DeviceOperation::kForwardProduct, sizes);
  } else if (!product.transposes_b && !product.transposes_a && !product.accumulates) {
    ended(DeviceOperation::kInputGradientProduct, sizes);
  } else {
    ended_unnamed();
  }
}

void TimedBackend::layer_norm(Buffer x, Buffer gamma, Buffer beta, double epsilon, Buffer y,
                              Buffer mean, Buffer rstd, std::int64_t rows) {
  inner_.layer_norm(x, gamma, beta, epsilon, y, mean, rstd, rows);
  ended(DeviceOperation::kLayerNorm, matrix(rows, x));
}

void TimedBackend::layer_norm_backward(Buffer dy, Buffer x, Buffer mean, Buffer rstd, Buffer gamma,
                                       Buffer dx, Buffer dgamma, Buffer dbeta, std::int64_t rows) {
  inner_.layer_norm_backward(dy, x, mean, rstd, gamma, dx, dgamma, dbeta, rows);
  ended(DeviceOperation::kLayerNormBackward, matrix(rows, x));
}

void TimedBackend::attention(const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum) {
  inner_.attention(shape, qkv, out, log_sum);
  ended(shape.dropout.probability > 0.0 ? DeviceOperation::kDropoutAttention
                                        : DeviceOperation::kAttention,
        attention_sizes(shape));
}

void TimedBackend::attention_backward(const Attention& shape, Buffer qkv, Buffer out,
                                      Buffer log_sum, Buffer dout, Buffer dqkv) {
  inner_.attention_backward(shape, qkv, out, log_sum, dout, dqkv);
  ended(shape.dropout.probability > 0.0 ? DeviceOperation::kDropoutAttentionBackward
                                        : DeviceOperation::kAttentionBackward,
        attention_sizes(shape));
}

void TimedBackend::embedding(Buffer ids, Buffer table, std::int64_t first, Buffer out) {
  inner_.embedding(ids, table, first, out);
  ended(DeviceOperation::kEmbedding, matrix(ids.size, out));
}

void TimedBackend::embedding_gradient(Buffer ids, Buffer dy, std::int64_t first, Buffer gradient) {
  inner_.embedding_gradient(ids, dy, first, gradient);
  ended(DeviceOperation::kEmbeddingGradient, matrix(ids.size, dy));
}

void TimedBackend::add_positions(Buffer x, Buffer positions, const TokenRange& range,
                                 std::int64_t rows) {
  inner_.add_positions(x, positions, range, rows);
  ended(DeviceOperation::kPositions, matrix(rows, x));
}

void TimedBackend::position_gradient(Buffer dy, Buffer gradient, const TokenRange& range,
                                     std::int64_t rows) {
  inner_.position_gradient(dy, gradient, range, rows);
  ended(DeviceOperation::kPositionGradient, matrix(rows, dy));
}

void TimedBackend::row_maxima(Buffer logits, const VocabShard& shard, Buffer maxima,
                              std::int64_t rows) {
  inner_.row_maxima(logits, shard, maxima, rows);
  ended(DeviceOperation::kCrossEntropy, logits_sizes(rows, shard), /*is_whole=*/false);
}

void TimedBackend::softmax_sums(Buffer logits, const VocabShard& shard, Buffer targets,
                                Buffer maxima, Buffer sums, std::int64_t rows) {
  inner_.softmax_sums(logits, shard, targets, maxima, sums, rows);
  ended(DeviceOperation::kCrossEntropy, logits_sizes(rows, shard));
}

void TimedBackend::add_losses(Buffer sums, Buffer total, std::int64_t rows) {
  inner_.add_losses(sums, total, rows);
  ended_unnamed();
}

void TimedBackend::cross_entropy_backward(Buffer logits, const VocabShard& shard, Buffer targets,
                                          Buffer maxima, Buffer sums, double scale,
                                          std::int64_t rows) {
  inner_.cross_entropy_backward(logits, shard, targets, maxima, sums, scale, rows);
  ended(DeviceOperation::kCrossEntropyBackward, logits_sizes(rows, shard));
}

void TimedBackend::add_squares(Buffer x, Buffer total) {
  inner_.add_squares(x, total);
  ended_unnamed();  // of a step's parameters the caller times all together
}

void TimedBackend::adamw(const AdamW& settings, std::span<const AdamWSlice> slices) {
  inner_.adamw(settings, slices);
  ended_unnamed();
}

void TimedBackend::fill_normal(Buffer x, const MatrixBlock& block, std::uint64_t key,
                               double deviation) {
  inner_.fill_normal(x, block, key, deviation);
  ended_unnamed();
}

}  // namespace ptdp
