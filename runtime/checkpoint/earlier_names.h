// Where parameters lie in checkpoints of version 0.1.0, which had queries, keys and values in one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/parameters/parameter_store.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// Elements of a parameter that lie together in an earlier one.
struct EarlierPart {
  Parameter parameter;  ///< The earlier parameter; its block has just these elements.
  Part values;          ///< The elements, counted from the beginning of the range.
};

/// Returns the earlier name of a parameter, such as "layers.3.attention.qkv.weight" for queries,
/// keys and values; nullopt for parameters that have kept their names.
[[nodiscard]] std::optional<std::string> earlier_name(const std::string& name);

/// Returns where `range` of a parameter's block lies in the earlier parameter, whose rows were
/// [head][query, key, value][head_size]. The parameter must have an earlier name.
[[nodiscard]] std::vector<EarlierPart> earlier_parts(const Parameter& parameter, const Part& range,
                                                     int head_size);

}  // namespace ptdp
