#include "runtime/parameters/parameter_store.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "cost_model/pipeline_rank/aligned_ranges.h"
#include "kernels/counter_random.h"
#include "runtime/parameters/block_range.h"

namespace ptdp {
namespace {

/// Returns the FNV-1a hash of a name, 64 bits. Source: Fowler, Noll & Vo, draft-eastlake-fnv,
/// section 2.
constexpr std::uint64_t hash_of(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char character : name) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001B3U;
  }
  return hash;
}

/// Fills `to` with the normal variates of a block's elements, counted row by row, from element
/// `first` on.
void fill_normal_range(Backend& backend, const MatrixBlock& block, std::int64_t first, Buffer to,
                       std::uint64_t key, double deviation) {
  std::int64_t done = 0;
  while (done < to.size) {
    const std::int64_t row = (first + done) / block.columns;
    const std::int64_t column = (first + done) % block.columns;
    const std::int64_t left = to.size - done;
    const bool is_whole = column == 0 && left >= block.columns;
    const MatrixBlock piece = {
        .first_row = block.first_row + row,
        .first_column = block.first_column + column,
        .rows = is_whole ? left / block.columns : 1,
        .columns = is_whole ? block.columns : std::min(left, block.columns - column),
        .total_columns = block.total_columns};
    backend.fill_normal(to.slice(done, piece.rows * piece.columns), piece, key, deviation);
    done += piece.rows * piece.columns;
  }
}

}  // namespace

ParameterId ParameterStore::declare(Parameter parameter) {
  assert(weights_.empty());
  parameter.unit = unit_;
  parameters_.push_back(std::move(parameter));
  return static_cast<ParameterId>(parameters_.size()) - 1;
}

void ParameterStore::allocate(Backend& backend, DataType type, std::uint64_t seed,
                              const StoreShards& shards) {
  assert(shards.of_gradients || !shards.of_weights);
  shards_ = shards;
  seed_ = seed;
  lay_out();
  if (shards.of_gradients) {
    make_units();
  }
  const std::int64_t kept =
      units_.empty() ? size_ : units_.back().first_kept + units_.back().own.count;
  weights_ = Tensor(backend, type, shards.of_weights ? kept : size_);
  gradients_ = Tensor(backend, accumulator_of(type), kept);
  if (shards.of_weights) {
    for (const ParameterUnit& unit : units_) {
      fill_initial(backend, unit.own.first, kept_weights(unit.own));
    }
  } else {
    fill_initial(backend, 0, weights_);
  }
  backend.fill(gradients_, 0.0);
}

void ParameterStore::lay_out() {
  std::vector<Parameter*> order;
  order.reserve(parameters_.size());
  for (Parameter& parameter : parameters_) {
    order.push_back(&parameter);
  }
  std::stable_sort(order.begin(), order.end(), [&](const Parameter* a, const Parameter* b) {
    const bool is_of_another = shards_.of_gradients && a->unit != b->unit;
    return is_of_another ? a->unit < b->unit : a->group < b->group;
  });
  // Parameters of one number are reduced and gathered together.
  const auto range_of = [&](const Parameter& parameter) {
    return shards_.of_gradients ? parameter.unit
                                : static_cast<int>(parameter.group != GradientGroup::kTied);
  };
  size_ = 0;
  const Parameter* before = nullptr;
  for (Parameter* parameter : order) {
    if (before != nullptr && range_of(*before) != range_of(*parameter)) {
      end_range();
    }
    parameter->first = size_;
    size_ += parameter->size();
    before = parameter;
  }
  end_range();
}

/// Pads what is laid out so far, so that the next range begins at a multiple of A.
void ParameterStore::end_range() {
  const std::int64_t end = padded(size_, shards_.group_size);
  if (end > size_) {
    padding_.push_back({size_, end - size_});
  }
  size_ = end;
}

void ParameterStore::make_units() {
  units_.resize(static_cast<std::size_t>(unit_) + 1);
  whole_weights_.resize(units_.size());
  whole_gradients_.resize(units_.size());
  for (const Parameter& parameter : parameters_) {
    assert(parameter.group != GradientGroup::kTied);
    ParameterUnit& unit = units_[static_cast<std::size_t>(parameter.unit)];
    unit.range.count += parameter.size();
    unit.num_summed += parameter.group == GradientGroup::kSummedOverTensor ? parameter.size() : 0;
  }
  std::int64_t first = 0;
  std::int64_t kept = 0;
  for (ParameterUnit& unit : units_) {
    unit.range.count = padded(unit.range.count, shards_.group_size);
    const Part own = part_of(unit.range.count, shards_.group_size, shards_.group_rank);
    unit.range.first = first;
    unit.own = {first + own.first, own.count};
    unit.first_kept = kept;
    first += unit.range.count;
    kept += own.count;
  }
}

