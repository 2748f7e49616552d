// A partition for people and for programs: text, `ptdp.partition/1` (described in
// FORMATS.md), CSV.
#pragma once

#include <string>

#include "planner/partition_report/pipeline_partition.h"

namespace ptdp {

[[nodiscard]] std::string summarize(const PipelinePartition& partition);
[[nodiscard]] std::string to_json(const PipelinePartition& partition);
/// A line per virtual stage, in model order, under a line of names.
[[nodiscard]] std::string to_csv(const PipelinePartition& partition);

}  // namespace ptdp
