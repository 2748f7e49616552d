// Makes units of a sharded store whole for the passes that work with them (ZeRO-2 and -3).
#pragma once

#include <map>

#include "kernels/backend.h"
#include "runtime/parameters/parameter_store.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// A stage's parameters are sharded so between passes.
struct Sharding {
  /// The ranks that hold the same parameters, for calls within passes; null: nothing is sharded.
  Communicator* group = nullptr;
  bool of_weights = false;  ///< ZeRO-3; else gradients alone, ZeRO-2.
  /// Whether gathered weights stay from a microbatch's forward pass to its backward pass.
  bool keeps_weights = false;
};

/// A pass calls it around each unit, on all ranks of the group in the same order. Nothing happens
/// where nothing is sharded.
class ShardedUnits {
 public:
  /// What is referred to must outlive it.
  ShardedUnits(Backend& backend, ParameterStore& store, const Sharding& sharding)
      : backend_(backend), store_(store), sharding_(sharding) {}

  /// Makes the unit's weights whole for a microbatch's forward pass.
  void begin_forward(int unit);
  /// Releases them, unless they stay for its backward pass.
  void end_forward(int unit);
  /// Makes the unit's weights and gradients whole for a microbatch's input gradient.
  void begin_backward(int unit);
  /// Releases the weights, which this microbatch does not need any more.
  void end_backward(int unit);
  /// Makes the gradients whole, where they are not, for weight gradients that are formed apart.
  void open_gradients(int unit);
  /// Adds this rank's part of the sum over the group to its shard, and releases the whole.
  void reduce_gradients(int unit);

 private:
  void gather_weights(int unit);
  void release_weights(int unit);

  Backend& backend_;
  ParameterStore& store_;
  Sharding sharding_;
  std::map<int, int> users_;  ///< By unit: microbatches that need its weights whole.
};

}  // namespace ptdp
