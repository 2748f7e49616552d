// Follows the definition of attention step by step, in f64, without regard to speed.
#include "kernels/cpu/reference_attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
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

/// Returns the offset of vector number `which` of `of_each` of a head at a position.
std::int64_t first_of(const Attention& shape, const Head& at, std::int64_t position,
                      std::int64_t which, std::int64_t of_each) {
  const std::int64_t token = position * shape.batch + at.sample;
  return ((token * shape.heads + at.head) * of_each + which) * shape.head_size;
}

/// Returns a head's vectors number `which` of `of_each`, one row per position.
Matrix gather(const Attention& shape, const Head& at, std::span<const double> from,
              std::int64_t which, std::int64_t of_each) {
  Matrix to(shape.seq_length, shape.head_size);
  for (std::int64_t i = 0; i < to.rows; ++i) {
    for (std::int64_t c = 0; c < to.columns; ++c) {
      to(i, c) = from[static_cast<std::size_t>(first_of(shape, at, i, which, of_each) + c)];
    }
  }
  return to;
}

/// Writes a head's vectors number `which` of `of_each`, one row per position.
void scatter(const Attention& shape, const Head& at, const Matrix& from, std::int64_t which,
             std::int64_t of_each, std::span<double> to) {
  for (std::int64_t i = 0; i < from.rows; ++i) {
    for (std::int64_t c = 0; c < from.columns; ++c) {
      to[static_cast<std::size_t>(first_of(shape, at, i, which, of_each) + c)] = from(i, c);
    }
  }
}

/// Returns 1/√d.
double root_factor(const Attention& shape) {
  return 1.0 / std::sqrt(static_cast<double>(shape.head_size));
}

/// Softmax of the scores up to the diagonal, with its dropout mask and the log of its sums.
struct Probabilities {
  Matrix p;
  Matrix mask;
  std::vector<double> log_sum;
};
/// Returns the probabilities of a head from its queries and keys.
Probabilities probabilities(const Attention& shape, const Head& at, const Matrix& q,
                            const Matrix& k) {
  const std::int64_t s = shape.seq_length;
  Probabilities result{product(q, transposed(k)), Matrix(s, s), {}};
  const std::int64_t head =
      (shape.first_sample + at.sample) * shape.total_heads + shape.first_head + at.head;
  const std::uint32_t threshold = dropout_threshold(shape.dropout.probability);
  for (std::int64_t i = 0; i < s; ++i) {
    double most = -HUGE_VAL;
    for (std::int64_t j = 0; j <= i; ++j) {
      result.p(i, j) *= root_factor(shape);
      most = std::max(most, result.p(i, j));
    }
    double sum = 0.0;
    for (std::int64_t j = 0; j < s; ++j) {
      result.p(i, j) = j <= i ? std::exp(result.p(i, j) - most) : 0.0;
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

}  // namespace

void reference_attention(const Attention& shape, std::span<const double> qkv, std::span<double> out,
                         std::span<double> log_sum) {
  for (Head at; at.sample < shape.batch; ++at.sample) {
    for (at.head = 0; at.head < shape.heads; ++at.head) {
      const Probabilities all =
          probabilities(shape, at, gather(shape, at, qkv, 0, 3), gather(shape, at, qkv, 1, 3));
      scatter(shape, at,
              product(elementwise_product(all.p, all.mask), gather(shape, at, qkv, 2, 3)), 0, 1,
              out);
      std::copy(all.log_sum.begin(), all.log_sum.end(),
                log_sum.begin() + (at.sample * shape.heads + at.head) * shape.seq_length);
    }
  }
}

void reference_attention_backward(const Attention& shape, std::span<const double> qkv,
                                  std::span<const double> dout, std::span<double> dqkv) {
  for (Head at; at.sample < shape.batch; ++at.sample) {
    for (at.head = 0; at.head < shape.heads; ++at.head) {
      const Matrix q = gather(shape, at, qkv, 0, 3);
      const Matrix k = gather(shape, at, qkv, 1, 3);
      const Matrix v = gather(shape, at, qkv, 2, 3);
      const Matrix dy = gather(shape, at, dout, 0, 1);
      const Probabilities all = probabilities(shape, at, q, k);
      const Matrix dp = elementwise_product(product(dy, transposed(v)), all.mask);
      // Gradient of softmax: ds = p·(dp − Σ p·dp), over each row.
      Matrix ds = elementwise_product(all.p, dp);
      for (std::int64_t i = 0; i < ds.rows; ++i) {
        double inner = 0.0;
        for (std::int64_t j = 0; j <= i; ++j) {
          inner += ds(i, j);
        }
        for (std::int64_t j = 0; j <= i; ++j) {
          ds(i, j) = root_factor(shape) * (ds(i, j) - inner * all.p(i, j));
        }
      }
      scatter(shape, at, product(ds, k), 0, 3, dqkv);
      scatter(shape, at, product(transposed(ds), q), 1, 3, dqkv);
      scatter(shape, at, product(transposed(elementwise_product(all.p, all.mask)), dy), 2, 3, dqkv);
    }
  }
}

}  // namespace ptdp
