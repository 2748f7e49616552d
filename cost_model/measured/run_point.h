// Where a training run lies among others, as far as the error of a prediction depends on it.
#pragma once

#include <cstdint>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/text/described.h"

namespace ptdp {

/// What a factor fitted to other runs may not carry over: the size of the model and how it is
/// spread. Everything else (microbatch, schedule, data parallelism beyond the number of GPUs) did
/// not tell runs with large residuals from those with small ones.
struct RunPoint {
  std::int64_t parameters = 1;
  std::int64_t gpus = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  Recompute recompute = Recompute::kNone;

  friend bool operator==(const RunPoint&, const RunPoint&) = default;
};

[[nodiscard]] RunPoint run_point(const TransformerConfig& model, const ParallelConfig& config);

/// How far two runs are apart: |log2| of the ratio of their parameters, GPUs, tp and pp, and 1
/// where they recompute differently. Twice the GPUs by twice the pipeline stages is 2 apart.
[[nodiscard]] double distance(const RunPoint& a, const RunPoint& b);

/// The two directions of JSON, for ObjectReader and ObjectWriter.
template <class Fields>
void describe(Fields& fields, Described<Fields, RunPoint>& point);

}  // namespace ptdp
