#include "runtime/checkpoint/earlier_names.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <string_view>

#include "runtime/parameters/block_range.h"

namespace ptdp {
namespace {

/// Parts of the earlier parameter, in their order there.
constexpr std::array<std::string_view, 3> kParts = {".attention.query.", ".attention.key.",
                                                    ".attention.value."};

/// Returns which of kParts a name has; the number of parts for another name.
std::size_t part_in(const std::string& name) {
  const auto* const found = std::find_if(kParts.begin(), kParts.end(), [&](std::string_view part) {
    return name.find(part) != std::string::npos;
  });
  return static_cast<std::size_t>(found - kParts.begin());
}

}  // namespace

std::optional<std::string> earlier_name(const std::string& name) {
  const std::size_t part = part_in(name);
  if (part == kParts.size()) {
    return std::nullopt;
  }
  std::string earlier = name;
  earlier.replace(earlier.find(kParts.at(part)), kParts.at(part).size(), ".attention.qkv.");
  return earlier;
}

std::vector<EarlierPart> earlier_parts(const Parameter& parameter, const Part& range,
                                       int head_size) {
  const std::size_t part = part_in(parameter.name);
  assert(part < kParts.size());
  const auto num_parts = static_cast<std::int64_t>(kParts.size());
  const bool is_vector = parameter.total_rows == 1;
  Parameter earlier = parameter;
  earlier.name = *earlier_name(parameter.name);
  (is_vector ? earlier.block.total_columns : earlier.total_rows) *= num_parts;
  const OutputRuns runs{.first = static_cast<std::int64_t>(part) * head_size,
                        .run = head_size,
                        .stride = num_parts * head_size};
  std::vector<EarlierPart> parts;
  for (const PlacedBlock& placed : placed_blocks(runs, is_vector, parameter.block, range)) {
    MatrixBlock& block = earlier.block;
    block.first_row = is_vector ? 0 : placed.first_output;
    block.first_column = is_vector ? placed.first_output : placed.first_input;
    block.rows = is_vector ? 1 : placed.outputs;
    block.columns = is_vector ? placed.outputs : placed.inputs;
    parts.push_back({.parameter = earlier, .values = placed.values});
  }
  return parts;
}

}  // namespace ptdp
