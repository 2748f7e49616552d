// Causal self-attention in tiles, with memory linear in the sequence. Source: Milakov & Gimelshein,
// Online normalizer calculation for softmax (arXiv:1805.02867).
#include <limits>

#include "kernels/cuda/attention_tiles.h"
#include "kernels/cuda/operations.h"

namespace ptdp::cuda {
namespace {

/// The running softmax of a thread's rows.
struct RunningSoftmax {
  float most[kTileRows];   ///< Maximum of the scores so far.
  float total[kTileRows];  ///< Σ e^(score − most) over the thread's columns.
};

/// Replaces scores by e^(score − most) and adds them to the totals. Earlier sums shrink to the new
/// maximum.
template <int kChunks>
__device__ void take_exponentials(Scores& scores, RunningSoftmax& softmax,
                                  VectorSums<kChunks>& sums) {
  for (int r = 0; r < kTileRows; ++r) {
    float most = softmax.most[r];
    for (const float score : scores.values[r]) {
      most = fmaxf(most, score);
    }
    most = maximum_of_row(most);
    const float shrink = expf(softmax.most[r] - most);
    softmax.most[r] = most;
    softmax.total[r] *= shrink;
    for (float& score : scores.values[r]) {
      score = expf(score - most);
      softmax.total[r] += score;
    }
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      for (float& sum : sums.values[chunk][r]) {
        sum *= shrink;
      }
    }
  }
}

/// Computes a tile of queries of one head of one sequence in each block.
template <class T, int kChunks>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kChunks))
    attend(AttentionCall call, const T* qkv, T* out, float* log_sum) {
  SharedTiles& shared = *dynamic_shared<SharedTiles>();
  const std::int64_t s = call.shape.seq_length;
  const std::int64_t tiles = (s + kTile - 1) / kTile;
  const HeadPlace head(call.shape, blockIdx.x / tiles);
  const HeadRows<const T> keys = head.rows_of_qkv(qkv, 1);
  // Blocks of the last queries begin first, since they have most to do.
  const std::int64_t first_query = (tiles - 1 - blockIdx.x % tiles) * kTile;
  VectorSums<kChunks> sums{};
  RunningSoftmax softmax{};
  for (float& most : softmax.most) {
    most = -std::numeric_limits<float>::infinity();
  }
  for (std::int64_t first_key = 0; first_key <= first_query; first_key += kTile) {
    Scores scores = inner_products(head.rows_of_qkv(qkv, 0), first_query, keys, first_key, shared);
    for_each_score([&](int r, int c) {
      const bool is_past = first_key + score_column(c) <= first_query + tile_row(r);
      scores.values[r][c] =
          is_past ? scores.values[r][c] * call.factor : -std::numeric_limits<float>::infinity();
    });
    take_exponentials(scores, softmax, sums);
    for_each_score([&](int r, int c) {
      scores.values[r][c] *=
          dropout_factor(call, head, first_query + tile_row(r), first_key + score_column(c));
    });
    add_weighted(scores, head.rows_of_qkv(qkv, 2), first_key, shared, sums);
  }
  float factors[kTileRows];
  for (int r = 0; r < kTileRows; ++r) {
    const float total = sum_of_row(softmax.total[r]);
    factors[r] = 1.0F / total;
    const std::int64_t query = first_query + tile_row(r);
    if (tile_lane() == 0 && query < s) {
      log_sum[head.place * s + query] = softmax.most[r] + logf(total);
    }
  }
  store_rows(sums, factors, first_query, head.rows_of_out(out));
}

void attention(const Queue& queue, const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum) {
  check_head_size(shape);
  if (qkv.empty()) {
    return;
  }
  visit_working_type(qkv.type, [&]<class T>(T) {
    const auto kernel = shape.head_size <= 2 * kTile ? attend<T, 2> : attend<T, 4>;
    launch(queue.stream, grid_of_tiles(shape), kernel, AttentionCall(shape), elements<T>(qkv),
           elements<T>(out), elements<float>(log_sum));
  });
}

}  // namespace

void add_attention_kernels(Kernels& kernels) {
  kernel_of<&Backend::attention>(kernels) = attention;
}

}  // namespace ptdp::cuda
