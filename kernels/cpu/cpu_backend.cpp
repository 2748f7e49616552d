#include "kernels/cpu/cpu_backend.h"

#include <cassert>
#include <chrono>
#include <cmath>
#include <cstring>
#include <new>
#include <string>

#include "kernels/counter_random.h"
#include "kernels/cpu/element.h"

namespace ptdp {
namespace {

constexpr std::align_val_t kAlignment{64};

/// Null where there is not enough.
void* take(std::int64_t bytes) {
  return ::operator new(static_cast<std::size_t>(bytes), kAlignment, std::nothrow);
}
void give_back(void* memory) noexcept {
  ::operator delete(memory, kAlignment);
}

void copy_bytes(const void* from, void* to, std::int64_t bytes) {
  if (bytes > 0) {  // either may be null for none
    std::memmove(to, from, static_cast<std::size_t>(bytes));
  }
}

}  // namespace

CpuBackend::~CpuBackend() {
  release_kept();
}

void CpuBackend::use_lane(int) {}

Event CpuBackend::record() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return {std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()};
}

void CpuBackend::wait(const Event&) {}

void CpuBackend::synchronize() {}

double CpuBackend::seconds_between(const Event& first, const Event& second) {
  return static_cast<double>(second.nanoseconds - first.nanoseconds) * 1e-9;
}

void CpuBackend::copy(Buffer from, Buffer to) {
  assert(from.type == to.type && from.size == to.size);
  copy_bytes(from.data, to.data, to.bytes());
}

void CpuBackend::copy_in(const void* from, Buffer to) {
  copy_bytes(from, to.data, to.bytes());
}

void CpuBackend::copy_out(Buffer from, void* to) {
  copy_bytes(from.data, to, from.bytes());
}

void CpuBackend::convert(Buffer from, Buffer to) {
  loops_.convert(from, to);
}

void CpuBackend::fill(Buffer x, double value) {
  loops_.fill(x, value);
}

void CpuBackend::add(Buffer x, Buffer to) {
  loops_.add(x, to);
}

void CpuBackend::maximum(Buffer x, Buffer to) {
  loops_.maximum(x, to);
}

void CpuBackend::scale(Buffer x, double factor) {
  loops_.scale(x, factor);
}

void CpuBackend::add_bias(Buffer x, Buffer bias, std::int64_t rows) {
  loops_.add_bias(x, bias, rows);
}

void CpuBackend::bias_gradient(Buffer dy, Buffer gradient, std::int64_t rows) {
  const Tensor scratch(*this, gradient.type, 2 * gradient.size);
  loops_.bias_gradient(dy, gradient, rows, scratch);
}

void CpuBackend::bias_gelu(Buffer x, Buffer bias, Buffer y, std::int64_t rows) {
  loops_.bias_gelu(x, bias, y, rows);
}

void CpuBackend::gelu_backward(Buffer x, Buffer dy, Buffer dx) {
  loops_.gelu_backward(x, dy, dx);
}

void CpuBackend::bias_dropout_add(Buffer x, Buffer bias, Buffer residual, const Dropout& dropout,
                                  const TokenRange& range, Buffer y, std::int64_t rows) {
  loops_.bias_dropout_add(x, bias, residual, dropout, range, y, rows);
}

void CpuBackend::dropout_backward(Buffer dy, const Dropout& dropout, const TokenRange& range,
                                  Buffer dx, std::int64_t rows) {
  loops_.dropout_backward(dy, dropout, range, dx, rows);
}

void CpuBackend::matmul(const Matmul& product, Buffer a, Buffer b, Buffer c) {
  products_.multiply(product, a, b, c);
}

void CpuBackend::layer_norm(Buffer x, Buffer gamma, Buffer beta, double epsilon, Buffer y,
                            Buffer mean, Buffer rstd, std::int64_t rows) {
  loops_.layer_norm(x, gamma, beta, epsilon, y, mean, rstd, rows);
}

void CpuBackend::layer_norm_backward(Buffer dy, Buffer x, Buffer mean, Buffer rstd, Buffer gamma,
                                     Buffer dx, Buffer dgamma, Buffer dbeta, std::int64_t rows) {
  const Tensor scratch(*this, dgamma.type, 4 * gamma.size);
  loops_.layer_norm_backward(dy, x, mean, rstd, gamma, dx, dgamma, dbeta, rows, scratch);
}

void CpuBackend::attention(const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum) {
  const Tensor scratch(*this, log_sum.type, loops_.attention_scratch(shape, log_sum.type));
  loops_.attention(shape, qkv, out, log_sum, scratch);
}

void CpuBackend::attention_backward(const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum,
                                    Buffer dout, Buffer dqkv) {
  const Tensor scratch(*this, log_sum.type, loops_.attention_backward_scratch(shape, log_sum.type));
  loops_.attention_backward(shape, qkv, out, log_sum, dout, dqkv, scratch);
}

