// The strategies for sharding a training job that people choose between, each at its best.
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

/// A strategy for sharding a training job over GPUs.
enum class Strategy {
  /// PTD-P: pipeline, tensor and data parallelism with ZeRO stage 0 or 1, and with cp and ep (SC21,
  /// arXiv:2104.04473).
  kPtdP,
  kZero3,        ///< ZeRO-3: dp alone, all state sharded over all GPUs (arXiv:1910.02054).
  kZero3Tensor,  ///< ZeRO-3 over replicas that are tensor-parallel groups, tp of 2 and more.
  /// FSDP: full sharding with tp and pp of 1, with cp and ep; layers are gathered ahead
  /// (arXiv:2304.11277). Shards are replicated over groups, and gathered weights kept for the
  /// backward pass, when that is faster.
  kFsdp
};

/// The names of a strategy.
struct StrategyName {
  Strategy strategy;
  std::string_view key;      ///< Name in files: "zero-3".
  std::string_view name;     ///< Name for people: "ZeRO-3".
  std::string_view meaning;  ///< What it is, for people.
};
/// Names of all strategies, in the order in which they are compared.
inline constexpr std::array kStrategies = {
    StrategyName{Strategy::kPtdP, "ptd-p", "PTD-P", "tensor, pipeline and data parallelism"},
    StrategyName{Strategy::kZero3, "zero-3", "ZeRO-3",
                 "weights, gradients and optimizer states sharded over the replicas"},
    StrategyName{Strategy::kZero3Tensor, "zero-3-tp", "ZeRO-3 + TP",
                 "ZeRO-3 whose replicas are tensor-parallel groups"},
    StrategyName{Strategy::kFsdp, "fsdp", "FSDP",
                 "ZeRO-3 with weights gathered ahead of use, and kept, or shards replicated, where "
                 "that is faster"}};

/// The best configuration of a strategy, or why there is none.
struct StrategyResult {
  StrategyName name = kStrategies.front();
  /// Whether the stack runs the strategy. If not, the stack is costed as if it could. Its gathers
  /// and reductions of shards then run behind compute, as DeepSpeed's overlap_comm and FSDP's
  /// prefetching do. A stack without a pipeline then has 1F1B and its interleaved form.
  bool is_run_by_stack = true;
  SearchResult search;
  std::optional<Plan> plan;
  std::string reason;  ///< Why there is no plan, in one line; empty if there is one.
};

/// The best configuration of every strategy.
struct StrategyComparison {
  Scenario scenario;
  SearchOptions options;
  CalibrationFit calibration;           ///< One calibration for all, so that it favors none.
  MemoryBelief memory;                  ///< What runs say of memory beyond the formulas, for all.
  std::vector<StrategyResult> results;  ///< Results in the order of kStrategies.

  /// Returns the best result under the objective; null when no strategy can run.
  [[nodiscard]] const StrategyResult* best() const;
};

/// Searches once per strategy, within the pins of `options`. Recomputation, microbatch size,
/// sequence parallelism and other features of the stack are open to all strategies alike. Throws
/// Error for a scenario that cannot be costed.
[[nodiscard]] StrategyComparison compare_strategies(
    const Scenario& scenario, const SearchOptions& options,
    const CalibrationSource& calibration = CalibrationSource::shipped());

/// Returns how much worse than the best a result is, as a fraction. The result must have a plan.
[[nodiscard]] double loss(const StrategyComparison& comparison, const StrategyResult& result);

/// Returns what each strategy is, a sentence each.
[[nodiscard]] std::string strategies_text();
/// Returns what a person would otherwise wonder about: idle GPUs, and a batch that is the reason;
/// empty where there is nothing.
[[nodiscard]] std::string remark_on(const StrategyComparison& comparison,
                                    const StrategyResult& result);

/// Returns the comparison as text for people, with the `assumptions` at its end.
[[nodiscard]] std::string to_text(const StrategyComparison& comparison,
                                  const std::vector<std::string>& assumptions);
/// Returns the comparison as `ptdp.strategies/1`, described in FORMATS.md; equal comparisons give
/// equal bytes.
[[nodiscard]] std::string to_json(const StrategyComparison& comparison);
/// Returns the comparison as CSV: a header, then a line per strategy.
[[nodiscard]] std::string to_csv(const StrategyComparison& comparison);
/// Returns the comparison in a format; `assumptions` are for the text.
[[nodiscard]] std::string in_format(AnswerFormat format, const StrategyComparison& comparison,
                                    const std::vector<std::string>& assumptions);

}  // namespace ptdp
