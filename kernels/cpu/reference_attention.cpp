// Follows the definition of attention step by step, in f64, without regard to speed.
#include "kernels/cpu/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/counter_random.h"

namespace ptdp {
namespace {

/// A matrix with one row per position.
struct Matrix {
  explicit Matrix(std::int64_t num_rows, std::int64_t num_columns)
      : rows(num_rows), columns(num_columns), values(static_cast<std::size_t>(rows * columns)) {}
  [[nodiscard]] double& operator()(std::int64_t row, std::int64_t column) {
    return values[static_cast<std::size_t>(row * columns + column)];
  }
  [[nodiscard]] double operator()(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * columns + column)];
  }

  std::int64_t rows;
  std::int64_t columns;
  std::vector<double> values;
};

/// Returns the matrix product a·b.
Matrix product(const Matrix& a, const Matrix& b) {
  Matrix c(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t k = 0; k < a.columns; ++k) {
      for (std::int64_t j = 0; j < b.columns; ++j) {
        c(i, j) += a(i, k) * b(k, j);
      }
    }
  }
  return c;
}

Matrix transposed(const Matrix& a) {
  Matrix b(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.columns; ++j) {
      b(j, i) = a(i, j);
    }
  }
  return b;
}

/// One head of one sequence.
struct Head {
  std::int64_t sample = 0;
  std::int64_t head = 0;
};

/// Where one head's vectors lie: vector number `vector` of the `of_token` vectors of each token.
struct Place {
  std::int64_t sample = 0;
  std::int64_t vector = 0;
  std::int64_t of_token = 0;
};
/// Where the queries, the keys, the values and the outputs of a head lie.
struct Places {
  Places(const Attention& shape, const Head& at) {
    const std::int64_t of_token = shape.heads + 2 * shape.key_heads;
    const std::int64_t key_head = at.head / (shape.heads / shape.key_heads);
    queries = {at.sample, at.head, of_token};
    keys = {at.sample, shape.heads + key_head, of_token};
    values = {at.sample, shape.heads + shape.key_heads + key_head, of_token};
    outputs = {at.sample, at.head, shape.heads};
  }

  Place queries, keys, values, outputs;
};

/// Returns the offset of the vector of a position.
std::int64_t first_of(const Attention& shape, const Place& place, std::int64_t position) {
  const std::int64_t token = position * shape.batch + place.sample;
  return (token * place.of_token + place.vector) * shape.head_size;
}

/// Returns the vectors of a place, one row per position.
Matrix gather(const Attention& shape, std::span<const double> from, const Place& place) {
  Matrix to(shape.seq_length, shape.head_size);
  for (std::int64_t i = 0; i < to.rows; ++i) {
    for (std::int64_t c = 0; c < to.columns; ++c) {
      to(i, c) = from[static_cast<std::size_t>(first_of(shape, place, i) + c)];
    }
  }
  return to;
}

/// Adds to the vectors of a place, one row per position. Heads that share keys add up.
void scatter(const Attention& shape, const Matrix& from, const Place& place, std::span<double> to) {
  for (std::int64_t i = 0; i < from.rows; ++i) {
    for (std::int64_t c = 0; c < from.columns; ++c) {
      to[static_cast<std::size_t>(first_of(shape, place, i) + c)] += from(i, c);
    }
  }
}

/// Returns whether query i sees key j.
bool is_seen(const Attention& shape, std::int64_t i, std::int64_t j) {
  return j <= i && (shape.window == 0 || j > i - shape.window);
}

/// Softmax of the scores of the keys that are seen, with the derivatives of these scores by inner
/// products, the dropout mask and the log of the sums.
struct Probabilities {
  Matrix p;
  Matrix slope;
  Matrix mask;
  std::vector<double> log_sum;
};

/// Replaces the inner products of a query by scores and sets their derivatives. Returns the maximum
/// over the keys that it sees.
double take_scores(const Attention& shape, std::int64_t i, Probabilities& of) {
  double most = -HUGE_VAL;
  for (std::int64_t j = 0; j < of.p.columns; ++j) {
    const double plain = shape.scale * of.p(i, j);
    const double part = shape.soft_cap > 0.0 ? std::tanh(plain / shape.soft_cap) : 0.0;
    of.p(i, j) = shape.soft_cap > 0.0 ? shape.soft_cap * part : plain;
    of.slope(i, j) = shape.scale * (1.0 - part * part);
    most = is_seen(shape, i, j) ? std::max(most, of.p(i, j)) : most;
  }
  return most;
}

