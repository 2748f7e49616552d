#include "runtime/checkpoint/earlier_names.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <string_view>

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
  const MatrixBlock& block = parameter.block;
  const bool is_bias = parameter.total_rows == 1;
  std::vector<EarlierPart> parts;
  for (std::int64_t done = 0; done < range.count;) {
    const std::int64_t column = (range.first + done) % block.columns;
    const std::int64_t left = range.count - done;
    // An output is a row of the matrix or an element of the bias. Those of a head lie together.
    const std::int64_t output = is_bias ? block.first_column + column
                                        : block.first_row + (range.first + done) / block.columns;
    const std::int64_t together = head_size - output % head_size;
    const std::int64_t there =
        (output / head_size * num_parts + static_cast<std::int64_t>(part)) * head_size +
        output % head_size;
    const bool is_whole = !is_bias && column == 0 && left >= block.columns;
    EarlierPart found{.parameter = parameter, .values = {}};
    found.parameter.name = *earlier_name(parameter.name);
    MatrixBlock& place = found.parameter.block;
    place.rows = is_whole ? std::min(left / block.columns, together) : 1;
    place.columns = is_whole ? block.columns
                             : std::min({left, block.columns - column, is_bias ? together : left});
    if (is_bias) {
      place.first_column = there;
      place.total_columns = num_parts * block.total_columns;
    } else {
      place.first_row = there;
      place.first_column = block.first_column + column;
      found.parameter.total_rows = num_parts * parameter.total_rows;
    }
    found.values = {done, place.rows * place.columns};
    done += found.values.count;
    parts.push_back(std::move(found));
  }
  return parts;
}

}  // namespace ptdp
