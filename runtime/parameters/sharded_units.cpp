#include "runtime/parameters/sharded_units.h"

#include <cstddef>

namespace ptdp {

void ShardedUnits::begin_forward(int unit) {
  gather_weights(unit);
}

void ShardedUnits::end_forward(int unit) {
  if (!sharding_.keeps_weights) {
    release_weights(unit);
  }
}

void ShardedUnits::begin_backward(int unit) {
  if (!sharding_.keeps_weights) {
    gather_weights(unit);
  }
  open_gradients(unit);
}

void ShardedUnits::end_backward(int unit) {
  release_weights(unit);
}

/// Gathers the unit's weights in every pass, also when another microbatch's weights are still
/// there. So what is sent does not depend on the schedule.
void ShardedUnits::gather_weights(int unit) {
  if (sharding_.group == nullptr || !sharding_.of_weights) {
    return;
  }
  const ParameterUnit& place = store_.units()[static_cast<std::size_t>(unit)];
  Tensor& whole = store_.whole_weights(unit);
  if (whole.empty()) {
    whole = Tensor(backend_, store_.all_weights().type, place.range.count);
  }
  backend_.copy(store_.kept_weights(place.own),
                whole.buffer().slice(place.own.first - place.range.first, place.own.count));
  sharding_.group->all_gather(whole);
  ++users_[unit];
}

/// Releases the unit's weights once no microbatch needs them.
void ShardedUnits::release_weights(int unit) {
  if (sharding_.group != nullptr && sharding_.of_weights && --users_[unit] == 0) {
    store_.whole_weights(unit).reset();
  }
}

void ShardedUnits::open_gradients(int unit) {
  if (sharding_.group == nullptr || !store_.whole_gradients(unit).empty()) {
    return;
  }
  const ParameterUnit& place = store_.units()[static_cast<std::size_t>(unit)];
  Tensor& whole = store_.whole_gradients(unit);
  whole = Tensor(backend_, store_.all_gradients().type, place.range.count);
  backend_.fill(whole, 0.0);
}

void ShardedUnits::reduce_gradients(int unit) {
  if (sharding_.group == nullptr) {
    return;
  }
  const ParameterUnit& place = store_.units()[static_cast<std::size_t>(unit)];
  Tensor& whole = store_.whole_gradients(unit);
  sharding_.group->reduce_scatter(whole);
  backend_.add(whole.buffer().slice(place.own.first - place.range.first, place.own.count),
               store_.kept_gradients(place.own));
  whole.reset();
}

}  // namespace ptdp
