// A partition for people and for programs: text, `ptdp.partition/1` (described in
// FORMATS.md), CSV.
#pragma once

#include <array>
#include <string>

#include "cost_model/text/named_values.h"
#include "planner/answer_format.h"
#include "planner/partition_report/pipeline_partition.h"

namespace ptdp {

/// How the rows of several chunks per rank lie, as --placement and documents name it.
inline constexpr std::array kPlacementNames = {
    NamedValue<StagePlacement>{StagePlacement::kLooped, "looped"},
    NamedValue<StagePlacement>{StagePlacement::kV, "v"}};

[[nodiscard]] std::string summarize(const PipelinePartition& partition);
[[nodiscard]] std::string to_json(const PipelinePartition& partition);
/// A line per virtual stage, in model order, under a line of names.
[[nodiscard]] std::string to_csv(const PipelinePartition& partition);
[[nodiscard]] std::string in_format(AnswerFormat format, const PipelinePartition& partition);

}  // namespace ptdp
