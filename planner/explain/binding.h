// What binds a plan: the memory of a stage, a link, the bubble.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "cost_model/inputs/rank_grid.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/memory/memory.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/text/named_values.h"

namespace ptdp {

/// What communication crosses.
enum class Link { kNode, kNetwork };
inline constexpr std::array kLinkNames = {NamedValue<Link>{Link::kNode, "links within nodes"},
                                          NamedValue<Link>{Link::kNetwork, "network"}};

/// A part of an iteration's time, above what the model's FLOPs take at the peak.
struct BoundTime {
  std::string_view term;  ///< Name of the term in kCostTerms; kBelowPeak for products.
  Seconds time;
};
/// Name of the time that these take beyond what the model's FLOPs take at the peak.
inline constexpr std::string_view kBelowPeak = "products, attention, embedding and loss";

/// Communication that compute does not hide, and the slowest link that it crosses.
struct BoundLink {
  BoundTime part;
  Link link = Link::kNode;
};

/// What binds a plan.
struct Binding {
  int rank = 0;                   ///< Pipeline rank that holds most memory.
  std::string_view category;      ///< Its largest category, a name of kMemoryTerms.
  Bytes of_category;              ///< Size of that category.
  Bytes free;                     ///< Usable memory that the rank leaves free.
  Seconds at_peak;                ///< Time of the model's causal FLOPs at the peak of all GPUs.
  BoundTime largest;              ///< The largest part above that.
  std::optional<BoundLink> link;  ///< The largest exposed communication; nullopt if there is none.
  Seconds bubble;                 ///< Bubble of the breakdown.
  /// (p − 1)/(v·m), the bubble over the passes of one rank in SC21's closed formula
  /// (section 2.2.2); 0 without a pipeline.
  double bubble_formula = 0.0;
};

/// Returns where the groups lie in which the collectives or messages of a term of kCostTerms go
/// around; nullopt for terms that are no communication between GPUs.
[[nodiscard]] std::optional<GroupPlacement> placement_of(std::string_view term,
                                                         const PlannedJob& job);

/// Finds what binds a plan, given its breakdown, its memory by pipeline rank and the usable memory.
[[nodiscard]] Binding find_binding(const PlannedJob& job, const CostBreakdown& cost,
                                   const std::vector<MemoryBreakdown>& stages, Bytes usable);

}  // namespace ptdp
