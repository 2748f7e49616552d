// The ways to shard a training job that people choose between, each at its best.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/accuracy/calibration_file.h"
#include "planner/answer_format.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"

namespace ptdp {

enum class Strategy {
  kPtdP,         ///< tp·pp·dp, with cp and ep; ZeRO stage 0 or 1 (SC21, arXiv:2104.04473).
  kZero3,        ///< dp alone, all state sharded over all GPUs (arXiv:1910.02054).
  kZero3Tensor,  ///< The same over tensor-parallel groups, tp of 2 and more.
  /// tp and pp of 1; layers gathered ahead (arXiv:2304.11277), in groups that are replicated and
  /// kept for the backward pass where that is faster, with cp and ep.
  kFsdp
};

/// A strategy as it is named in files and to people.
struct StrategyName {
  Strategy strategy;
  std::string_view key;
  std::string_view name;
};
inline constexpr std::array kStrategies = {
    StrategyName{Strategy::kPtdP, "ptd-p", "PTD-P"},
    StrategyName{Strategy::kZero3, "zero-3", "ZeRO-3"},
    StrategyName{Strategy::kZero3Tensor, "zero-3-tp", "ZeRO-3 + TP"},
    StrategyName{Strategy::kFsdp, "fsdp", "FSDP"}};

/// The best configuration of a strategy, or why there is none.
struct StrategyResult {
  StrategyName name = kStrategies.front();
  /// False: the stack is costed as if it could. It then also gathers and reduces behind compute
  /// what it shards, as DeepSpeed's overlap_comm and FSDP's prefetching do, and has 1F1B and
  /// its interleaved form where it has no pipeline.
  bool is_run_by_stack = true;
  SearchResult search;
  std::optional<Plan> plan;
  std::string reason;  ///< One line, without a plan.
};

struct StrategyComparison {
  Scenario scenario;
  SearchOptions options;
  CalibrationFit calibration;           ///< One for all, so that it favours none.
  std::vector<StrategyResult> results;  ///< As in kStrategies.

  /// The best of the best under the objective; null where none can run.
  [[nodiscard]] const StrategyResult* best() const;
};

/// Searches once per strategy, within the pins of `options`: recomputation, microbatch size,
/// sequence parallelism and the rest of the stack's features are the same for all. Throws Error for
/// a scenario that cannot be costed.
[[nodiscard]] StrategyComparison compare_strategies(
    const Scenario& scenario, const SearchOptions& options,
    const CalibrationSource& calibration = CalibrationSource::shipped());

/// By how much a result that has a plan is worse than the best, as a fraction.
[[nodiscard]] double loss(const StrategyComparison& comparison, const StrategyResult& result);

/// The comparison for people; as `ptdp.strategies/1`, described in FORMATS.md; and with one
/// line of comma-separated values per strategy. Equal comparisons give equal bytes.
[[nodiscard]] std::string summarize(const StrategyComparison& comparison,
                                    const std::vector<std::string>& assumptions);
[[nodiscard]] std::string to_json(const StrategyComparison& comparison);
[[nodiscard]] std::string to_csv(const StrategyComparison& comparison);
/// The comparison in a format; `assumptions` are for people.
[[nodiscard]] std::string in_format(AnswerFormat format, const StrategyComparison& comparison,
                                    const std::vector<std::string>& assumptions);

}  // namespace ptdp
