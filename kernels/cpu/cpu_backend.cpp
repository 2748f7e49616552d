// Memory of a host, and the operations that CpuBackend carries out without loops of an instruction
// set.
#include "kernels/cpu/cpu_backend.h"

#include <algorithm>
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

/// Allocates `bytes` bytes, or returns null when there is not enough memory.
void* take(std::int64_t bytes) {
  return ::operator new(static_cast<std::size_t>(bytes), kAlignment, std::nothrow);
}
void give_back(void* memory) noexcept {
  ::operator delete(memory, kAlignment);
}

void copy_bytes(const void* from, void* to, std::int64_t bytes) {
  if (bytes > 0) {  // Either pointer may be null when there are no bytes.
    std::memmove(to, from, static_cast<std::size_t>(bytes));
  }
}

}  // namespace

CpuBackend::CpuBackend() : CpuBackend(best_kernels()) {}

CpuBackend::CpuBackend(const KernelTable& loops) : loops_(loops), products_(*this, loops) {}

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

void CpuBackend::copy_columns(const VectorRows& from, const VectorRows& to, std::int64_t width,
                              std::int64_t rows) {
  assert(from.elements.type == to.elements.type);
  for (std::int64_t row = 0; row < rows; ++row) {
    copy(from.elements.slice(row * from.stride, width), to.elements.slice(row * to.stride, width));
  }
}

void CpuBackend::copy_in(const void* from, Buffer to) {
  copy_bytes(from, to.data, to.bytes());
}

void CpuBackend::copy_out(Buffer from, void* to) {
  copy_bytes(from.data, to, from.bytes());
}

void CpuBackend::matmul(const Matmul& product, Buffer a, Buffer b, Buffer c) {
  products_.multiply(product, a, b, c);
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

void CpuBackend::adamw(const AdamW& settings, std::span<const AdamWSlice> slices) {
  AdamW clipped = settings;
  if (!settings.squares.empty()) {
    const double squares = *elements<double>(settings.squares);
    if (!std::isfinite(squares)) {
      return;
    }
    const double norm = std::sqrt(squares) * settings.gradient_scale;
    if (settings.largest_norm > 0.0) {
      clipped.gradient_scale *= std::min(1.0, settings.largest_norm / (norm + kNormGuard));
    }
  }
  for (const AdamWSlice& slice : slices) {
    AdamW own = clipped;
    own.weight_decay = slice.decays ? settings.weight_decay : 0.0;
    loops_.adamw_slice(own, slice);
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
