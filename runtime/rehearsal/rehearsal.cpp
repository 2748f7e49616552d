#include "runtime/rehearsal/rehearsal.h"

#include <utility>

#include "runtime/executor/executor.h"
#include "runtime/rehearsal/rehearsal_communicator.h"

namespace ptdp {
namespace {

bool is_interrupted(const RehearsalOptions& options) {
  return options.interrupt != nullptr && *options.interrupt != 0;
}

RehearsalRecord run_steps(Executor& executor, const Backend& backend,
                          const RehearsalOptions& options) {
  RehearsalRecord record{.rank = {}, .kept = kept_by(executor.optimizer())};
  std::vector<StepRecord>& steps = record.rank.steps;
  for (std::int64_t done = 0; done < options.warm_up + options.measured;) {
    StepRecord step = executor.run_step();
    if (step.is_skipped) {
      continue;  // the executor throws when the scale cannot be smaller
    }
    ++done;
    if (options.on_step) {
      options.on_step(done, step);
    }
    if (done > options.warm_up) {
      steps.push_back(std::move(step));
    }
    if (std::ssize(steps) > kDetailedSteps) {
      steps.erase(steps.begin());
    }
  }
  record.rank.peak_bytes = backend.peak_bytes();
  record.rank.peak_activations = executor.peak_activations();
  executor.add_sent(record.rank);
  return record;
}

}  // namespace

RehearsalRecord rehearse(const TrainingSettings& settings, const TrainingData& data,
                         Backend& backend, const RehearsalOptions& options) {
  TrainingSettings resting = settings;
  resting.learning_rate = {.maximum = 0.0, .minimum = 0.0};
  const ParallelConfig& config = settings.config;
  CacheEvictor others(options.memory_of_others);
  RehearsalCommunicator world(backend, others, options.pipeline_rank * config.tp * config.dp,
                              static_cast<int>(config.world_size()));
  ActionHooks hooks;
  hooks.before = [&options](std::int64_t /*step*/, const Action& /*action*/, Lane /*lane*/) {
    if (is_interrupted(options)) {
      throw RehearsalInterrupted();
    }
  };
  try {
    Executor executor(backend, world, resting, data, std::move(hooks));
    return run_steps(executor, backend, options);
  } catch (...) {
    if (is_interrupted(options)) {
      throw RehearsalInterrupted();
    }
    throw;
  }
}

}  // namespace ptdp
