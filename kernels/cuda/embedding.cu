// Rows of tables: token and position embeddings and their gradients.
#include <algorithm>
#include <bit>
#include <cassert>

#include "kernels/cuda/element.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/sort_by_key.h"
#include "kernels/cuda/token_rows.h"
#include "kernels/cuda/vectors.h"

namespace ptdp::cuda {
namespace {

/// Computes out[r] = table[ids[r] − first], or 0 when that is beyond the table.
template <class T, int kSize>
struct LookupBody {
  const std::int32_t* ids;
  const T* table;
  T* out;
  std::int64_t first;
  std::int64_t num_entries;
  std::int64_t columns;  ///< Columns of the table [vectors].

  using Loaded = Vector<T, kSize>;
  __device__ Loaded load(const Place& place) const {
    const std::int64_t entry = ids[place.row] - first;
    return entry >= 0 && entry < num_entries
               ? cuda::load<kSize>(table, entry * columns + place.column)
               : Loaded{};
  }
  __device__ void finish(const Place& place, const Loaded& loaded) const {
    store(out, place.number, loaded);
  }
};

/// Computes x[r] += positions[position of r].
template <class T, int kSize>
struct PositionBody {
  T* x;
  const T* positions;
  TokenRows rows;
  std::int64_t columns;

  struct Loaded {
    Vector<T, kSize> x;
    Vector<T, kSize> position;
  };
  __device__ Loaded load(const Place& place) const {
    const std::int64_t position = rows.position_of(place.row);
    return {cuda::load<kSize>(x, place.number),
            cuda::load<kSize>(positions, position * columns + place.column)};
  }
  __device__ void finish(const Place& place, const Loaded& loaded) const {
    store(x, place.number, sum_of(loaded.x, loaded.position));
  }
};

/// Number of f32 elements of `count` that are read and written at once, at most 16 bytes.
constexpr int floats_at_once(int count) {
  return count < 4 ? count : 4;
}

/// Adds `total` to the elements at `to`, or with kReplaces writes it there.
template <bool kReplaces = false, int kSize>
__device__ void add_to(float* to, const float (&total)[kSize]) {
  constexpr int kPart = floats_at_once(kSize);
  for (int first = 0; first < kSize; first += kPart) {
    Vector<float, kPart> sum = kReplaces ? Vector<float, kPart>{} : load<kPart>(to + first, 0);
    for (int e = 0; e < kPart; ++e) {
      sum[e] += total[first + e];
    }
    store(to + first, 0, sum);
  }
}

/// Adds the elements at `from` to `total`.
template <class T, int kSize>
__device__ void add_elements(const T* from, float (&total)[kSize]) {
  const Vector<float, kSize> terms = widened(load<kSize>(from, 0));
  for (int e = 0; e < kSize; ++e) {
    total[e] += terms[e];
  }
}

/// Computes gradient[position number p] += Σ over the batch of dy[p·batch + b]. The rows of places
/// are the numbers of positions.
template <class T, int kSize>
struct PositionGradientBody {
  const T* dy;
  float* gradient;
  TokenRows tokens;
  std::int64_t rows;
  std::int64_t batch;
  std::int64_t columns;

  struct Loaded {
    float sums[kSize];
  };
  __device__ Loaded load(const Place& place) const {
    Loaded loaded{};
    const std::int64_t first = place.row * batch;
    const std::int64_t end = first + batch < rows ? first + batch : rows;
    for (std::int64_t row = first; row < end; ++row) {
      add_elements(dy + (row * columns + place.column) * kSize, loaded.sums);
    }
    return loaded;
  }
  __device__ void finish(const Place& place, const Loaded& loaded) const {
    add_to(gradient + (tokens.position(place.row) * columns + place.column) * kSize, loaded.sums);
  }
};

// --- the gradient of a table: rows are sorted by entry, so that an entry's rows are a run ---

/// Most rows of a run that one thread sums. A run is summed in pieces of kPiece rows from its
/// beginning on, and the sums of pieces are added in order. The order thus depends neither on the
/// rest of the batch nor on how often an entry stands in it. Many blocks work at once.
constexpr std::uint32_t kPiece = 32;

/// Rows sorted by their entries, fewer than 2^31, so that 32 bits hold an index kPiece beyond the
/// last one.
struct SortedRows {
  /// Entries in ascending order; num_entries stands for those of other ranks.
  const std::int32_t* entries;
  const std::int32_t* rows;  ///< Row numbers, in the order of their entries.
  std::uint32_t size;        ///< Number of rows.
  std::int64_t num_entries;  ///< Number of entries of this rank's part of the table.
  std::int64_t width;        ///< Elements of a row.