void CpuBackend::embedding(Buffer ids, Buffer table, std::int64_t first, Buffer out) {
  loops_.embedding(ids, table, first, out);
}

void CpuBackend::embedding_gradient(Buffer ids, Buffer dy, std::int64_t first, Buffer gradient) {
  if (ids.empty()) {
    return;
  }
  const Tensor order(*this, DataType::kInt32, ids.size);
  const Tensor sum(*this, gradient.type, dy.size / ids.size);
  loops_.embedding_gradient(ids, dy, first, gradient, order, sum);
}

void CpuBackend::add_positions(Buffer x, Buffer positions, const TokenRange& range,
                               std::int64_t rows) {
  loops_.add_positions(x, positions, range, rows);
}

void CpuBackend::position_gradient(Buffer dy, Buffer gradient, const TokenRange& range,
                                   std::int64_t rows) {
  if (rows == 0) {
    return;
  }
  const Tensor sum(*this, gradient.type, dy.size / rows);
  loops_.position_gradient(dy, gradient, range, rows, sum);
}

void CpuBackend::row_maxima(Buffer logits, const VocabShard& shard, Buffer maxima,
                            std::int64_t rows) {
  loops_.row_maxima(logits, shard, maxima, rows);
}

void CpuBackend::softmax_sums(Buffer logits, const VocabShard& shard, Buffer targets, Buffer maxima,
                              Buffer sums, std::int64_t rows) {
  loops_.softmax_sums(logits, shard, targets, maxima, sums, rows);
}

void CpuBackend::add_losses(Buffer sums, Buffer total, std::int64_t rows) {
  assert(sums.size == 2 * rows && total.size == 1);
  const auto add_all = [&](const auto* of_row) {
    double losses = 0.0;
    for (std::int64_t row = 0; row < rows; ++row) {
      losses +=
          std::log(static_cast<double>(of_row[row])) - static_cast<double>(of_row[rows + row]);
    }
    *elements<double>(total) += losses;
  };
  if (sums.type == DataType::kFloat64) {
    add_all(elements<double>(sums));
  } else {
    add_all(elements<float>(sums));
  }
}

void CpuBackend::cross_entropy_backward(Buffer logits, const VocabShard& shard, Buffer targets,
                                        Buffer maxima, Buffer sums, double scale,
                                        std::int64_t rows) {
  loops_.cross_entropy_backward(logits, shard, targets, maxima, sums, scale, rows);
}

void CpuBackend::add_squares(Buffer x, Buffer total) {
  loops_.add_squares(x, total);
}

void CpuBackend::adamw(const AdamW& settings, std::span<const AdamWSlice> slices) {
  for (const AdamWSlice& slice : slices) {
    AdamW own = settings;
    own.weight_decay = slice.decays ? settings.weight_decay : 0.0;
    loops_.adamw(own, slice.master, slice.moment1, slice.moment2, slice.gradient, slice.weights);
  }
}

void CpuBackend::fill_normal(Buffer x, const MatrixBlock& block, std::uint64_t key,
                             double deviation) {
  assert(x.size == block.rows * block.columns);
  baseline::visit_element_type(x.type, [&]<class T>(T) {
    T* const to = elements<T>(x);
    for (std::int64_t row = 0; row < block.rows; ++row) {
      const std::int64_t first = (block.first_row + row) * block.total_columns + block.first_column;
      for (std::int64_t c = 0; c < block.columns; ++c) {
        to[row * block.columns + c] = baseline::narrow<T>(
            deviation * random_normal(key, static_cast<std::uint64_t>(first + c)));
      }
    }
  });
}

void* CpuBackend::allocate_memory(std::int64_t bytes) {
  if (const auto kept = kept_.find(bytes); kept != kept_.end() && !kept->second.empty()) {
    void* const memory = kept->second.back();
    kept->second.pop_back();
    kept_bytes_ -= bytes;
    return memory;
  }
  void* memory = take(bytes);
  if (memory == nullptr) {
    release_kept();
    memory = take(bytes);
  }
  if (memory == nullptr) {
    throw OutOfMemory("out of memory: " + std::to_string(bytes) + " bytes asked for, " +
                      std::to_string(bytes_in_use()) + " in use");
  }
  return memory;
}

void CpuBackend::release_memory(void* memory, std::int64_t bytes) noexcept {
  try {
    kept_[bytes].push_back(memory);
    kept_bytes_ += bytes;
  } catch (const std::bad_alloc&) {
    give_back(memory);
  }
  if (kept_bytes_ > peak_bytes()) {
    release_kept();
  }
}

void CpuBackend::release_kept() noexcept {
  for (auto& [bytes, blocks] : kept_) {
    for (void* const block : blocks) {
      give_back(block);
    }
  }
  kept_.clear();
  kept_bytes_ = 0;
}

}  // namespace ptdp
