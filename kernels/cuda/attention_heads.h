// The heads of attention on a GPU: where their vectors lie, which keys queries see, and what
// becomes of inner products.
#pragma once

#include <cassert>
#include <cmath>
#include <cstdint>
#include <string>

#include "kernels/backend.h"
#include "kernels/counter_random.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/philox.h"
#include "kernels/cuda/row_chunks.h"

namespace ptdp::cuda {

/// Number of queries of a tile, of keys of a tile, and of columns of vectors that are in shared
/// memory at a time.
inline constexpr int kTile = 64;

/// How every block of a kernel makes probabilities of inner products.
struct Scoring {
  explicit Scoring(const Attention& attention)
      : shape(attention),
        factor(static_cast<float>(attention.scale)),
        cap(static_cast<float>(attention.soft_cap)),
        per_cap(static_cast<float>(attention.soft_cap > 0.0 ? 1.0 / attention.soft_cap : 0.0)),
        kept(static_cast<float>(1.0 / (1.0 - attention.dropout.probability))),
        threshold(dropout_threshold(attention.dropout.probability)),
        length(static_cast<int>(attention.seq_length)),
        window(attention.window > 0 && attention.window < attention.seq_length
                   ? static_cast<int>(attention.window)
                   : length) {}

  /// Returns whether a query sees a key.
  [[nodiscard]] __device__ bool sees(int query, int key) const {
    return key <= query && key > query - window;
  }
  /// Returns the score of an inner product.
  [[nodiscard]] __device__ float score(float product) const {
    return cap > 0.0F ? cap * tanhf(product * factor * per_cap) : product * factor;
  }
  /// Returns the derivative of a score by its inner product.
  [[nodiscard]] __device__ float derivative(float score) const {
    const float of_cap = score * per_cap;
    return factor * fmaf(-of_cap, of_cap, 1.0F);
  }
  /// Returns the first key of the first tile that queries from `first_query` on see.
  [[nodiscard]] __device__ int first_key(int first_query) const {
    const int first = first_query - window + 1;
    return first > 0 ? first / kTile * kTile : 0;
  }
  /// Returns the end of the queries that see a key of the tile from `first_key` on.
  [[nodiscard]] __device__ int end_of_queries(int first_key) const {
    const int last_key = first_key + kTile - 1;
    return last_key < length - window ? last_key + window : length;
  }

  Attention shape;
  float factor;             ///< Factor of inner products.
  float cap;                ///< Cap of scores; 0: none.
  float per_cap;            ///< 1/cap, or 0.
  float kept;               ///< Factor of probabilities that are not dropped.
  std::uint32_t threshold;  ///< Random words below it drop a probability.
  int length;               ///< Sequence length [tokens].
  int window;               ///< Keys that a query sees, its own included.
};

/// The vectors of one head of one sequence, one vector for each position.
template <class T>
struct HeadRows {
  T* first;             ///< Vector of position 0.
  std::int64_t stride;  ///< Elements from a position to the next.
  int count;            ///< Number of positions.
  int size;             ///< Elements of a vector.
  bool has_chunks;      ///< Vectors consist of whole chunks, each at a multiple of 16 bytes.
};

/// Vectors of heads side by side in each row, one row for each token.
template <class T>
struct TokenVectors {
  T* first;
  std::int64_t stride;  ///< Elements from a row to the next.
  bool has_chunks;      ///< Vectors consist of whole chunks, each at a multiple of 16 bytes.

  /// Returns the vectors of a head of a sequence.
  [[nodiscard]] __device__ HeadRows<T> of(const Attention& shape, int sequence, int head) const {
    return {first + sequence * stride + head * shape.head_size, shape.batch * stride,
            static_cast<int>(shape.seq_length), static_cast<int>(shape.head_size), has_chunks};
  }
};

/// Returns where vectors of heads lie that begin at `first`.
template <class T>
[[nodiscard]] TokenVectors<T> vectors_of(T* first, std::int64_t stride, const Attention& shape) {
  const bool has_chunks =
      stride % kVectorSize<T> == 0 && has_aligned_rows<T>(shape.head_size, first);
  return {first, stride, has_chunks};
}
/// Returns where vectors of heads of `T` lie.
template <class T>
[[nodiscard]] TokenVectors<T> vectors_of(const VectorRows& rows, const Attention& shape) {
  return vectors_of(elements<T>(rows.elements), rows.stride, shape);
}
/// Returns where the vectors of all query heads lie, without gaps.
template <class T>
[[nodiscard]] TokenVectors<T> vectors_of(T* first, const Attention& shape) {
  return vectors_of(first, shape.heads * shape.head_size, shape);
}

/// One query head of one sequence, number `place` among the query heads of all sequences.
struct HeadPlace {
  __device__ HeadPlace(const Attention& attention, int number)
      : shape(attention),
        place(number),
        sequence(number / static_cast<int>(attention.heads)),
        head(number % static_cast<int>(attention.heads)) {}

  /// Returns the vectors of this head among those of query heads.
  template <class T>
  [[nodiscard]] __device__ HeadRows<T> rows(const TokenVectors<T>& vectors) const {
    return vectors.of(shape, sequence, head);
  }
  /// Returns the vectors of this head's key head.
  template <class T>
  [[nodiscard]] __device__ HeadRows<T> key_rows(const TokenVectors<T>& vectors) const {
    return vectors.of(shape, sequence, head / static_cast<int>(shape.heads / shape.key_heads));
  }
  /// Returns the number, for dropout, of a probability.
  [[nodiscard]] __device__ std::int64_t probability(int query, int key) const {
    const std::int64_t of_layer =
        (shape.first_sample + sequence) * shape.total_heads + shape.first_head + head;
    return (of_layer * shape.seq_length + query) * shape.seq_length + key;
  }

  const Attention& shape;
  int place;
  int sequence;
  int head;
};

/// Returns the factor that dropout applies to a probability.
__device__ inline float dropout_factor(const Scoring& scoring, const HeadPlace& head, int query,
                                       int key) {
  if (!(scoring.shape.dropout.probability > 0.0)) {
    return 1.0F;
  }
  const auto number = static_cast<std::uint64_t>(head.probability(query, key));
  const std::uint32_t word = random_word(scoring.shape.dropout.key, number);
  return word < scoring.threshold ? 0.0F : scoring.kept;
}

/// Throws CudaError when own kernels do not support the head size.
inline void check_head_size(const Attention& shape) {
  assert(shape.key_heads == 0 ? shape.heads == 0 : shape.heads % shape.key_heads == 0);
  if (shape.head_size < 1 || shape.head_size > kMostHeadSize) {
    throw CudaError("attention on a GPU: expected heads of 1 to " + std::to_string(kMostHeadSize) +
                    " elements, got " + std::to_string(shape.head_size));
  }
}

}  // namespace ptdp::cuda
