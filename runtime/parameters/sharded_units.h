// Makes units of a sharded store whole for the passes that work with them (ZeRO-2 and -3).
#pragma once

#include <map>

#include "kernels/backend.h"
#include "runtime/parameters/parameter_store.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// How a stage's parameters are sharded between passes.
struct Sharding {
  /// Ranks that hold the same parameters, for calls within passes; null when nothing is sharded.
  Communicator* group = nullptr;
  /// Number of ranks that share the optimizer's work on the parameters (StoreShards::group_size).
  int group_size = 1;
  /// Whether weights are sharded too (ZeRO-3), or gradients alone (ZeRO-2).
  bool of_weights = false;
  /// Whether gathered weights stay from a microbatch's forward pass to its backward pass.
  bool keeps_weights = false;
};

/// Makes units whole and sharded again. A pass calls the members around each unit, on all ranks of
/// the group in the same order. They do nothing when nothing is sharded.
class ShardedUnits {
 public:
  /// Keeps references to `backend` and `store`, which must outlive this object.
  ShardedUnits(Backend& backend, ParameterStore& store, const Sharding& sharding)
      : backend_(backend), store_(store), sharding_(sharding) {}

  /// Makes the unit's weights whole for a microbatch's forward pass.
  void begin_forward(int unit);
  /// Releases the unit's weights after a forward pass, unless they stay for the backward pass.
  void end_forward(int unit);
  /// Makes the unit's weights and gradients whole for a microbatch's input gradient.
  void begin_backward(int unit);
  /// Releases the unit's weights, which the microbatch does not need any more.
  void end_backward(int unit);
  /// Makes the unit's gradients whole, unless they are, for weight gradients that are formed apart.
  void open_gradients(int unit);
  /// Sums the unit's gradients over the group, adds this rank's part to its shard, and releases the
  /// whole.
  void reduce_gradients(int unit);

 private:
  void gather_weights(int unit);
  void release_weights(int unit);

  Backend& backend_;
  ParameterStore& store_;
  Sharding sharding_;
  std::map<int, int> users_;  ///< Number of microbatches that need a unit's weights whole, by unit.
};

}  // namespace ptdp
