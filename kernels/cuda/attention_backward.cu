// Gradients of causal self-attention in tiles. Probabilities are recomputed from the log of their
// sums. Source: Dao et al., FlashAttention (arXiv:2205.14135), algorithm 4, with one kernel over
// queries and one over keys, so that no two blocks add to the same gradient.
#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/vectors.h"

namespace ptdp::cuda {
namespace {

/// What the backward pass reads.
template <class T>
struct BackwardInputs {
  TokenVectors<const T> q;
  TokenVectors<const T> k;
  TokenVectors<const T> v;
  TokenVectors<const T> out;
  TokenVectors<const T> dout;
  const float* log_sum;
};

/// What the backward pass knows of each query of a head.
struct QueryNumbers {
  const float* log_sum;  ///< Logarithm of its softmax's denominator.
  const float* inner;    ///< Σ out·dout, which equals Σ p·dp.
};

/// Turns the inner product p of a query and a key, and the gradient dp of its masked probability,
/// into the masked probability and the gradient of the inner product.
__device__ void take_gradient(const Scoring& scoring, const HeadPlace& head,
                              const QueryNumbers& numbers, int query, int key, float& p,
                              float& dp) {
  if (query >= scoring.length || !scoring.sees(query, key)) {
    p = 0.0F;
    dp = 0.0F;
    return;
  }
  const float score = scoring.score(p);
  const float probability = expf(score - numbers.log_sum[query]);
  const float mask = dropout_factor(scoring, head, query, key);
  dp = probability * (dp * mask - numbers.inner[query]) * scoring.derivative(score);
  p = probability * mask;
}

/// Takes the gradients of a thread's part of a tile, whose rows are queries or keys, in shared
/// memory: `weights` holds p, and `rows` dp.
template <bool kRowsAreQueries>
__device__ void take_gradients(const Scoring& scoring, const HeadPlace& head,
                               const QueryNumbers& numbers, int first_query, int first_key,
                               SharedTiles& shared) {
#ifdef __CUDACC__
#pragma unroll 1  // Registers are scarce.
#endif
  for (int r = 0; r < kTileRows; ++r) {
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int c = 0; c < kTileColumns; ++c) {
      const int row = tile_row(r);
      const int column = score_column(c);
      take_gradient(scoring, head, numbers, first_query + (kRowsAreQueries ? row : column),
                    first_key + (kRowsAreQueries ? column : row), shared.weights.at(row, column),
                    shared.rows.at(row, column));
    }
  }
}

/// Writes Σ out·dout of the queries of a tile.
template <class T>
__device__ void write_inner(const HeadRows<const T>& out, const HeadRows<const T>& dout,
                            int first_query, float* inner) {
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (int r = 0; r < kTileRows; ++r) {
    const int query = first_query + tile_row(r);
    float sum = 0.0F;
    for (int c = tile_lane() * kVectorSize<T>; c < out.size; c += kTileLanes * kVectorSize<T>) {
      const Packed<T> of_out = chunk_of(out, query, c);
      const Packed<T> of_dout = chunk_of(dout, query, c);
#ifdef __CUDACC__
#pragma unroll
#endif
      for (int j = 0; j < kVectorSize<T>; ++j) {
        sum += of_out[j] * of_dout[j];
      }
    }
    sum = sum_of_row(sum);
    if (tile_lane() == 0 && query < out.count) {
      inner[query] = sum;
    }
  }
}

/// Writes the gradients of a tile of queries, and the inner products of the rows.
template <class T, int kChunks>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kChunks))
    query_gradients(Scoring scoring, BackwardInputs<T> inputs, TokenVectors<T> dq, float* inner) {
  SharedTiles& shared = *dynamic_shared<SharedTiles>();
  const int s = scoring.length;
  const int tiles = (s + kTile - 1) / kTile;
  const HeadPlace head(scoring.shape, static_cast<int>(blockIdx.x) / tiles);
  const int first_query = (tiles - 1 - static_cast<int>(blockIdx.x) % tiles) * kTile;
  const HeadRows<const T> keys = head.key_rows(inputs.k);
  const HeadRows<const T> douts = head.rows(inputs.dout);
  const std::int64_t first_row = std::int64_t{head.place} * s;
  // The block's threads read it after they have met in inner_products().
  write_inner(head.rows(inputs.out), douts, first_query, inner + first_row);
  VectorSums<kChunks> sums{};
  for (int first_key = scoring.first_key(first_query); first_key <= first_query;
       first_key += kTile) {
    share(inner_products(head.rows(inputs.q), first_query, keys, first_key, shared),
          shared.weights);
    share(inner_products(douts, first_query, head.key_rows(inputs.v), first_key, shared),
          shared.rows);
    take_gradients</*kRowsAreQueries=*/true>(scoring, head,
                                             {inputs.log_sum + first_row, inner + first_row},
                                             first_query, first_key, shared);
    add_weighted(shared.rows, keys, first_key, shared.columns, sums);
  }
  const float factors[kTileRows] = {1.0F, 1.0F, 1.0F, 1.0F};
  store_rows(sums, factors, first_query, head.rows(dq), shared.columns);
}

