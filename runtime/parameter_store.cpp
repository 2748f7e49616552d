#include "runtime/parameter_store.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "kernels/counter_random.h"

namespace ptdp {
namespace {

/// FNV-1a, 64 bits. Source: Fowler, Noll & Vo, draft-eastlake-fnv, section 2.
constexpr std::uint64_t hash_of(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char character : name) {
    hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001B3U;
  }
  return hash;
}

/// Fills `to` with the variates of the elements of `block`, counted row by row, from `first` on.
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
  parameters_.push_back(std::move(parameter));
  return static_cast<ParameterId>(parameters_.size()) - 1;
}

void ParameterStore::allocate(Backend& backend, DataType type, std::uint64_t seed) {
  std::int64_t size = 0;
  for (const GradientGroup group :
       {GradientGroup::kTied, GradientGroup::kSummedOverTensor, GradientGroup::kOwn}) {
    for (Parameter& parameter : parameters_) {
      if (parameter.group == group) {
        parameter.first = size;
        size += parameter.size();
      }
    }
  }
  weights_ = Tensor(backend, type, size);
  gradients_ = Tensor(backend, accumulator_of(type), size);
  seed_ = seed;
  fill_initial(backend, 0, weights_);
  backend.fill(gradients_, 0.0);
}

void ParameterStore::fill_initial(Backend& backend, std::int64_t first, Buffer to) const {
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

Buffer ParameterStore::weights(ParameterId id) const {
  const Parameter& parameter = parameters_[static_cast<std::size_t>(id)];
  return weights_.buffer().slice(parameter.first, parameter.size());
}

Buffer ParameterStore::gradient(ParameterId id) const {
  const Parameter& parameter = parameters_[static_cast<std::size_t>(id)];
  return gradients_.buffer().slice(parameter.first, parameter.size());
}

std::int64_t ParameterStore::first_of(GradientGroup group) const {
  std::int64_t first = 0;
  for (const Parameter& parameter : parameters_) {
    first += parameter.group < group ? parameter.size() : 0;
  }
  return first;
}

std::int64_t ParameterStore::count_of(GradientGroup group) const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters_) {
    count += parameter.group == group ? parameter.size() : 0;
  }
  return count;
}

}  // namespace ptdp
