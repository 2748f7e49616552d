// The weights and gradients of a virtual stage in two flat buffers, and what each part of them is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"

namespace ptdp {

/// What happens to the gradient of a parameter besides data parallelism, in the order in which flat
/// buffers hold them.
enum class GradientGroup : std::uint8_t {
  kTied,              ///< The embedding that the first and the last stage both hold.
  kSummedOverTensor,  ///< Held by all tensor-parallel ranks, each with the sum over its part of the
                      ///< sequence: norms and row-parallel biases under sequence parallelism.
  kOwn                ///< Complete where it is.
};

/// A parameter as a rank holds it: a block of the whole, which has one name in every layout.
/// Vectors are matrices of one row.
struct Parameter {
  std::string name;  ///< "layers.3.attention.qkv.weight", layers numbered over the model.
  MatrixBlock block;
  /// Of the whole. A block's rows from there on pad it: they are 0 and stay so, and no other layout
  /// need have them (the vocabulary is padded to a multiple that depends on tp).
  std::int64_t total_rows = 0;
  GradientGroup group = GradientGroup::kOwn;
  bool is_replicated = false;  ///< All tensor-parallel ranks hold all of it.
  bool decays = false;         ///< Matrices do; biases and norms do not.
  double deviation = 0.0;      ///< Of its initial values; 0: constant.
  double constant = 0.0;
  std::int64_t first = 0;  ///< In the flat buffers [elements].

  [[nodiscard]] std::int64_t size() const { return block.rows * block.columns; }
};

/// Which parameter, added to a plan of a store.
using ParameterId = int;

/// Two flat buffers: weights in the working type, gradients in the accumulator type.
class ParameterStore {
 public:
  /// Declares a parameter; before allocate(). The order of declarations is kept within a group.
  ParameterId declare(Parameter parameter);
  /// Lays out and allocates, zeroes gradients and fills in initial values: by name and global
  /// element, whatever the layout.
  void allocate(Backend& backend, DataType type, std::uint64_t seed);

  /// Initial values of the elements [first, first + to.size) of the flat buffers, in the type of
  /// `to`, rounded from the same f64 numbers whatever the type; after allocate().
  void fill_initial(Backend& backend, std::int64_t first, Buffer to) const;

  /// By id: in the order of their declaration.
  [[nodiscard]] std::span<const Parameter> parameters() const { return parameters_; }
  /// The parameter of this name, which must be there.
  [[nodiscard]] ParameterId id_of(std::string_view name) const;
  [[nodiscard]] Buffer weights(ParameterId id) const;
  [[nodiscard]] Buffer gradient(ParameterId id) const;
  [[nodiscard]] Buffer all_weights() const { return weights_; }
  [[nodiscard]] Buffer all_gradients() const { return gradients_; }
  /// Where in the flat buffers a group lies: [first, first + count).
  [[nodiscard]] std::int64_t first_of(GradientGroup group) const;
  [[nodiscard]] std::int64_t count_of(GradientGroup group) const;

 private:
  std::vector<Parameter> parameters_;
  Tensor weights_;
  Tensor gradients_;
  std::uint64_t seed_ = 0;
};

}  // namespace ptdp
