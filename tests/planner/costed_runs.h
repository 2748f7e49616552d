// Measured runs with made-up predictions, and all published ones with theirs, for tests of what is
// computed from them.
#pragma once

#include <string>

#include "planner/accuracy/costed_runs.h"
#include "planner/accuracy/published_runs.h"

namespace ptdp {

/// Returns a run of a small model that was predicted at one second and took `ratio` seconds.
inline CostedRun run_of(const std::string& stack, const std::string& group, double ratio) {
  CostedRun run{.predicted = Seconds(1.0)};
  run.run.id = "run";
  run.run.cluster = "selene-a100";
  run.run.stack = stack;
  run.run.group = group;
  run.run.iteration_time = Seconds(ratio);
  run.run.model = resolved({.num_layers = 2,
                            .hidden_size = 64,
                            .num_attention_heads = 2,
                            .vocab_size = 128,
                            .seq_length = 32},
                           "test");
  run.run.global_batch_size = 1;
  return run;
}

/// Returns all published runs, costed once for the whole program.
inline const CostedRuns& costed_published_runs() {
  static const CostedRuns runs = cost_runs(read_published_runs());
  return runs;
}

}  // namespace ptdp
