// A partition for people and for programs: text, `ptdp.partition/1` (described in
// FORMATS.md), CSV.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "cost_model/text/named_values.h"
#include "cost_model/text/object_writer.h"
#include "planner/answer_format.h"
#include "planner/partition_report/pipeline_partition.h"

namespace ptdp {

/// Names of the placements of several chunks per rank, as --placement and documents have them.
inline constexpr std::array kPlacementNames = {
    NamedValue<StagePlacement>{StagePlacement::kLooped, "looped"},
    NamedValue<StagePlacement>{StagePlacement::kV, "v"}};

/// Returns the stages of a partition and its ranks as two tables for people.
[[nodiscard]] std::string tables_of(const PipelinePartition& partition);
/// Returns the virtual stages of a partition as objects of `ptdp.partition/1`.
[[nodiscard]] std::vector<ObjectWriter> written_stages(const PipelinePartition& partition);

/// Returns the partition as text for people: stages, ranks, and a comparison with the even split.
[[nodiscard]] std::string to_text(const PipelinePartition& partition);
/// Returns the partition as a `ptdp.partition/1` document.
[[nodiscard]] std::string to_json(const PipelinePartition& partition);
/// Returns the partition as CSV: a line of names, then a line per virtual stage in model order.
[[nodiscard]] std::string to_csv(const PipelinePartition& partition);
/// Returns the partition in one of kOrderFormats.
[[nodiscard]] std::string in_format(AnswerFormat format, const PipelinePartition& partition);

}  // namespace ptdp