  /// Returns whether sorted row i exists and has this entry.
  [[nodiscard]] __device__ bool is(std::uint32_t i, std::int32_t entry) const {
    return i < size && entries[i] == entry;
  }
  /// Returns the first index in [first, end) whose entry is at least `entry`, or with `is_above`
  /// exceeds it.
  [[nodiscard]] __device__ std::uint32_t bound(std::uint32_t first, std::uint32_t end,
                                               std::int32_t entry, bool is_above) const {
    while (first < end) {
      const std::uint32_t middle = (first + end) / 2;
      if (entries[middle] < entry || (is_above && entries[middle] == entry)) {
        first = middle + 1;
      } else {
        end = middle;
      }
    }
    return first;
  }
};

/// Rows [first, end) of one run; none when `first` is the end of all rows.
struct Piece {
  std::uint32_t run;  ///< Index at which the run begins.
  std::uint32_t first;
  std::uint32_t end;
};

/// Returns the piece of the run from `run` on that begins at `first`.
__device__ Piece piece_at(const SortedRows& sorted, std::uint32_t run, std::uint32_t first) {
  std::uint32_t end = first;
  if (first < sorted.size) {
    const std::int32_t entry = sorted.entries[first];
    while (end < first + kPiece && sorted.is(end, entry)) {
      ++end;
    }
  }
  return {run, first, end};
}

/// Returns the first piece that begins at `begin` or later.
__device__ Piece first_piece(const SortedRows& sorted, std::uint32_t begin) {
  const std::int32_t entry = sorted.entries[begin];
  if (begin == 0 || sorted.entries[begin - 1] != entry) {
    return piece_at(sorted, begin, begin);
  }
  const std::uint32_t run = sorted.bound(0, begin, entry, /*is_above=*/false);
  const std::uint32_t next = run + (begin - run + kPiece - 1) / kPiece * kPiece;
  if (sorted.is(next, entry)) {
    return piece_at(sorted, run, next);
  }
  const std::uint32_t end = next < sorted.size ? next : sorted.size;
  const std::uint32_t next_run = sorted.bound(begin, end, entry, /*is_above=*/true);
  return piece_at(sorted, next_run, next_run);
}

/// Returns the place of a piece's sum, for pieces of runs longer than kPiece. Among the rows from
/// one multiple of kPiece to the next, at most one such run can begin. At most one later piece of
/// such a run can begin there, too.
__device__ std::uint32_t piece_number(std::uint32_t run, std::uint32_t first) {
  return first / kPiece * 2 + (first == run ? 1U : 0U);
}

/// Sums, in block x, the pieces that begin in [x·kPiece, (x+1)·kPiece). The only piece of a run is
/// added to the gradient. Pieces of longer runs go to `pieces`.
template <class T, int kSize>
__global__ void __launch_bounds__(kThreads)
    sum_pieces_kernel(SortedRows sorted, const T* dy, float* gradient, float* pieces) {
  const std::uint32_t begin = blockIdx.x * kPiece;
  const std::int64_t column = (std::int64_t{blockIdx.y} * kThreads + threadIdx.x) * kSize;
  if (column >= sorted.width || sorted.entries[begin] == sorted.num_entries) {
    return;
  }
  const std::uint32_t range_end = begin + kPiece < sorted.size ? begin + kPiece : sorted.size;
  // A piece that follows another one in the range begins a run; the next piece of the same run
  // begins beyond the range.
  for (Piece piece = first_piece(sorted, begin); piece.first < range_end;
       piece = piece_at(sorted, piece.end, piece.end)) {
    const std::int32_t entry = sorted.entries[piece.first];
    if (entry == sorted.num_entries) {
      return;
    }
    float total[kSize] = {};
    for (std::uint32_t i = piece.first; i < piece.end; ++i) {
      add_elements(dy + sorted.rows[i] * sorted.width + column, total);
    }
    if (sorted.is(piece.run + kPiece, entry)) {
      add_to</*kReplaces=*/true>(
          pieces + piece_number(piece.run, piece.first) * sorted.width + column, total);
    } else {
      add_to(gradient + entry * sorted.width + column, total);
    }
  }
}

/// Adds, in block x, the pieces of the long run that begins in [x·kPiece, (x+1)·kPiece), if one
/// does.
template <int kSize>
__global__ void __launch_bounds__(kThreads)
    add_pieces_kernel(SortedRows sorted, const float* pieces, float* gradient) {
  const std::uint32_t begin = blockIdx.x * kPiece;
  const std::uint32_t range_end = begin + kPiece < sorted.size ? begin + kPiece : sorted.size;
  const std::int64_t column = (std::int64_t{blockIdx.y} * kThreads + threadIdx.x) * kSize;
  const std::int32_t entry = sorted.entries[range_end - 1];
  if (column >= sorted.width || entry == sorted.num_entries ||
      (begin > 0 && sorted.entries[begin - 1] == entry)) {
    return;
  }
  const std::uint32_t run = sorted.bound(begin, range_end, entry, /*is_above=*/false);
  if (!sorted.is(run + kPiece, entry)) {
    return;
  }
  const std::uint32_t end = sorted.bound(run + kPiece, sorted.size, entry, /*is_above=*/true);
  float total[kSize] = {};
  for (std::uint32_t first = run; first < end; first += kPiece) {
    add_elements(pieces + piece_number(run, first) * sorted.width + column, total);
  }
  add_to(gradient + entry * sorted.width + column, total);
}

/// Writes what is sorted: row numbers, and their entries in the table, or num_entries for entries
/// that other ranks hold.
__global__ void number_rows_kernel(const std::int32_t* ids, std::int64_t size, std::int64_t first,
                                   std::int64_t num_entries, std::int32_t* entries,
                                   std::int32_t* rows) {
  for (std::int64_t i = first_element(); i < size; i += num_threads()) {
    const std::int64_t entry = ids[i] - first;
    entries[i] = static_cast<std::int32_t>(entry >= 0 && entry < num_entries ? entry : num_entries);
    rows[i] = static_cast<std::int32_t>(i);
  }
}

/// How the scratch of an embedding's gradient is divided [B].
struct ScratchParts {
  std::int64_t numbers;  ///< Size of each of four lists of i32.
  std::int64_t pieces;   ///< Size of the sums of pieces.
  std::int64_t sorting;  ///< Size of the scratch of sorting.

