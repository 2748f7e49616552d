// The weights and gradients of a virtual stage in flat coordinates, and what each parameter is.
//
// Parameters are dense and in order within each range that replicas reduce and gather: the tied
// table, all else, or each unit of a sharded store. Ranges end with padding of zeros up to a
// multiple of A = 64·d elements (cost_model/pipeline_rank/aligned_ranges.h), which is no
// parameter's.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// What happens to a parameter's gradient besides data parallelism. Flat buffers hold the groups in
/// this order.
enum class GradientGroup : std::uint8_t {
  kTied,  ///< The embedding, when the first and the last stage both hold it.
  /// Summed over the tensor-parallel group, whose ranks each have the sum over their part of the
  /// sequence. These are norms and row-parallel biases under sequence parallelism.
  kSummedOverTensor,
  kOwn  ///< Complete on its rank.
};

/// A parameter as a rank holds it: a block of the whole parameter, which has one name in every
/// layout. Vectors are matrices of one row.
struct Parameter {
  /// Name such as "layers.3.attention.query.weight", with layers numbered over the model.
  std::string name;
  MatrixBlock block;
  /// Rows of the whole parameter. A block's rows from there on are padding: they are 0 and stay so.
  /// Other layouts may lack them, since the vocabulary is padded to a multiple that depends on tp.
  std::int64_t total_rows = 0;
  GradientGroup group = GradientGroup::kOwn;
  bool is_replicated = false;  ///< Whether all tensor-parallel ranks hold all of it.
  bool decays = false;  ///< Whether weight decay applies: to matrices, not to biases and norms.
  /// Standard deviation of its initial values; 0 for the value `constant`.
  double deviation = 0.0;
  double constant = 0.0;
  int unit = 0;            ///< Number of the store's unit that it belongs to.
  std::int64_t first = 0;  ///< Place of its first element in flat coordinates [elements].

  [[nodiscard]] std::int64_t size() const { return block.rows * block.columns; }
};

/// Number of a parameter in its store, in the order of declaration.
using ParameterId = int;

/// How much of a store each of the ranks with the same parameters keeps between passes.
struct StoreShards {
  /// Number d of ranks that share the work on the same parameters; 1 where each does all of it.
  int group_size = 1;
  int group_rank = 0;  ///< Place i of this rank among them.
  bool of_gradients = false;
  bool of_weights = false;  ///< Whether weights are sharded, which requires sharded gradients.
};

/// A run of parameters that are made whole, and sharded again, together.
struct ParameterUnit {
  Part range;  ///< All of the unit with its padding, in flat coordinates.
  /// Number of elements at the unit's beginning that are kSummedOverTensor.
  std::int64_t num_summed = 0;
  /// Part of the unit that this rank keeps: part_of(range, d, i), which is a multiple of 64
  /// elements.
  Part own;
  std::int64_t first_kept = 0;  ///< Place of this rank's part in the buffers of shards.
};

/// The parameters of a virtual stage: weights in the working type and gradients in the accumulator
/// type. Unsharded, each is one flat buffer. Sharded, each is this rank's shards of all units one
/// after the other, and buffers of whole units that come and go. A range that replicas reduce or
/// gather begins at a multiple of 64 elements of its buffer, and so does every rank's part of it. A
/// parameter begins there only if the sizes of those before it add up to such a multiple.
class ParameterStore {
 public:
  /// Declares a parameter, before allocate(). The order of declarations is kept within a group.
  ParameterId declare(Parameter parameter);
  /// Begins the next unit: parameters declared from here on belong to it.
  void begin_unit() { ++unit_; }
  /// Lays out and allocates the buffers, zeroes gradients and fills in initial values. These depend
  /// on name and global element, whatever the layout. Sharded stores are laid out unit by unit.
  /// Padding is 0 from the start, in weights and in gradients.
  void allocate(Backend& backend, DataType type, std::uint64_t seed,
                const StoreShards& shards = {});

  /// Writes the initial values of elements [first, first + to.size) of flat coordinates into `to`.
  /// They are rounded from the same f64 numbers whatever the type; padding is 0. Call it after
  /// allocate().
  void fill_initial(Backend& backend, std::int64_t first, Buffer to) const;

