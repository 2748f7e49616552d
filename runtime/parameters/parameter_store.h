// The weights and gradients of a virtual stage in flat coordinates, and what each part of them is.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

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
  int unit = 0;            ///< Which of the store's units it belongs to.
  std::int64_t first = 0;  ///< In flat coordinates [elements].

  [[nodiscard]] std::int64_t size() const { return block.rows * block.columns; }
};

/// Which parameter, added to a plan of a store.
using ParameterId = int;

/// Each of the ranks that hold the same parameters keeps so much of a store between passes.
struct StoreShards {
  int group_size = 1;  ///< Ranks that hold the same: d.
  int group_rank = 0;  ///< This one's place among them, i.
  bool of_gradients = false;
  bool of_weights = false;  ///< Only where gradients are sharded too.
};

/// Parameters that follow each other are made whole, and sharded again, together.
struct ParameterUnit {
  Part range;                   ///< All of it.
  std::int64_t num_summed = 0;  ///< Elements at its beginning that are kSummedOverTensor.
  Part own;                     ///< What this rank keeps of it: part_of(range, d, i).
  std::int64_t first_kept = 0;  ///< Of that, in the buffers of shards.
};

/// Weights in the working type, gradients in the accumulator type: two flat buffers, or where they
/// are sharded this rank's shards of all units one after the other, and buffers that come and go
/// for whole units.
class ParameterStore {
 public:
  /// Declares a parameter; before allocate(). The order of declarations is kept within a group.
  ParameterId declare(Parameter parameter);
  /// Whatever is declared from here on belongs to the next unit.
  void begin_unit() { ++unit_; }
  /// Lays out and allocates, zeroes gradients and fills in initial values: by name and global
  /// element, whatever the layout. Sharded stores are laid out unit by unit.
  void allocate(Backend& backend, DataType type, std::uint64_t seed,
                const StoreShards& shards = {});

  /// Initial values of the elements [first, first + to.size) in flat coordinates, in the type of
  /// `to`, rounded from the same f64 numbers whatever the type; after allocate().
  void fill_initial(Backend& backend, std::int64_t first, Buffer to) const;

  /// By id: in the order of their declaration.
  [[nodiscard]] std::span<const Parameter> parameters() const { return parameters_; }
  /// The parameter of this name, which must be there.
  [[nodiscard]] ParameterId id_of(std::string_view name) const;
  /// Where they are sharded the parameter's unit must be whole.
  [[nodiscard]] Buffer weights(ParameterId id) const;
  [[nodiscard]] Buffer gradient(ParameterId id) const;
  /// Elements of all parameters.
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// All that this rank keeps between passes: of every parameter, or its shards.
  [[nodiscard]] Buffer all_weights() const { return weights_; }
  [[nodiscard]] Buffer all_gradients() const { return gradients_; }
  /// Elements of `range` in these buffers; of a sharded store it lies within one unit's own part.
  [[nodiscard]] Buffer kept_weights(const Part& range) const;
  [[nodiscard]] Buffer kept_gradients(const Part& range) const;
  /// Where in the flat coordinates of a store without shards a group lies: [first, first + count).
  [[nodiscard]] std::int64_t first_of(GradientGroup group) const;
  [[nodiscard]] std::int64_t count_of(GradientGroup group) const;
  /// What this rank keeps of the gradients that are kSummedOverTensor, ascending.
  [[nodiscard]] std::vector<Part> summed_over_tensor() const;

  /// Ascending; empty where nothing is sharded.
  [[nodiscard]] std::span<const ParameterUnit> units() const { return units_; }
  [[nodiscard]] const StoreShards& shards() const { return shards_; }
  /// All of a unit while a pass works with it, else empty; where weights, or gradients, are
  /// sharded.
  [[nodiscard]] Tensor& whole_weights(int unit) { return whole_weights_[unit]; }
  [[nodiscard]] Tensor& whole_gradients(int unit) { return whole_gradients_[unit]; }

 private:
  void lay_out();
  void make_units();
  [[nodiscard]] std::int64_t place_in_shards(std::int64_t element) const;

  std::vector<Parameter> parameters_;
  int unit_ = 0;  ///< Of what is declared next.
  StoreShards shards_;
  std::vector<ParameterUnit> units_;
  std::int64_t size_ = 0;
  Tensor weights_;
  Tensor gradients_;
  std::vector<Tensor> whole_weights_;  ///< By unit, as are the gradients.
  std::vector<Tensor> whole_gradients_;
  std::uint64_t seed_ = 0;
};

}  // namespace ptdp
