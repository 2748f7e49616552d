#include "runtime/optimizer/optimizer.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "cost_model/pipeline_rank/aligned_ranges.h"
#include "runtime/parameters/block_range.h"

namespace ptdp {
namespace {

/// Returns the i-th of n parts of a range.
Part part_of_range(const Part& range, int n, int i) {
  const Part part = part_of(range.count, n, i);
  return {range.first + part.first, part.count};
}

/// Returns the part of every reduction range that is the i-th of n ranks', ascending, without empty
/// parts.
std::vector<Part> parts_of_rank(const StoreShare& share, int n, int i) {
  std::vector<Part> parts;
  for (int bucket = 0; bucket < share.num_buckets; ++bucket) {
    for (const Part& range : reduction_ranges(*share.store, bucket, share.num_buckets)) {
      const Part part = part_of_range(range, n, i);
      if (part.count > 0) {
        parts.push_back(part);
      }
    }
  }
  return parts;
}

/// Returns the parts of a store that this rank updates.
std::vector<Part> updated_parts(const StoreShare& share) {
  return share.shards_states ? parts_of_rank(share, share.group_size, share.group_rank)
                             : parts_of_rank(share, 1, 0);
}

/// Calls visit(id, range, place) for every parameter that overlaps one of `parts`, with the overlap
/// and its place when the parts lie one after the other, in the order of the flat coordinates.
template <class Visit>
void for_each_slice(const ParameterStore& store, const std::vector<Part>& parts,
                    const Visit& visit) {
  const auto parameters = store.parameters();
  std::vector<ParameterId> order(parameters.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<ParameterId>(i);
  }
  std::ranges::sort(order, {}, [&](ParameterId id) { return parameters[id].first; });
  std::int64_t begin = 0;
  for (const Part& part : parts) {
    for (const ParameterId id : order) {
      const Part range = intersection(part, {parameters[id].first, parameters[id].size()});
      if (range.count > 0) {
        visit(id, range, begin + range.first - part.first);
      }
    }
    begin += part.count;
  }
}

/// Returns the part of a slice that lies in `range`.
OwnedSlice narrowed(const OwnedSlice& slice, const Part& range) {
  const auto part = [&](const Buffer& all) {
    return all.slice(range.first - slice.range.first, range.count);
  };
  return {.parameter = slice.parameter,
          .range = range,
          .weights = part(slice.weights),
          .gradient = part(slice.gradient),
          .master = part(slice.master),
          .moment1 = part(slice.moment1),
          .moment2 = part(slice.moment2)};
}

/// Returns whether a parameter's gradient counts in the norm on this rank.
bool counts(const StoreShare& share, const Parameter& parameter) {
  return (share.counts_tied || parameter.group != GradientGroup::kTied) &&
         (share.counts_replicated || !parameter.is_replicated);
}

/// Returns the ranges within `parts` whose gradients count, with neighbors joined.
std::vector<Part> counted_of(const StoreShare& share, const std::vector<Part>& parts) {
  std::vector<Part> counted;
  for_each_slice(*share.store, parts, [&](ParameterId id, const Part& range, std::int64_t) {
    if (!counts(share, share.store->parameters()[id])) {
      return;
    }
    if (!counted.empty() && counted.back().first + counted.back().count == range.first) {
      counted.back().count += range.count;
    } else {
      counted.push_back(range);
    }
  });
  return counted;
}

}  // namespace

std::vector<Part> reduction_ranges(const ParameterStore& store, int bucket, int num_buckets) {
  assert(bucket >= 0 && bucket < num_buckets);
  std::vector<Part> ranges;
  if (const auto units = store.units(); !units.empty()) {
    const Part part = part_of(std::ssize(units), num_buckets, bucket);
    for (const ParameterUnit& unit : units.subspan(part.first, part.count)) {
      ranges.push_back(unit.range);
    }
    return ranges;
  }
  const Part tied = store.tied_range();
  assert(tied.first == 0);
  if (bucket == 0 && tied.count > 0) {
    ranges.push_back(tied);
  }
  const auto begin = [&](int k) {
    return tied.count +
           bucket_begin(store.size() - tied.count, store.shards().group_size, num_buckets, k);
  };
  const Part range{begin(bucket), begin(bucket + 1) - begin(bucket)};
  if (range.count > 0) {
    ranges.push_back(range);
  }
  return ranges;
}

Optimizer::Optimizer(Backend& backend, std::vector<StoreShare> shares)
    : backend_(&backend), shares_(std::move(shares)) {
  states_.reserve(shares_.size());
  for (const StoreShare& share : shares_) {
    states_.push_back(make_states(share));
  }
  round_masters();  // from the first step on, weights are their masters rounded, as after a resume
}

Optimizer::States Optimizer::make_states(const StoreShare& share) {
  const ParameterStore& store = *share.store;
  assert(!share.shards_states || store.shards().group_size == share.group_size);
  const std::vector<Part> parts = updated_parts(share);
  std::int64_t count = 0;
  for (const Part& part : parts) {
    count += part.count;
  }

  const DataType type = store.all_gradients().type;
  const bool has_masters = store.all_weights().type != type;
  States states{
      .masters = has_masters ? Tensor(*backend_, type, count) : Tensor(),
      .moments1 = Tensor(*backend_, type, count),
      .moments2 = Tensor(*backend_, type, count),
      .counted = share.counts ? counted_of(share, parts) : std::vector<Part>{},
      .saved = counted_of(share, parts_of_rank(share, share.group_size, share.group_rank))};
  backend_->fill(states.moments1, 0.0);
  backend_->fill(states.moments2, 0.0);

  for_each_slice(store, parts, [&](ParameterId id, const Part& range, std::int64_t place) {
    const Buffer weights = store.kept_weights(range);
    const auto state = [&](const Tensor& all) { return all.buffer().slice(place, range.count); };
    states.slices.push_back({.parameter = id,
                             .range = range,
                             .weights = weights,
                             .gradient = store.kept_gradients(range),
                             .master = has_masters ? state(states.masters) : weights,
                             .moment1 = state(states.moments1),
                             .moment2 = state(states.moments2)});
  });
  std::int64_t place = 0;
  for (const Part& part : parts) {
    if (has_masters) {
      store.fill_initial(*backend_, part.first, states.masters.buffer().slice(place, part.count));
    }
    place += part.count;
  }
  return states;
}

void Optimizer::add_squares(Buffer total) {
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    for (const Part& part : states_[i].counted) {
      backend_->add_squares(shares_[i].store->kept_gradients(part), total);
    }
  }
}

