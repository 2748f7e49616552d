// A simulated machine that takes exactly as long as its own profiles predict, without noise.
#pragma once

#include <string>
#include <vector>

#include "planner/runs/run_evidence.h"

namespace ptdp {

/// Number of machines that a test of refits distorts at random. A refit takes a sanitizer a second.
#ifdef __SANITIZE_ADDRESS__
inline constexpr int kDistortedMachines = 3;
#else
inline constexpr int kDistortedMachines = 20;
#endif

/// Returns a model whose step takes some milliseconds per core.
[[nodiscard]] TransformerConfig small_model(int hidden_size, int seq_length);

/// Returns the shipped host and its stack, for `model` and a batch.
[[nodiscard]] Scenario host_scenario(const TransformerConfig& model, std::int64_t batch);

/// Returns the report of a run of `config` that was planned for `believed` and ran on a machine of
/// `actual`. The job is that of `believed`.
[[nodiscard]] NamedReport run_on(const Scenario& actual, const Scenario& believed,
                                 const ParallelConfig& config,
                                 const std::string& name = "run.json");

/// Returns the seconds that a plan takes on `machine` by the machine's own profiles.
[[nodiscard]] double seconds_on(const Scenario& machine, const Scenario& job,
                                const ParallelConfig& config);

/// Returns a configuration of the runtime with a replicated optimizer.
[[nodiscard]] ParallelConfig layout(int tp, int pp, int dp, int micro_batch_size = 1);

/// Returns runs of two models with one rank, and with tp, pp and dp of two: together they tell most
/// constants apart.
[[nodiscard]] std::vector<NamedReport> campaign(const Scenario& actual, const Scenario& believed);

}  // namespace ptdp
