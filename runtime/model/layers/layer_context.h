// What all layers of a stage work with: backend, tensor group, parameters, sizes, dropout keys.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/model/layers/stage_settings.h"
#include "runtime/parameters/parameter_store.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// A parameter, or several that lie side by side, and the store that holds them.
struct StoredParameter {
  ParameterStore* store = nullptr;
  ParameterId id = 0;  ///< The parameter, or the first of several.
  int count = 1;       ///< Number of parameters.

  /// Returns whether there is a parameter at all.
  [[nodiscard]] bool exists() const { return store != nullptr; }
  [[nodiscard]] Buffer weights() const { return store->weights(id, count); }
  [[nodiscard]] Buffer gradient() const { return store->gradient(id, count); }
  /// Adds the parameter that was declared directly behind these.
  void append(const StoredParameter& next);
};

/// Places in a layer where elements are dropped.
enum class DropoutSite : std::uint8_t { kEmbedding, kAttention, kProjection, kMlp };

/// When weight gradients are formed: directly after each input gradient, or in a pass of their own.
enum class WeightGradients : std::uint8_t { kAtOnce, kLater };

/// The context that the layers of one stage refer to. Rows are tokens; a microbatch has n = s·b
/// rows.
class LayerContext {
 public:
  /// Keeps references to all arguments but the settings, which it copies.
  LayerContext(Backend& backend, Communicator& tensor_group, ParameterStore& parameters,
               const StageSettings& settings);

  [[nodiscard]] Backend& backend() const { return backend_; }
  [[nodiscard]] Communicator& tensor_group() const { return tensor_group_; }
  [[nodiscard]] const StageSettings& settings() const { return settings_; }
  [[nodiscard]] const TransformerConfig& model() const { return settings_.model; }
  [[nodiscard]] int tp() const { return tensor_group_.size(); }
  [[nodiscard]] int tensor_rank() const { return tensor_group_.rank(); }
  /// Returns whether sequence parallelism scatters rows among more than one rank.
  [[nodiscard]] bool scatters_sequence() const { return settings_.sequence_parallel && tp() > 1; }
  /// Returns whether collectives of a backward pass run behind products.
  [[nodiscard]] bool overlaps_tensor() const { return settings_.overlaps_tensor && tp() > 1; }

  /// Runs `operation`, and times it when the settings have a clock.
  template <class Operation>
  void timed(OperationKind kind, const Operation& operation) const {
    if (settings_.clock == nullptr) {
      operation();
    } else {
      settings_.clock->time(kind, operation);
    }
  }

  /// Returns the number of rows of a microbatch, n = s·b.
  [[nodiscard]] std::int64_t rows() const;
  /// Returns the number of rows on this rank: n/t when the sequence is scattered, else n.
  [[nodiscard]] std::int64_t own_rows() const;
  [[nodiscard]] std::int64_t hidden_size() const { return settings_.model.hidden_size; }
  /// Returns the group of gradients that are sums over this rank's rows.
  [[nodiscard]] GradientGroup group_of_rows() const {
    return scatters_sequence() ? GradientGroup::kSummedOverTensor : GradientGroup::kOwn;
  }
  /// Returns the angles of rotary positions, as RotaryCall takes them.
  [[nodiscard]] Buffer rotary_angles() const { return rotary_angles_; }
  /// Sets the angles of rotary positions, which must live as long as the layers are used.
  void set_rotary_angles(Buffer angles) { rotary_angles_ = angles; }

  /// Allocates memory for `size` elements of the working type.
  [[nodiscard]] Tensor tensor(std::int64_t size) const;
  /// Allocates memory for `size` elements of the working type's accumulator type.
  [[nodiscard]] Tensor accumulator(std::int64_t size) const;

  /// Returns the place of this rank's rows in the global batch.
  [[nodiscard]] TokenRange range(const Microbatch& microbatch) const;
  /// Returns the place of all of a microbatch's rows in the global batch.
  [[nodiscard]] TokenRange range_of_all(const Microbatch& microbatch) const;
  /// Returns the dropout of a site in `layer`, counted over the model. The embedding's layer is 0.
  [[nodiscard]] Dropout dropout(const Microbatch& microbatch, int layer, DropoutSite site) const;

  /// Declares a parameter of the stage.
  [[nodiscard]] StoredParameter declare(Parameter parameter) const;
  /// Declares a vector that every tensor-parallel rank holds and whose elements begin as `value`.
  /// The vector's gradients belong to `group`.
  [[nodiscard]] StoredParameter declare_replicated(const std::string& name, std::int64_t size,
                                                   double value, GradientGroup group) const;

 private:
  Backend& backend_;
  Communicator& tensor_group_;
  ParameterStore& parameters_;
  StageSettings settings_;
  Buffer rotary_angles_;
};

}  // namespace ptdp
