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
    // While a row has seen no key, its sums are 0 and must stay so.
    const float base = most > -std::numeric_limits<float>::infinity() ? most : 0.0F;
    const float shrink = expf(softmax.most[r] - base);
    softmax.most[r] = most;
    softmax.total[r] *= shrink;
    for (float& score : scores.values[r]) {
      score = expf(score - base);
      softmax.total[r] += score;
    }
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      for (float& sum : sums.values[chunk][r]) {
        sum *= shrink;
      }
    }
  }
}

/// The vectors of a forward pass.
template <class T>
struct ForwardVectors {
  TokenVectors<const T> q;
  TokenVectors<const T> k;
  TokenVectors<const T> v;
  TokenVectors<T> out;
};

/// Computes a tile of queries of one head of one sequence in each block.
template <class T, int kChunks>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kChunks))
    attend(Scoring scoring, ForwardVectors<T> vectors, float* log_sum) {
  SharedTiles& shared = *dynamic_shared<SharedTiles>();
  const int s = scoring.length;
  const int tiles = (s + kTile - 1) / kTile;
  const HeadPlace head(scoring.shape, static_cast<int>(blockIdx.x) / tiles);
  // Blocks of the last queries begin first, since they have most to do.
  const int first_query = (tiles - 1 - static_cast<int>(blockIdx.x) % tiles) * kTile;
  VectorSums<kChunks> sums{};
  RunningSoftmax softmax{};
  for (float& most : softmax.most) {
    most = -std::numeric_limits<float>::infinity();
  }
  for (int first_key = scoring.first_key(first_query); first_key <= first_query;
       first_key += kTile) {
    Scores scores = inner_products(head.rows(vectors.q), first_query, head.key_rows(vectors.k),
                                   first_key, shared);
    for_each_score([&](int r, int c) {
      const bool is_seen = scoring.sees(first_query + tile_row(r), first_key + score_column(c));
      scores.values[r][c] =
          is_seen ? scoring.score(scores.values[r][c]) : -std::numeric_limits<float>::infinity();
    });
    take_exponentials(scores, softmax, sums);
    for_each_score([&](int r, int c) {
      scores.values[r][c] *=
          dropout_factor(scoring, head, first_query + tile_row(r), first_key + score_column(c));
    });
    share(scores, shared.weights);
    add_weighted(shared.weights, head.key_rows(vectors.v), first_key, shared.columns, sums);
  }
  float factors[kTileRows];
  for (int r = 0; r < kTileRows; ++r) {
    const float total = sum_of_row(softmax.total[r]);
    factors[r] = 1.0F / total;
    const int query = first_query + tile_row(r);
    if (tile_lane() == 0 && query < s) {
      log_sum[std::int64_t{head.place} * s + query] = softmax.most[r] + logf(total);
    }
  }
  store_rows(sums, factors, first_query, head.rows(vectors.out), shared.columns);
}

void attention(const Queue& queue, const AttentionCall& call) {
  const Attention& shape = call.shape;
  check_head_size(shape);
  if (call.out.empty()) {
    return;
  }
  visit_working_type(call.out.type, [&]<class T>(T) {
    const ForwardVectors<T> vectors{
        vectors_of<const T>(call.q, shape), vectors_of<const T>(call.k, shape),
        vectors_of<const T>(call.v, shape), vectors_of(elements<T>(call.out), shape)};
    const auto kernel = shape.head_size <= 2 * kTile ? attend<T, 2> : attend<T, 4>;
    launch(queue.stream, grid_of_tiles(shape, shape.heads), kernel, Scoring(shape), vectors,
           elements<float>(call.log_sum));
  });
}

}  // namespace

void add_attention_kernels(Kernels& kernels) {
  kernel_of<&Backend::attention>(kernels) = attention;
}

}  // namespace ptdp::cuda