  ScratchParts(std::int64_t rows, std::int64_t width)
      : numbers(aligned(rows * bytes_of(DataType::kInt32))),
        pieces(aligned(2 * num_ranges(rows) * width * bytes_of(DataType::kFloat32))),
        sorting(aligned(sort_by_key_scratch(rows))) {}

  [[nodiscard]] std::int64_t size() const { return 4 * numbers + pieces + sorting; }
  [[nodiscard]] static std::int64_t aligned(std::int64_t bytes) {
    constexpr std::int64_t alignment = 256;
    return (bytes + alignment - 1) / alignment * alignment;
  }
  [[nodiscard]] static std::int64_t num_ranges(std::int64_t rows) {
    return (rows + kPiece - 1) / kPiece;
  }
};

/// Queues the sorting of rows by entry. The result is in `scratch`.
SortedRows sort_rows(cudaStream_t stream, Buffer ids, std::int64_t first, std::int64_t num_entries,
                     std::int64_t width, std::byte* scratch) {
  const ScratchParts parts(ids.size, width);
  const auto list = [&](int number) {
    return reinterpret_cast<std::int32_t*>(scratch + number * parts.numbers);
  };
  launch(stream, walking_grid(ids.size), number_rows_kernel, elements<std::int32_t>(ids), ids.size,
         first, num_entries, list(0), list(1));
  const SortByKey pairs{
      .keys = list(0),
      .sorted_keys = list(2),
      .values = list(1),
      .sorted_values = list(3),
      .size = ids.size,
      .key_bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(num_entries)))};
  sort_by_key(stream, pairs, scratch + 4 * parts.numbers + parts.pieces);
  return {list(2), list(3), static_cast<std::uint32_t>(ids.size), num_entries, width};
}

