// Where a training run lies among others, as far as the error of a prediction depends on it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/text/described.h"
#include "cost_model/text/named_values.h"

namespace ptdp {

/// What a run has beyond sizes, of which a factor fitted to runs without it may know nothing.
enum class RunFeature : std::uint8_t {
  kContextParallel,
  kExpertParallel,
  kInterleaved,  ///< Several model chunks per GPU, under any schedule.
  kSplitBackward,
  kZero3,
  kOffload
};
inline constexpr std::array kRunFeatureNames = {
    NamedValue<RunFeature>{RunFeature::kContextParallel, "context parallelism"},
    NamedValue<RunFeature>{RunFeature::kExpertParallel, "expert parallelism"},
    NamedValue<RunFeature>{RunFeature::kInterleaved, "interleaved stages"},
    NamedValue<RunFeature>{RunFeature::kSplitBackward, "split backward passes"},
    NamedValue<RunFeature>{RunFeature::kZero3, "ZeRO-3"},
    NamedValue<RunFeature>{RunFeature::kOffload, "offloading"}};

/// The place of a training run among others: the size of its model and how the model is spread. A
/// factor fitted to other runs may not hold if these differ. Everything else (microbatch, data
/// parallelism beyond the number of GPUs) did not tell runs with large residuals from others.
struct CalibrationPoint {
  std::int64_t parameters = 1;
  std::int64_t seq_length = 1;
  std::int64_t gpus = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  Recompute recompute = Recompute::kNone;
  std::string precision = {};             ///< As in precision_names(); empty: not known.
  std::vector<RunFeature> features = {};  ///< In the order of their declaration.

  friend bool operator==(const CalibrationPoint&, const CalibrationPoint&) = default;
};

/// Returns the place of a run of the scenario's model and stack with `config`. Throws Error above
/// 10^18 parameters.
[[nodiscard]] CalibrationPoint run_point(const Scenario& scenario, const ParallelConfig& config);
/// Returns the place of a run of `model` in a precision of precision_names(), or an unknown one if
/// that is empty, with `config`. Throws Error above 10^18 parameters.
[[nodiscard]] CalibrationPoint run_point(const TransformerConfig& model, std::string precision,
                                         const ParallelConfig& config);

/// Returns the name of a job: its parameters, sequence length, batch [sequences] and GPUs. Runs of
/// one job differ in layout, schedule, precision and what overlaps.
[[nodiscard]] std::string job_name(const TransformerConfig& model, std::int64_t global_batch_size,
                                   std::int64_t gpus);

/// Returns how far two runs are apart: the sum of |log2| of the ratios of their parameters,
/// sequence lengths, GPUs, tp and pp, plus 1 if they recompute differently. Twice the GPUs by twice
/// the pipeline stages is 2 apart.
[[nodiscard]] double distance(const CalibrationPoint& a, const CalibrationPoint& b);

/// Returns a line for each thing of `point` that none of the others has, or no other has together.
/// The point with index `left_out` does not count, and without others there is no line.
[[nodiscard]] std::vector<std::string> never_measured(const CalibrationPoint& point,
                                                      const std::vector<CalibrationPoint>& others,
                                                      std::size_t left_out);

/// Reads or writes a point's JSON; `fields` is an ObjectReader or an ObjectWriter.
template <class Fields>
void describe(Fields& fields, Described<Fields, CalibrationPoint>& point);

}  // namespace ptdp