void Optimizer::step(const AdamW& settings) {
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    std::vector<AdamWSlice> updated;
    updated.reserve(states_[i].slices.size());
    for (const OwnedSlice& slice : states_[i].slices) {
      updated.push_back({.master = slice.master,
                         .moment1 = slice.moment1,
                         .moment2 = slice.moment2,
                         .gradient = slice.gradient,
                         .weights = slice.weights,
                         .decays = shares_[i].store->parameters()[slice.parameter].decays});
    }
    backend_->adamw(settings, updated);
  }
  zero_gradients();
}

void Optimizer::zero_gradients() {
  for (const StoreShare& share : shares_) {
    backend_->fill(share.store->all_gradients(), 0.0);
  }
}

std::vector<OwnedSlice> Optimizer::saved_slices(int store) const {
  std::vector<OwnedSlice> saved;
  for (const OwnedSlice& slice : states_[store].slices) {
    for (const Part& part : states_[store].saved) {
      const Part range = intersection(slice.range, part);
      if (range.count > 0) {
        saved.push_back(narrowed(slice, range));
      }
    }
  }
  return saved;
}

std::int64_t Optimizer::state_bytes(int store) const {
  const States& states = states_[store];
  return states.masters.buffer().bytes() + states.moments1.buffer().bytes() +
         states.moments2.buffer().bytes();
}

void Optimizer::round_masters() {
  for (const States& states : states_) {
    for (const OwnedSlice& slice : states.slices) {
      if (slice.master.type != slice.weights.type) {
        backend_->convert(slice.master, slice.weights);
      }
    }
  }
}

}  // namespace ptdp
