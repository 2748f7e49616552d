// Gradients of causal self-attention in tiles. Probabilities are recomputed from the log of their
// sums. Source: Dao et al., FlashAttention (arXiv:2205.14135), algorithm 4, with one kernel over
// queries and one over keys, so that no two blocks add to the same gradient.
#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/operations.h"

namespace ptdp::cuda {
namespace {

/// What the backward pass reads.
template <class T>
struct BackwardInputs {
  const T* qkv;
  const T* out;
  const T* dout;
  const float* log_sum;
};

/// A query and a key, with what the backward pass needs of the query.
struct PairOfTokens {
  std::int64_t query;
  std::int64_t key;
  float log_sum;
  float inner;  ///< Σ out·dout of the query, which equals Σ p·dp.
};

/// Turns an unscaled score p and the gradient dp of its masked probability into the masked
/// probability and the gradient of the unscaled score.
__device__ void take_gradients(const AttentionCall& call, const HeadPlace& head,
                               const PairOfTokens& pair, float& p, float& dp) {
  if (pair.query >= call.shape.seq_length || pair.key > pair.query) {
    p = 0.0F;
    dp = 0.0F;
    return;
  }
  const float probability = expf(p * call.factor - pair.log_sum);
  const float mask = dropout_factor(call, head, pair.query, pair.key);
  dp = probability * (dp * mask - pair.inner) * call.factor;
  p = probability * mask;
}

/// Computes Σ out·dout of a thread's rows from `first` on, in all threads that share them.
template <class T>
__device__ void inner_of_rows(const HeadRows<const T>& out, const HeadRows<const T>& dout,
                              std::int64_t first, float (&inner)[kTileRows]) {
  for (int r = 0; r < kTileRows; ++r) {
    const std::int64_t row = first + tile_row(r);
    float sum = 0.0F;
    for (std::int64_t c = tile_lane(); row < out.count && c < out.size; c += kTileLanes) {
      sum += widen(out.first[row * out.stride + c]) * widen(dout.first[row * dout.stride + c]);
    }
    inner[r] = sum_of_row(sum);
  }
}

/// Writes the gradients of a tile of queries to dq, laid out as out, and the inner products of the
/// rows.
template <class T, int kChunks>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kChunks))
    query_gradients(AttentionCall call, BackwardInputs<T> inputs, T* dq, float* inner_products_to) {
  SharedTiles& shared = *dynamic_shared<SharedTiles>();
  const std::int64_t s = call.shape.seq_length;
  const std::int64_t tiles = (s + kTile - 1) / kTile;
  const HeadPlace head(call.shape, blockIdx.x / tiles);
  const std::int64_t first_query = (tiles - 1 - blockIdx.x % tiles) * kTile;
  const HeadRows<const T> keys = head.rows_of_qkv(inputs.qkv, 1);
  const HeadRows<const T> douts = head.rows_of_out(inputs.dout);
  float inner[kTileRows];
  float log_sum[kTileRows];
  inner_of_rows(head.rows_of_out(inputs.out), douts, first_query, inner);
  for (int r = 0; r < kTileRows; ++r) {
    const std::int64_t query = first_query + tile_row(r);
    log_sum[r] = query < s ? inputs.log_sum[head.place * s + query] : 0.0F;
    if (tile_lane() == 0 && query < s) {
      inner_products_to[head.place * s + query] = inner[r];
    }
  }
  VectorSums<kChunks> sums{};
  for (std::int64_t first_key = 0; first_key <= first_query; first_key += kTile) {
    Scores p =
        inner_products(head.rows_of_qkv(inputs.qkv, 0), first_query, keys, first_key, shared);
    Scores dp =
        inner_products(douts, first_query, head.rows_of_qkv(inputs.qkv, 2), first_key, shared);
    for_each_score([&](int r, int c) {
      const PairOfTokens pair = {first_query + tile_row(r), first_key + score_column(c), log_sum[r],
                                 inner[r]};
      take_gradients(call, head, pair, p.values[r][c], dp.values[r][c]);
    });
    add_weighted(dp, keys, first_key, shared, sums);
  }
  const float factors[kTileRows] = {1.0F, 1.0F, 1.0F, 1.0F};
  store_rows(sums, factors, first_query, head.rows_of_out(dq));
}