/// Returns the probabilities of a head from its queries and keys.
Probabilities probabilities(const Attention& shape, const Head& at, const Matrix& q,
                            const Matrix& k) {
  const std::int64_t s = shape.seq_length;
  Probabilities result{product(q, transposed(k)), Matrix(s, s), Matrix(s, s), {}};
  const std::int64_t head =
      (shape.first_sample + at.sample) * shape.total_heads + shape.first_head + at.head;
  const std::uint32_t threshold = dropout_threshold(shape.dropout.probability);
  for (std::int64_t i = 0; i < s; ++i) {
    const double most = take_scores(shape, i, result);
    double sum = 0.0;
    for (std::int64_t j = 0; j < s; ++j) {
      result.p(i, j) = is_seen(shape, i, j) ? std::exp(result.p(i, j) - most) : 0.0;
      sum += result.p(i, j);
      const auto element = static_cast<std::uint64_t>((head * s + i) * s + j);
      const bool is_dropped = random_word(shape.dropout.key, element) < threshold;
      result.mask(i, j) = is_dropped ? 0.0 : 1.0 / (1.0 - shape.dropout.probability);
    }
    for (std::int64_t j = 0; j < s; ++j) {
      result.p(i, j) /= sum;
    }
    result.log_sum.push_back(most + std::log(sum));
  }
  return result;
}

/// Returns the product of two matrices element by element.
Matrix elementwise_product(Matrix a, const Matrix& b) {
  std::transform(a.values.begin(), a.values.end(), b.values.begin(), a.values.begin(),
                 std::multiplies<>());
  return a;
}

/// Adds the gradients of one head's queries, and its share of those of its keys and values.
void add_gradients(const Attention& shape, const Head& at, std::span<const double> qkv,
                   std::span<const double> dout, std::span<double> dqkv) {
  const Places places(shape, at);
  const Matrix q = gather(shape, qkv, places.queries);
  const Matrix k = gather(shape, qkv, places.keys);
  const Matrix v = gather(shape, qkv, places.values);
  const Matrix dy = gather(shape, dout, places.outputs);
  const Probabilities all = probabilities(shape, at, q, k);
  const Matrix dp = elementwise_product(product(dy, transposed(v)), all.mask);
  // Gradient of softmax: ds = p·(dp − Σ p·dp), over each row.
  Matrix ds = elementwise_product(all.p, dp);
  for (std::int64_t i = 0; i < ds.rows; ++i) {
    double inner = 0.0;
    for (std::int64_t j = 0; j < ds.columns; ++j) {
      inner += ds(i, j);
    }
    for (std::int64_t j = 0; j < ds.columns; ++j) {
      ds(i, j) = all.slope(i, j) * (ds(i, j) - inner * all.p(i, j));
    }
  }
  scatter(shape, product(ds, k), places.queries, dqkv);
  scatter(shape, product(transposed(ds), q), places.keys, dqkv);
  scatter(shape, product(transposed(elementwise_product(all.p, all.mask)), dy), places.values,
          dqkv);
}

}  // namespace

void reference_attention(const Attention& shape, std::span<const double> qkv, std::span<double> out,
                         std::span<double> log_sum) {
  std::fill(out.begin(), out.end(), 0.0);
  for (Head at; at.sample < shape.batch; ++at.sample) {
    for (at.head = 0; at.head < shape.heads; ++at.head) {
      const Places places(shape, at);
      const Probabilities all = probabilities(shape, at, gather(shape, qkv, places.queries),
                                              gather(shape, qkv, places.keys));
      scatter(shape,
              product(elementwise_product(all.p, all.mask), gather(shape, qkv, places.values)),
              places.outputs, out);
      std::copy(all.log_sum.begin(), all.log_sum.end(),
                log_sum.begin() + (at.sample * shape.heads + at.head) * shape.seq_length);
    }
  }
}

void reference_attention_backward(const Attention& shape, std::span<const double> qkv,
                                  std::span<const double> dout, std::span<double> dqkv) {
  std::fill(dqkv.begin(), dqkv.end(), 0.0);
  for (Head at; at.sample < shape.batch; ++at.sample) {
    for (at.head = 0; at.head < shape.heads; ++at.head) {
      add_gradients(shape, at, qkv, dout, dqkv);
    }
  }
}

}  // namespace ptdp
