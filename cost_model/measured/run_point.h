// Where a training run lies among others, as far as the error of a prediction depends on it.
#pragma once

#include <cstdint>
#include <string>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/text/described.h"

namespace ptdp {

/// The place of a training run among others: the size of its model and how the model is spread. A
/// factor fitted to other runs may not hold if these differ. Everything else (microbatch, schedule,
/// data parallelism beyond the number of GPUs) did not tell runs with large residuals from others.
struct CalibrationPoint {
  std::int64_t parameters = 1;
  std::int64_t seq_length = 1;
  std::int64_t gpus = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  Recompute recompute = Recompute::kNone;

  friend bool operator==(const CalibrationPoint&, const CalibrationPoint&) = default;
};

/// Returns the place of a run of `model` with `config`. Throws Error above 10^18 parameters.
[[nodiscard]] CalibrationPoint run_point(const TransformerConfig& model,
                                         const ParallelConfig& config);

/// Returns the name of a job: its parameters, sequence length, batch [sequences] and GPUs. Runs of
/// one job differ in layout, schedule, precision and what overlaps.
[[nodiscard]] std::string job_name(const TransformerConfig& model, std::int64_t global_batch_size,
                                   std::int64_t gpus);

/// Returns how far two runs are apart: the sum of |log2| of the ratios of their parameters,
/// sequence lengths, GPUs, tp and pp, plus 1 if they recompute differently. Twice the GPUs by twice
/// the pipeline stages is 2 apart.
[[nodiscard]] double distance(const CalibrationPoint& a, const CalibrationPoint& b);

/// Reads or writes a point's JSON; `fields` is an ObjectReader or an ObjectWriter.
template <class Fields>
void describe(Fields& fields, Described<Fields, CalibrationPoint>& point);

}  // namespace ptdp