/// Writes the gradients of a tile of keys and values. dqkv may be qkv: only this block reads these
/// keys and values, and no block writes queries.
template <class T, int kChunks>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kChunks))
    key_gradients(AttentionCall call, BackwardInputs<T> inputs, const float* inner, T* dqkv) {
  SharedTiles& shared = *dynamic_shared<SharedTiles>();
  const std::int64_t s = call.shape.seq_length;
  const std::int64_t tiles = (s + kTile - 1) / kTile;
  const HeadPlace head(call.shape, blockIdx.x / tiles);
  const std::int64_t first_key = blockIdx.x % tiles * kTile;
  const HeadRows<const T> queries = head.rows_of_qkv(inputs.qkv, 0);
  const HeadRows<const T> douts = head.rows_of_out(inputs.dout);
  VectorSums<kChunks> dk{};
  VectorSums<kChunks> dv{};
  for (std::int64_t first_query = first_key; first_query < s; first_query += kTile) {
    Scores p =
        inner_products(head.rows_of_qkv(inputs.qkv, 1), first_key, queries, first_query, shared);
    Scores dp =
        inner_products(head.rows_of_qkv(inputs.qkv, 2), first_key, douts, first_query, shared);
    for_each_score([&](int r, int c) {
      const std::int64_t query = first_query + score_column(c);
      const std::int64_t row = head.place * s + (query < s ? query : 0);
      const PairOfTokens pair = {query, first_key + tile_row(r), inputs.log_sum[row], inner[row]};
      take_gradients(call, head, pair, p.values[r][c], dp.values[r][c]);
    });
    add_weighted(p, douts, first_query, shared, dv);
    add_weighted(dp, queries, first_query, shared, dk);
  }
  const float factors[kTileRows] = {1.0F, 1.0F, 1.0F, 1.0F};
  store_rows(dk, factors, first_key, head.rows_of_qkv(dqkv, 1));
  store_rows(dv, factors, first_key, head.rows_of_qkv(dqkv, 2));
}

/// Copies vectors of `width` units each to the places of queries in dqkv, which are every third.
template <class Unit>
__global__ void store_queries(const Unit* dq, Unit* dqkv, std::int64_t width, std::int64_t count) {
  for (std::int64_t i = first_element(); i < count; i += num_threads()) {
    dqkv[i / width * 3 * width + i % width] = dq[i];
  }
}

/// Queues the copy of dq to the queries of dqkv, in units of 16 bytes if possible.
template <class T>
void queue_store_queries(cudaStream_t stream, const Attention& shape, const T* dq, T* dqkv,
                         std::int64_t count) {
  using Unit = Vector<T, kVectorSize<T>>;
  const std::int64_t d = shape.head_size;
  if (d % kVectorSize<T> == 0 && are_aligned(sizeof(Unit), dq, dqkv)) {
    const std::int64_t units = count / kVectorSize<T>;
    launch(stream, walking_grid(units), store_queries<Unit>, reinterpret_cast<const Unit*>(dq),
           reinterpret_cast<Unit*>(dqkv), d / kVectorSize<T>, units);
  } else {
    launch(stream, walking_grid(count), store_queries<T>, dq, dqkv, d, count);
  }
}

/// Returns the size of the gradients of queries, which come first in the scratch, before the inner
/// products of rows [B].
std::int64_t bytes_of_dq(const Attention& shape, DataType type) {
  constexpr std::int64_t alignment = 16;
  const std::int64_t bytes =
      shape.seq_length * shape.batch * shape.heads * shape.head_size * bytes_of(type);
  return (bytes + alignment - 1) / alignment * alignment;
}

void attention_backward(const Queue& queue, const Attention& shape, Buffer qkv, Buffer out,
                        Buffer log_sum, Buffer dout, Buffer dqkv) {
  check_head_size(shape);
  if (qkv.empty()) {
    return;
  }
  const std::int64_t dq_bytes = bytes_of_dq(shape, qkv.type);
  const std::int64_t rows = shape.seq_length * shape.batch * shape.heads;
  const Tensor scratch = queue.scratch(dq_bytes + rows * bytes_of(DataType::kFloat32));
  auto* const memory = static_cast<std::byte*>(scratch.buffer().data);
  visit_working_type(qkv.type, [&]<class T>(T) {
    const AttentionCall call(shape);
    const Grid grid = grid_of_tiles(shape);
    const BackwardInputs<T> inputs = {elements<T>(qkv), elements<T>(out), elements<T>(dout),
                                      elements<float>(log_sum)};
    auto* const dq = reinterpret_cast<T*>(memory);
    auto* const inner = reinterpret_cast<float*>(memory + dq_bytes);
    const bool is_narrow = shape.head_size <= 2 * kTile;
    launch(queue.stream, grid, is_narrow ? query_gradients<T, 2> : query_gradients<T, 4>, call,
           inputs, dq, inner);
    launch(queue.stream, grid, is_narrow ? key_gradients<T, 2> : key_gradients<T, 4>, call, inputs,
           inner, elements<T>(dqkv));
    queue_store_queries(queue.stream, shape, dq, elements<T>(dqkv), out.size);
  });
}

}  // namespace

void add_attention_backward_kernels(Kernels& kernels) {
  kernel_of<&Backend::attention_backward>(kernels) = attention_backward;
}

}  // namespace ptdp::cuda
