// Lists the shipped profiles for people and programs: a table, or `ptdp.list/1` (described in
// FORMATS.md).
#pragma once

#include <array>
#include <string>

#include "cost_model/inputs/profile_files.h"
#include "cost_model/text/named_values.h"
#include "planner/answer_format.h"

namespace ptdp {

/// The kinds of profile that can be listed, as the command and the document name them.
inline constexpr std::array kListedKinds = {
    NamedValue<ProfileKind>{ProfileKind::kModel, "models"},
    NamedValue<ProfileKind>{ProfileKind::kCluster, "clusters"},
    NamedValue<ProfileKind>{ProfileKind::kGpu, "gpus"},
    NamedValue<ProfileKind>{ProfileKind::kStack, "stacks"}};

/// Returns the list of all profiles of a kind. Models come by size, each with the best published
/// throughput of its shape.
[[nodiscard]] std::string profile_list(ProfileKind kind, AnswerFormat format);

}  // namespace ptdp
