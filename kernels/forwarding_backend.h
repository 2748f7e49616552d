// Passes all operations of a device through one function, and provides tables with a function for
// each operation. A class that treats operations alike thus need not spell them out.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace ptdp {

/// A tag to overload functions on an operation: Operation<&Backend::add> stands for add.
template <auto kOperation>
struct Operation {};

/// Gives the type of a function that takes `Context`, then the arguments of an operation. It has no
/// body.
template <class Context, class... Arguments>
auto function_of(void (Backend::*operation)(Arguments...)) -> void (*)(Context, Arguments...);

/// The place of one operation in a table of functions.
template <class Context, auto kOperation>
struct OperationEntry {
  /// The function; null when the backend carries the operation out by itself.
  decltype(function_of<Context>(kOperation)) function = nullptr;
};

/// A table of functions, read and filled through its base classes, one for each operation.
template <class Context, auto... kOperations>
struct TableOfOperations : OperationEntry<Context, kOperations>... {};

/// The table of all operations. A backend with an operation that is not listed here does not
/// compile.
template <class Context>
using OperationTable =
    TableOfOperations<Context, &Backend::copy, &Backend::copy_columns, &Backend::copy_in,
                      &Backend::copy_out, &Backend::convert, &Backend::fill, &Backend::add,
                      &Backend::maximum, &Backend::scale, &Backend::soft_cap, &Backend::add_bias,
                      &Backend::bias_gradient, &Backend::activation, &Backend::activation_backward,
                      &Backend::bias_dropout_add, &Backend::dropout_backward, &Backend::matmul,
                      &Backend::norm, &Backend::sum_and_norm, &Backend::norm_backward,
                      &Backend::row_products, &Backend::split_norm, &Backend::split_norm_backward,
                      &Backend::rotate, &Backend::attention, &Backend::attention_backward,
                      &Backend::embedding, &Backend::embedding_gradient, &Backend::add_positions,
                      &Backend::position_gradient, &Backend::row_maxima, &Backend::softmax_sums,
                      &Backend::add_losses, &Backend::cross_entropy_backward, &Backend::add_squares,
                      &Backend::adamw, &Backend::fill_normal>;

