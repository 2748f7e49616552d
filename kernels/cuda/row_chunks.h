// Reads and writes rows of a matrix in chunks of 16 bytes. Chunk c of a row belongs to thread c of
// a block, modulo its threads. Unaligned rows are cut in the same way, so that no sum depends on
// alignment.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/element.h"
#include "kernels/cuda/launch.h"

namespace ptdp::cuda {

/// A chunk of a row: 16 bytes of elements.
template <class T>
using Chunk = Vector<T, kVectorSize<T>>;

/// Returns the number of chunks of a row of `width` elements; the last chunk may be shorter.
template <class T>
[[nodiscard]] constexpr std::int64_t num_chunks(std::int64_t width) {
  return (width + kVectorSize<T> - 1) / kVectorSize<T>;
}

/// Returns whether all rows of these matrices consist of whole chunks, each at a multiple of 16
/// bytes.
template <class T, class... Pointers>
[[nodiscard]] inline bool has_aligned_rows(std::int64_t width, const Pointers*... matrices) {
  return width % kVectorSize<T> == 0 && are_aligned(sizeof(Chunk<T>), matrices...);
}

/// Returns a grid whose blocks take one row at a time: enough blocks to keep a GPU busy, few enough
/// to start.
[[nodiscard]] inline Grid row_grid(std::int64_t rows, int threads) {
  constexpr std::int64_t most_blocks = 8192;
  return {.blocks = static_cast<unsigned>(std::min(rows, most_blocks)), .threads = threads};
}

/// Returns a number of threads in whole warps, at most `most`, that take about `chunks_per_thread`
/// of `chunks` chunks each.
[[nodiscard]] inline int threads_for(std::int64_t chunks, int chunks_per_thread, int most) {
  const std::int64_t threads = (chunks + chunks_per_thread - 1) / chunks_per_thread;
  return static_cast<int>(
      std::clamp<std::int64_t>((threads + kWarp - 1) / kWarp * kWarp, kWarp, most));
}

/// A chunk in whole registers, as it is read and written. [j] is element j as it is computed with.
template <class T>
struct alignas(16) [[gnu::may_alias]] Packed {
  std::uint32_t words[4];

  __device__ float operator[](int j) const {
    if constexpr (sizeof(T) == 4) {
      return std::bit_cast<T>(words[j]);
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      return std::bit_cast<float>(j % 2 == 0 ? words[j / 2] << 16U : words[j / 2] & 0xFFFF0000U);
    } else {
      return widen(T{static_cast<std::uint16_t>(words[j / 2] >> (j % 2 * 16U))});
    }
  }
};

/// Returns the chunk from element `first` of a row on, with 0 beyond the row's end. kIsAligned is
/// as has_aligned_rows() says.
template <bool kIsAligned, class T>
__device__ inline Packed<T> load_chunk(const T* row, std::int64_t first, std::int64_t width) {
  if constexpr (kIsAligned) {
    return *reinterpret_cast<const Packed<T>*>(row + first);
  } else {
    Chunk<T> chunk;
    for (int j = 0; j < kVectorSize<T>; ++j) {
      chunk[j] = first + j < width ? row[first + j] : T{};
    }
    return std::bit_cast<Packed<T>>(chunk);
  }
}

/// Writes a chunk from element `first` of a row in global memory on, up to the row's end.
template <bool kIsAligned, class T>
__device__ inline void store_chunk(const Chunk<T>& chunk, T* row, std::int64_t first,
                                   std::int64_t width) {
  if constexpr (kIsAligned) {
    const auto packed = std::bit_cast<Packed<T>>(chunk);
#ifdef __CUDACC__
    // nvcc writes a struct of some kernels, such as norms with an optional shift, word by word.
    asm volatile(
        "st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(row + first)),
        "r"(packed.words[0]), "r"(packed.words[1]), "r"(packed.words[2]), "r"(packed.words[3])
        : "memory");
#else
    *reinterpret_cast<Packed<T>*>(row + first) = packed;
#endif
  } else {
    for (int j = 0; j < kVectorSize<T>; ++j) {
      if (first + j < width) {
        row[first + j] = chunk[j];
      }
    }
  }
}

/// Calls visit(k, first, count) for this thread's chunks of a row: chunk k has `count` elements
/// from `first` on. With kHeld > 0 there are at most kHeld chunks and k is a constant; with 0 there
/// may be any number, and k is 0.
template <int kHeld, bool kIsAligned, class T, class Visit>
__device__ void visit_chunks(std::int64_t width, const Visit& visit) {
  constexpr int kSize = kVectorSize<T>;
  const auto count_from = [&](std::int64_t first) {
    return kIsAligned || first + kSize <= width ? kSize : static_cast<int>(width - first);
  };
  if constexpr (kHeld > 0) {
    for (int k = 0; k < kHeld; ++k) {
      // Only products are used: after a sum of strides, nvcc writes the later chunks word by word.
      const std::int64_t first = (threadIdx.x + k * blockDim.x) * kSize;
      if (first < width) {
        visit(k, first, count_from(first));
      }
    }
  } else {
    const std::int64_t stride = std::int64_t{blockDim.x} * kSize;
    for (std::int64_t first = std::int64_t{threadIdx.x} * kSize; first < width; first += stride) {
      visit(0, first, count_from(first));
    }
  }
}

/// This thread's chunks of a row. They are read or made once and held, or with kHeld = 0 read when
/// asked for.
template <int kHeld, bool kIsAligned, class T>
class RowChunks {
 public:
  __device__ RowChunks(const T* row, std::int64_t width) : row_(row), width_(width) {
    if constexpr (kHeld > 0) {
      visit_chunks<kHeld, kIsAligned, T>(width, [this](int k, std::int64_t first, int) {
        held_[k] = load_chunk<kIsAligned>(row_, first, width_);
      });
    }
  }
  /// Writes the chunks that make(first) returns for the elements from `first` on to the row. It may
  /// read what this thread writes there.
  template <class Make>
  __device__ RowChunks(T* row, std::int64_t width, const Make& make) : row_(row), width_(width) {
    visit_chunks<kHeld, kIsAligned, T>(width, [&](int k, std::int64_t first, int) {
      const Chunk<T> chunk = make(first);
      store_chunk<kIsAligned>(chunk, row, first, width);
      if constexpr (kHeld > 0) {
        held_[k] = std::bit_cast<Packed<T>>(chunk);
      }
    });
  }
  /// Returns chunk k, which begins at element `first`.
  __device__ Packed<T> at(int k, std::int64_t first) const {
    if constexpr (kHeld > 0) {
      return held_[k];
    } else {
      return load_chunk<kIsAligned>(row_, first, width_);
    }
  }

 private:
  const T* row_;
  std::int64_t width_;
  Packed<T> held_[kHeld > 0 ? kHeld : 1];
};

}  // namespace ptdp::cuda