/// Returns the place in the buffers of shards of an element that this rank keeps.
std::int64_t ParameterStore::place_in_shards(std::int64_t element) const {
  const auto behind = std::upper_bound(
      units_.begin(), units_.end(), element,
      [](std::int64_t place, const ParameterUnit& unit) { return place < unit.own.first; });
  assert(behind != units_.begin());
  const ParameterUnit& unit = *(behind - 1);
  return unit.first_kept + element - unit.own.first;
}

Buffer ParameterStore::kept_weights(const Part& range) const {
  const std::int64_t first = shards_.of_weights ? place_in_shards(range.first) : range.first;
  return weights_.buffer().slice(first, range.count);
}

Buffer ParameterStore::kept_gradients(const Part& range) const {
  const std::int64_t first = shards_.of_gradients ? place_in_shards(range.first) : range.first;
  return gradients_.buffer().slice(first, range.count);
}

void ParameterStore::fill_initial(Backend& backend, std::int64_t first, Buffer to) const {
  for (const Part& padding : padding_) {
    const Part here = intersection(padding, {first, to.size});
    if (here.count > 0) {
      backend.fill(to.slice(here.first - first, here.count), 0.0);
    }
  }
  for (const Parameter& parameter : parameters_) {
    const std::int64_t from = std::max(first, parameter.first);
    const std::int64_t end = std::min(first + to.size, parameter.first + parameter.size());
    if (from >= end) {
      continue;
    }
    const Buffer values = to.slice(from - first, end - from);
    if (parameter.deviation == 0.0) {
      backend.fill(values, parameter.constant);
      continue;
    }
    const MatrixBlock& block = parameter.block;
    const std::int64_t valid_rows =
        std::clamp<std::int64_t>(parameter.total_rows - block.first_row, 0, block.rows);
    const std::int64_t element = from - parameter.first;
    const std::int64_t valid =
        std::clamp<std::int64_t>(valid_rows * block.columns - element, 0, values.size);
    fill_normal_range(backend, block, element, values.slice(0, valid),
                      derived_key(seed_, hash_of(parameter.name)), parameter.deviation);
    backend.fill(values.slice(valid, values.size - valid), 0.0);
  }
}

ParameterId ParameterStore::id_of(std::string_view name) const {
  const auto found = std::find_if(parameters_.begin(), parameters_.end(),
                                  [&](const Parameter& p) { return p.name == name; });
  assert(found != parameters_.end());
  return static_cast<ParameterId>(found - parameters_.begin());
}

Part ParameterStore::range_of(ParameterId id, int count) const {
  const auto all =
      parameters().subspan(static_cast<std::size_t>(id), static_cast<std::size_t>(count));
  Part range{all.front().first, 0};
  for (const Parameter& parameter : all) {
    assert(parameter.first == range.first + range.count);
    range.count += parameter.size();
  }
  return range;
}

Buffer ParameterStore::in_flat_or_unit(ParameterId id, int count, bool is_sharded,
                                       const Tensor& flat, const std::vector<Tensor>& units) const {
  const Part range = range_of(id, count);
  if (!is_sharded) {
    return flat.buffer().slice(range.first, range.count);
  }
  const auto unit = static_cast<std::size_t>(parameters_[static_cast<std::size_t>(id)].unit);
  return units[unit].buffer().slice(range.first - units_[unit].range.first, range.count);
}

Buffer ParameterStore::weights(ParameterId id, int count) const {
  return in_flat_or_unit(id, count, shards_.of_weights, weights_, whole_weights_);
}

Buffer ParameterStore::gradient(ParameterId id, int count) const {
  return in_flat_or_unit(id, count, shards_.of_gradients, gradients_, whole_gradients_);
}

std::int64_t ParameterStore::first_of(GradientGroup group) const {
  switch (group) {
    case GradientGroup::kTied:
      return tied_range().first;
    case GradientGroup::kSummedOverTensor:
      return tied_range().count;
    case GradientGroup::kOwn:
      return tied_range().count + count_of(GradientGroup::kSummedOverTensor);
  }
  return 0;
}

std::int64_t ParameterStore::count_of(GradientGroup group) const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters_) {
    count += parameter.group == group ? parameter.size() : 0;
  }
  return count;
}

Part ParameterStore::tied_range() const {
  assert(units_.empty());
  return {0, padded(count_of(GradientGroup::kTied), shards_.group_size)};
}

std::vector<Part> ParameterStore::summed_over_tensor() const {
  if (units_.empty()) {
    const GradientGroup group = GradientGroup::kSummedOverTensor;
    return {{first_of(group), count_of(group)}};
  }
  std::vector<Part> parts;
  for (const ParameterUnit& unit : units_) {
    parts.push_back(intersection(unit.own, {unit.range.first, unit.num_summed}));
  }
  return parts;
}

}  // namespace ptdp