/// The base of backends that treat operations alike. It passes each operation on to a function
/// template of the derived class `Self`, which may be private to both:
///
///   template <auto kOperation, class... Arguments>
///   void run(const Arguments&... arguments);  // kOperation is &Backend::add, say
///
/// `Self` overrides the operations that differ. It has its own memory, lanes and events. What
/// pointers and spans refer to lives until the call returns, and no longer.
template <class Self>
class ForwardingBackend : public Backend {
 public:
  void copy(Buffer from, Buffer to) override { pass<&Backend::copy>(from, to); }
  void copy_columns(const VectorRows& from, const VectorRows& to, std::int64_t width,
                    std::int64_t rows) override {
    pass<&Backend::copy_columns>(from, to, width, rows);
  }
  void copy_in(const void* from, Buffer to) override { pass<&Backend::copy_in>(from, to); }
  void copy_out(Buffer from, void* to) override { pass<&Backend::copy_out>(from, to); }
  void convert(Buffer from, Buffer to) override { pass<&Backend::convert>(from, to); }
  void fill(Buffer x, double value) override { pass<&Backend::fill>(x, value); }
  void add(Buffer x, Buffer to) override { pass<&Backend::add>(x, to); }
  void maximum(Buffer x, Buffer to) override { pass<&Backend::maximum>(x, to); }
  void scale(Buffer x, double factor) override { pass<&Backend::scale>(x, factor); }
  void soft_cap(Buffer x, double cap) override { pass<&Backend::soft_cap>(x, cap); }
  void add_bias(Buffer x, Buffer bias, std::int64_t rows) override {
    pass<&Backend::add_bias>(x, bias, rows);
  }
  void bias_gradient(Buffer dy, Buffer gradient, std::int64_t rows) override {
    pass<&Backend::bias_gradient>(dy, gradient, rows);
  }
  void activation(const ActivationCall& call) override { pass<&Backend::activation>(call); }
  void activation_backward(const ActivationBackwardCall& call) override {
    pass<&Backend::activation_backward>(call);
  }
  void bias_dropout_add(const BiasDropoutAddCall& call) override {
    pass<&Backend::bias_dropout_add>(call);
  }
  void dropout_backward(Buffer dy, const Dropout& dropout, double scale, const TokenRange& range,
                        Buffer dx, std::int64_t rows) override {
    pass<&Backend::dropout_backward>(dy, dropout, scale, range, dx, rows);
  }
  void matmul(const Matmul& product, Buffer a, Buffer b, Buffer c) override {
    pass<&Backend::matmul>(product, a, b, c);
  }
  void norm(const NormCall& call) override { pass<&Backend::norm>(call); }
  void sum_and_norm(const BiasDropoutAddCall& sum, const NormCall& call) override {
    pass<&Backend::sum_and_norm>(sum, call);
  }
  void norm_backward(const NormBackwardCall& call) override { pass<&Backend::norm_backward>(call); }
  void row_products(const RowProductsCall& call) override { pass<&Backend::row_products>(call); }
  void split_norm(const SplitNormCall& call) override { pass<&Backend::split_norm>(call); }
  void split_norm_backward(const SplitNormBackwardCall& call) override {
    pass<&Backend::split_norm_backward>(call);
  }
  void rotate(const RotaryCall& call) override { pass<&Backend::rotate>(call); }
  void attention(const AttentionCall& call) override { pass<&Backend::attention>(call); }
  void attention_backward(const AttentionBackwardCall& call) override {
    pass<&Backend::attention_backward>(call);
  }
  void embedding(Buffer ids, Buffer table, std::int64_t first, Buffer out) override {
    pass<&Backend::embedding>(ids, table, first, out);
  }
  void embedding_gradient(Buffer ids, Buffer dy, std::int64_t first, Buffer gradient) override {
    pass<&Backend::embedding_gradient>(ids, dy, first, gradient);
  }
  void add_positions(Buffer x, Buffer positions, const TokenRange& range,
                     std::int64_t rows) override {
    pass<&Backend::add_positions>(x, positions, range, rows);
  }
  void position_gradient(Buffer dy, Buffer gradient, const TokenRange& range,
                         std::int64_t rows) override {
    pass<&Backend::position_gradient>(dy, gradient, range, rows);
  }
  void row_maxima(Buffer logits, const VocabShard& shard, Buffer maxima,
                  std::int64_t rows) override {
    pass<&Backend::row_maxima>(logits, shard, maxima, rows);
  }
  void softmax_sums(Buffer logits, const VocabShard& shard, Buffer targets, Buffer maxima,
                    Buffer sums, std::int64_t rows) override {
    pass<&Backend::softmax_sums>(logits, shard, targets, maxima, sums, rows);
  }
  void add_losses(Buffer sums, Buffer total, std::int64_t rows) override {
    pass<&Backend::add_losses>(sums, total, rows);
  }
  void cross_entropy_backward(const CrossEntropyBackwardCall& call) override {
    pass<&Backend::cross_entropy_backward>(call);
  }
  void add_squares(Buffer x, Buffer total) override { pass<&Backend::add_squares>(x, total); }
  void adamw(const AdamW& settings, std::span<const AdamWSlice> slices) override {
    pass<&Backend::adamw>(settings, slices);
  }
  void fill_normal(Buffer x, const MatrixBlock& block, std::uint64_t key,
                   double deviation) override {
    pass<&Backend::fill_normal>(x, block, key, deviation);
  }

 private:
  template <auto kOperation, class... Arguments>
  void pass(const Arguments&... arguments) {
    static_cast<Self*>(this)->template run<kOperation>(arguments...);
  }
};

}  // namespace ptdp