  /// Returns the parameters by id, in the order of declaration.
  [[nodiscard]] std::span<const Parameter> parameters() const { return parameters_; }
  /// Returns the id of the parameter of this name, which must exist.
  [[nodiscard]] ParameterId id_of(std::string_view name) const;
  /// Returns the weights of `count` parameters from `id` on, which must lie side by side: they were
  /// declared one after the other, in one unit and group. When weights are sharded, their unit must
  /// be whole.
  [[nodiscard]] Buffer weights(ParameterId id, int count = 1) const;
  /// Returns the gradients of `count` parameters from `id` on, which must lie side by side. When
  /// gradients are sharded, their unit must be whole.
  [[nodiscard]] Buffer gradient(ParameterId id, int count = 1) const;
  /// Returns the number of elements of all parameters with their padding, before sharding.
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Returns all weights that this rank keeps between passes: those of every parameter, or its
  /// shards.
  [[nodiscard]] Buffer all_weights() const { return weights_; }
  /// Returns all gradients that this rank keeps between passes: those of every parameter, or its
  /// shards.
  [[nodiscard]] Buffer all_gradients() const { return gradients_; }
  /// Returns the kept weights of `range` in flat coordinates. In a sharded store it must lie within
  /// one unit's own part.
  [[nodiscard]] Buffer kept_weights(const Part& range) const;
  /// Returns the kept gradients of `range` in flat coordinates. In a sharded store it must lie
  /// within one unit's own part.
  [[nodiscard]] Buffer kept_gradients(const Part& range) const;
  /// Returns the place of a group's first element in the flat coordinates of a store without
  /// shards.
  [[nodiscard]] std::int64_t first_of(GradientGroup group) const;
  /// Returns the number of elements of a group, without padding.
  [[nodiscard]] std::int64_t count_of(GradientGroup group) const;
  /// Returns the range of the kTied parameters with its padding; empty without any. Not for sharded
  /// stores.
  [[nodiscard]] Part tied_range() const;
  /// Returns the parts of the kSummedOverTensor gradients that this rank keeps, ascending.
  [[nodiscard]] std::vector<Part> summed_over_tensor() const;

  /// Returns the units, ascending; none when nothing is sharded.
  [[nodiscard]] std::span<const ParameterUnit> units() const { return units_; }
  [[nodiscard]] const StoreShards& shards() const { return shards_; }
  /// Returns the weights of a whole unit while a pass works with it; otherwise empty. Only for
  /// sharded weights.
  [[nodiscard]] Tensor& whole_weights(int unit) { return whole_weights_[unit]; }
  /// Returns the gradients of a whole unit while a pass works with it; otherwise empty. Only for
  /// sharded gradients.
  [[nodiscard]] Tensor& whole_gradients(int unit) { return whole_gradients_[unit]; }

 private:
  /// Returns the place of parameters that lie side by side, in flat coordinates.
  [[nodiscard]] Part range_of(ParameterId id, int count) const;
  /// Returns parameters that lie side by side: in the flat buffer, or in a sharded store in the
  /// buffer of their whole unit.
  [[nodiscard]] Buffer in_flat_or_unit(ParameterId id, int count, bool is_sharded,
                                       const Tensor& flat, const std::vector<Tensor>& units) const;
  void lay_out();
  void end_range();
  void make_units();
  [[nodiscard]] std::int64_t place_in_shards(std::int64_t element) const;

  std::vector<Parameter> parameters_;
  int unit_ = 0;  ///< Unit of the parameters declared next.
  StoreShards shards_;
  std::vector<ParameterUnit> units_;
  std::int64_t size_ = 0;
  std::vector<Part> padding_;  ///< Elements that are no parameter's, ascending.
  Tensor weights_;
  Tensor gradients_;
  std::vector<Tensor> whole_weights_;  ///< Weights of whole units, by unit.
  /// Gradients of whole units, by unit.
  std::vector<Tensor> whole_gradients_;
  std::uint64_t seed_ = 0;
};

}  // namespace ptdp
