// A machine that takes exactly as long as some other profiles predict: runs on it without noise.
#pragma once

#include <string>
#include <vector>

#include "planner/runs/run_evidence.h"

namespace ptdp {

/// A model of some milliseconds per step and core.
[[nodiscard]] TransformerConfig small_model(int hidden_size, int seq_length);

/// The shipped host and its stack, for `model` and a batch.
[[nodiscard]] Scenario host_scenario(const TransformerConfig& model, std::int64_t batch);

/// The report of a run of `config`, planned for `believed` and run on a machine of `actual`, whose
/// job is that of `believed`.
[[nodiscard]] NamedReport run_on(const Scenario& actual, const Scenario& believed,
                                 const ParallelConfig& config,
                                 const std::string& name = "run.json");

/// What a plan takes on `machine` by its own profiles.
[[nodiscard]] double seconds_on(const Scenario& machine, const Scenario& job,
                                const ParallelConfig& config);

/// A configuration of the runtime, replicated optimizer.
[[nodiscard]] ParallelConfig layout(int tp, int pp, int dp, int micro_batch_size = 1);

/// One rank, tp, pp and dp of two, of two models: what tells most constants apart.
[[nodiscard]] std::vector<NamedReport> campaign(const Scenario& actual, const Scenario& believed);

}  // namespace ptdp