/// Writes the gradients of a tile of keys and values of one key head: sums over the queries of its
/// query heads, head by head. They may replace keys and values, since only this block reads these,
/// and no block writes queries.
template <class T, int kChunks>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kChunks))
    key_gradients(Scoring scoring, BackwardInputs<T> inputs, const float* inner,
                  TokenVectors<T> dk_to, TokenVectors<T> dv_to) {
  SharedTiles& shared = *dynamic_shared<SharedTiles>();
  const Attention& shape = scoring.shape;
  const int s = scoring.length;
  const int tiles = (s + kTile - 1) / kTile;
  const int key_place = static_cast<int>(blockIdx.x) / tiles;
  const int sequence = key_place / static_cast<int>(shape.key_heads);
  const int key_head = key_place % static_cast<int>(shape.key_heads);
  const int heads_each = static_cast<int>(shape.heads / shape.key_heads);
  const int first_key = static_cast<int>(blockIdx.x) % tiles * kTile;
  const HeadRows<const T> keys = inputs.k.of(shape, sequence, key_head);
  const HeadRows<const T> values = inputs.v.of(shape, sequence, key_head);
  const int end_of_queries = scoring.end_of_queries(first_key);
  VectorSums<kChunks> dk{};
  VectorSums<kChunks> dv{};
  for (int of_group = 0; of_group < heads_each; ++of_group) {
    const HeadPlace head(shape, key_place * heads_each + of_group);
    const HeadRows<const T> queries = head.rows(inputs.q);
    const HeadRows<const T> douts = head.rows(inputs.dout);
    const std::int64_t first_row = std::int64_t{head.place} * s;
    for (int first_query = first_key; first_query < end_of_queries; first_query += kTile) {
      share(inner_products(keys, first_key, queries, first_query, shared), shared.weights);
      share(inner_products(values, first_key, douts, first_query, shared), shared.rows);
      take_gradients</*kRowsAreQueries=*/false>(scoring, head,
                                                {inputs.log_sum + first_row, inner + first_row},
                                                first_query, first_key, shared);
      add_weighted(shared.weights, douts, first_query, shared.columns, dv);
      add_weighted(shared.rows, queries, first_query, shared.columns, dk);
    }
  }
  const float factors[kTileRows] = {1.0F, 1.0F, 1.0F, 1.0F};
  store_rows(dk, factors, first_key, dk_to.of(shape, sequence, key_head), shared.columns);
  store_rows(dv, factors, first_key, dv_to.of(shape, sequence, key_head), shared.columns);
}

/// Copies rows that follow each other to rows with a stride.
template <class T, int kSize>
struct RowCopyBody {
  const T* from;
  T* to;
  std::int64_t stride;

  using Loaded = Vector<T, kSize>;
  __device__ Loaded load(const Place& place) const { return cuda::load<kSize>(from, place.number); }
  __device__ void finish(const Place& place, const Loaded& loaded) const {
    store(to + place.row * stride, place.column, loaded);
  }
};

/// Returns the size of the gradients of queries, which come first in the scratch, before the inner
/// products of rows [B]. They need no scratch if they do not replace the queries.
std::int64_t bytes_of_dq(const AttentionBackwardCall& call) {
  constexpr std::int64_t alignment = 16;
  const bool is_apart = call.dq.elements.data == call.q.elements.data;
  return is_apart ? (call.out.bytes() + alignment - 1) / alignment * alignment : 0;
}

void attention_backward(const Queue& queue, const AttentionBackwardCall& call) {
  const Attention& shape = call.shape;
  check_head_size(shape);
  if (call.out.empty()) {
    return;
  }
  const std::int64_t dq_bytes = bytes_of_dq(call);
  const std::int64_t tokens = shape.seq_length * shape.batch;
  const Tensor scratch =
      queue.scratch(dq_bytes + tokens * shape.heads * bytes_of(DataType::kFloat32));
  auto* const memory = static_cast<std::byte*>(scratch.buffer().data);
  const Buffer apart{memory, call.out.size, call.out.type};
  visit_working_type(call.out.type, [&]<class T>(T) {
    const Scoring scoring(shape);
    const BackwardInputs<T> inputs = {vectors_of<const T>(call.q, shape),
                                      vectors_of<const T>(call.k, shape),
                                      vectors_of<const T>(call.v, shape),
                                      vectors_of<const T>(elements<T>(call.out), shape),
                                      vectors_of<const T>(elements<T>(call.dout), shape),
                                      elements<float>(call.log_sum)};
    const TokenVectors<T> dq =
        dq_bytes > 0 ? vectors_of(elements<T>(apart), shape) : vectors_of<T>(call.dq, shape);
    auto* const inner = reinterpret_cast<float*>(memory + dq_bytes);
    const bool is_narrow = shape.head_size <= 2 * kTile;
    launch(queue.stream, grid_of_tiles(shape, shape.heads),
           is_narrow ? query_gradients<T, 2> : query_gradients<T, 4>, scoring, inputs, dq, inner);
    launch(queue.stream, grid_of_tiles(shape, shape.key_heads),
           is_narrow ? key_gradients<T, 2> : key_gradients<T, 4>, scoring, inputs, inner,
           vectors_of<T>(call.dk, shape), vectors_of<T>(call.dv, shape));
  });
  if (dq_bytes > 0) {
    copy_rows(queue.stream, apart, call.dq, tokens);
  }
}

}  // namespace

void copy_rows(cudaStream_t stream, Buffer from, const VectorRows& to, std::int64_t rows) {
  const std::int64_t width = from.size / rows;
  visit_working_type(from.type, [&]<class T>(T) {
    T* const first = elements<T>(to.elements);
    const auto launch_with = [&]<int kSize>(std::integral_constant<int, kSize>) {
      launch_matrix(stream, RowCopyBody<T, kSize>{elements<T>(from), first, to.stride}, rows,
                    width / kSize);
    };
    const bool is_aligned = to.stride % kVectorSize<T> == 0 && are_aligned(16, from.data, first);
    visit_vector_size<T>(width, is_aligned, launch_with);
  });
}

void add_attention_backward_kernels(Kernels& kernels) {
  kernel_of<&Backend::attention_backward>(kernels) = attention_backward;
}

}  // namespace ptdp::cuda