void embedding(const Queue& queue, Buffer ids, Buffer table, std::int64_t first, Buffer out) {
  if (out.empty()) {
    return;
  }
  const std::int64_t width = out.size / ids.size;
  assert(out.size == ids.size * width && table.size % width == 0 && table.type == out.type);
  visit_working_type(out.type, [&]<class T>(T) {
    const auto launch_with = [&]<int kSize>(std::integral_constant<int, kSize>) {
      launch_matrix(
          queue.stream,
          LookupBody<T, kSize>{elements<std::int32_t>(ids), elements<T>(table), elements<T>(out),
                               first, table.size / width, width / kSize},
          ids.size, width / kSize);
    };
    visit_vector_size<T>(width, are_aligned(16, table.data, out.data), launch_with);
  });
}

void embedding_gradient(const Queue& queue, Buffer ids, Buffer dy, std::int64_t first,
                        Buffer gradient) {
  if (dy.empty()) {
    return;
  }
  const std::int64_t width = dy.size / ids.size;
  assert(dy.size == ids.size * width && gradient.size % width == 0);
  assert(ids.size < (std::int64_t{1} << 31U) && gradient.type == accumulator_of(dy.type));
  const ScratchParts parts(ids.size, width);
  const Tensor scratch = queue.scratch(parts.size());
  auto* const memory = static_cast<std::byte*>(scratch.buffer().data);
  const SortedRows sorted =
      sort_rows(queue.stream, ids, first, gradient.size / width, width, memory);
  auto* const pieces = reinterpret_cast<float*>(memory + 4 * parts.numbers);
  auto* const to = elements<float>(gradient);
  visit_working_type(dy.type, [&]<class T>(T) {
    const auto launch_with = [&]<int kSize>(std::integral_constant<int, kSize>) {
      const auto grid = [&](std::int64_t columns_of_thread) -> Grid {
        const std::int64_t columns = kThreads * columns_of_thread;
        return {.blocks = dim3(static_cast<unsigned>(ScratchParts::num_ranges(ids.size)),
                               static_cast<unsigned>((width + columns - 1) / columns))};
      };
      constexpr int kFloats = floats_at_once(kSize);
      launch(queue.stream, grid(kSize), sum_pieces_kernel<T, kSize>, sorted, elements<T>(dy), to,
             pieces);
      launch(queue.stream, grid(kFloats), add_pieces_kernel<kFloats>, sorted, pieces, to);
    };
    visit_vector_size<T>(width, are_aligned(16, to, dy.data), launch_with);
  });
}

void add_positions(const Queue& queue, Buffer x, Buffer positions, const TokenRange& range,
                   std::int64_t rows) {
  if (x.empty()) {
    return;
  }
  const std::int64_t width = x.size / rows;
  assert(x.size == rows * width && rows < (std::int64_t{1} << 31U));
  assert((range.position_of(rows - 1) + 1) * width <= positions.size);
  visit_working_type(x.type, [&]<class T>(T) {
    const auto launch_with = [&]<int kSize>(std::integral_constant<int, kSize>) {
      launch_matrix(queue.stream,
                    PositionBody<T, kSize>{elements<T>(x), elements<T>(positions), TokenRows(range),
                                           width / kSize},
                    rows, width / kSize);
    };
    visit_vector_size<T>(width, are_aligned(16, x.data, positions.data), launch_with);
  });
}

void position_gradient(const Queue& queue, Buffer dy, Buffer gradient, const TokenRange& range,
                       std::int64_t rows) {
  if (dy.empty()) {
    return;
  }
  const std::int64_t width = dy.size / rows;
  const std::int64_t num_positions = (rows + range.batch - 1) / range.batch;
  assert(dy.size == rows * width);
  assert((range.position_of(rows - 1) + 1) * width <= gradient.size);
  auto* const to = elements<float>(gradient);
  visit_working_type(dy.type, [&]<class T>(T) {
    const auto launch_with = [&]<int kSize>(std::integral_constant<int, kSize>) {
      launch_matrix(queue.stream,
                    PositionGradientBody<T, kSize>{elements<T>(dy), to, TokenRows(range), rows,
                                                   range.batch, width / kSize},
                    num_positions, width / kSize);
    };
    visit_vector_size<T>(width, are_aligned(16, to, dy.data), launch_with);
  });
}

}  // namespace

void add_embedding_kernels(Kernels& kernels) {
  kernel_of<&Backend::embedding>(kernels) = embedding;
  kernel_of<&Backend::embedding_gradient>(kernels) = embedding_gradient;
  kernel_of<&Backend::add_positions>(kernels) = add_positions;
  kernel_of<&Backend::position_gradient>(kernels) = position_gradient;
}

}  // namespace ptdp::cuda
