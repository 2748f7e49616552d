#include "runtime/training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <new>

#include "runtime/checkpoint_writer.h"
#include "runtime/run_journal.h"
#include "runtime/transport/launch.h"
#include "runtime/watched_communicator.h"

namespace ptdp {
namespace {

// On a terminal: what works, and the ranks that wait longest for it.
constexpr std::size_t kFewLines = 24;
constexpr std::size_t kFewEnded = 4;

/// What failed first on the ranks of this process.
struct RankFailure {
  RunFault fault;
  ExitStatus status = ExitStatus::kRuntimeFault;
  bool is_out_of_memory = false;
  std::int64_t peak_bytes = 0;  ///< Of the rank.
};

/// What the ranks of a run share.
struct SharedRun {
  SharedRun(const TrainingSettings& run_settings, const TrainingData& run_data,
            const RunOptions& run_options, std::int64_t first, int num_ranks);

  const TrainingSettings& settings;
  const TrainingData& data;
  const RunOptions& options;
  std::int64_t first_step = 0;
  /// Steps after this one are not run. Rank 0 lowers it at the start of a step; no rank begins the
  /// next before all have met in the norm of this one, so that all see it.
  std::atomic<std::int64_t> last_step = 0;
  std::atomic<std::int64_t> saved_step = -1;  ///< While its checkpoint is being written.

  RunJournal journal;
  ActionLog log;
  std::mutex failure_mutex;
  std::optional<RankFailure> failure;
  Watchdog watchdog;  ///< Last: it looks at the others.
};

/// `message`: where no rank said why.
EarlyEnd early_end(SharedRun& run, const std::string& message, ExitStatus status) {
  EarlyEnd end{.record = {.first_step = run.first_step, .ranks = run.journal.common_steps()},
               .asked_steps = run.options.steps,
               .signal = run.watchdog.interrupt(),
               .fault = message,
               .status = status,
               .actions = describe_actions(run.log, SIZE_MAX, ActionLog::kKept),
               .few_actions = describe_actions(run.log, kFewLines, kFewEnded)};
  if (const std::optional<RunFault> fault = run.watchdog.fault()) {
    end.fault = to_string(*fault);
    const std::lock_guard lock(run.failure_mutex);
    if (run.failure && run.failure->fault.rank == fault->rank) {
      end.status = run.failure->status;
      end.out_of_memory_rank = run.failure->is_out_of_memory ? fault->rank : -1;
      end.out_of_memory_peak = run.failure->peak_bytes;
    }
  }
  return end;
}

SharedRun::SharedRun(const TrainingSettings& run_settings, const TrainingData& run_data,
                     const RunOptions& run_options, std::int64_t first, int num_ranks)
    : settings(run_settings),
      data(run_data),
      options(run_options),
      first_step(first),
      last_step(first + run_options.steps - 1),
      journal(num_ranks),
      log(0, num_ranks),
      watchdog(log,
               {.deadlines = run_options.deadlines,
                .interrupt = run_options.interrupt,
                .give_up = [this] {
                  if (options.give_up) {
                    options.give_up(early_end(*this, "does not end", ExitStatus::kRuntimeFault));
                  }
                }}) {}

/// The watchdog may end waits in a rank's world as long as this lives.
class WatchedWorld {
 public:
  WatchedWorld(Watchdog& watchdog, Communicator& world) : watchdog_(watchdog), world_(world) {
    watchdog_.add(world_);
  }
  WatchedWorld(const WatchedWorld&) = delete;
  WatchedWorld& operator=(const WatchedWorld&) = delete;
  WatchedWorld(WatchedWorld&&) = delete;
  WatchedWorld& operator=(WatchedWorld&&) = delete;
  ~WatchedWorld() { watchdog_.remove(world_); }

 private:
  Watchdog& watchdog_;
  Communicator& world_;
};

/// Whether this rank tells of its steps: of those that know the loss, the first.
bool reports(const TrainingSettings& settings, const Executor& executor) {
  const ProcessGroups& groups = executor.groups();
  const int last_stage = num_stages(settings.schedule) - 1;
  return groups.tensor_rank == 0 && groups.data_rank == 0 &&
         groups.pipeline_rank == rank_of(settings.schedule, last_stage, 0);
}

/// Steps of this run, from its first action to the end of the last.
void report_step(const SharedRun& run, std::int64_t step, const StepRecord& record,
                 double& step_before) {
  const double end = record.step.end.value();
  // A checkpoint may lie between two steps.
  const double start = std::max(record.step.start.value(), step_before);
  step_before = end;
  run.options.on_step({.step = step,
                       .done = step - run.first_step + 1,
                       .steps = run.options.steps,
                       .loss = record.loss.value_or(0.0),
                       .gradient_norm = record.gradient_norm,
                       .is_skipped = record.is_skipped,
                       .time = Seconds(end - start)});
}

/// Every rank calls it between the same steps.
void save(SharedRun& run, Communicator& world, Backend& backend, const Executor& executor) {
  const std::int64_t step = executor.state().step;
  run.log.enter(world.rank(), Phase::kSaving, step);
  run.saved_step = step;
  const CheckpointWriter writer(*run.options.checkpoint.save_to, step);
  if (world.rank() == 0) {
    writer.begin();
  }
  world.barrier();
  writer.write_shard(world.rank(), backend, executor.optimizer());
  world.barrier();
  if (world.rank() == 0) {
    writer.finish(executor.state(), world.size());
    run.saved_step = -1;
  }
}

/// Tells the watchdog of the current exception, which a lane of this rank threw: it ends the
/// others.
void note_failure(SharedRun& run, int rank, const LaneState& in, const Backend& backend) {
  RankFailure failure{.fault = {.rank = rank, .place = in.is_active ? place_of(in.now) : ""},
                      .peak_bytes = backend.peak_bytes()};
  try {
    throw;
  } catch (const Aborted&) {
    return;  // another rank or lane
  } catch (const Error& error) {
    failure.fault.what = error.what();
    failure.status = error.status();
  } catch (const OutOfMemory& error) {
    failure.fault.what = error.what();
    failure.is_out_of_memory = true;
  } catch (const std::bad_alloc&) {
    failure.fault.what = "out of memory";
    failure.is_out_of_memory = true;
  } catch (const std::exception& error) {
    failure.fault.what = error.what();
  } catch (...) {
    failure.fault.what = "unknown exception";
  }
  {
    const std::lock_guard lock(run.failure_mutex);
    if (!run.failure) {
      run.failure = failure;
    }
  }
  run.watchdog.report(std::move(failure.fault));
}

ActionHooks hooks_of(SharedRun& run, int rank, const Backend& backend) {
  ActionHooks more = run.options.hooks ? run.options.hooks(rank) : ActionHooks{};
  return {.before =
              [&run, rank, before = std::move(more.before)](std::int64_t step, const Action& action,
                                                            Lane lane) {
                if (run.watchdog.is_stopping()) {
                  throw Aborted();
                }
                run.log.begin(rank, lane, step, action);
                if (before) {
                  before(step, action, lane);
                }
              },
          .after =
              [&run, rank, after = std::move(more.after)](Lane lane) {
                if (after) {
                  after(lane);
                }
                run.log.end(rank, lane);
              },
          .failed = [&run, rank, &backend](
                        Lane lane) { note_failure(run, rank, run.log.state(rank, lane), backend); },
          .waits = [&run](bool begins) { begins ? run.log.wait_begins() : run.log.wait_ends(); }};
}

void train(SharedRun& run, Communicator& world, Backend& backend) {
  const int rank = world.rank();
  const CheckpointOptions& checkpoint = run.options.checkpoint;
  run.log.enter(rank, Phase::kStarting, run.first_step);
  Executor executor(backend, world, run.settings, run.data, hooks_of(run, rank, backend));
  if (checkpoint.resume != nullptr) {
    run.log.enter(rank, Phase::kRestoring, run.first_step);
    executor.restore(*checkpoint.resume);
  } else if (checkpoint.save_to) {
    save(run, world, backend, executor);
  }
  const bool is_reporter = run.options.on_step && reports(run.settings, executor);
  double step_before = 0.0;
  run.log.enter(rank, Phase::kBetweenSteps, run.first_step);
  world.barrier();
  while (executor.state().step <= run.last_step) {
    const std::int64_t step = executor.state().step;
    if (rank == 0 && run.options.stop != nullptr && *run.options.stop) {
      run.last_step = step;
    }
    StepRecord record = executor.run_step();
    run.log.enter(rank, Phase::kBetweenSteps, step + 1);
    if (is_reporter) {
      report_step(run, step, record, step_before);
    }
    RankRecord totals{.peak_bytes = backend.peak_bytes(),
                      .peak_activations = executor.peak_activations()};
    executor.add_sent(totals);
    run.journal.add(rank, std::move(record), std::move(totals));
    const std::int64_t done = step + 1;
    const bool is_due = checkpoint.save_every > 0 && done % checkpoint.save_every == 0;
    if (checkpoint.save_to && (is_due || step == run.last_step)) {
      save(run, world, backend, executor);
    }
  }
  run.log.enter(rank, Phase::kDone, executor.state().step);
}

void run_rank(SharedRun& run, Communicator& inner, Backend& backend) {
  const WatchedWorld watched(run.watchdog, inner);
  WatchedCommunicator world(run.log, inner);
  try {
    train(run, world, backend);
  } catch (...) {
    // Actions told of theirs: the first counts.
    note_failure(run, inner.rank(), run.log.state(inner.rank(), Lane::kCompute), backend);
    throw;
  }
}

}  // namespace

EndedEarly::EndedEarly(EarlyEnd end)
    : Error(end.signal == 0
                ? end.fault
                : fmt::format("interrupted after {} of {} steps",
                              end.record.ranks.empty() ? std::size_t{0}
                                                       : end.record.ranks.front().steps.size(),
                              end.asked_steps),
            end.status),
      end_(std::make_shared<const EarlyEnd>(std::move(end))) {}

RunRecord run_training(const TrainingSettings& settings, const TrainingData& data,
                       const RunOptions& options) {
  const auto ranks = static_cast<int>(settings.config.world_size());
  const Checkpoint* resume = options.checkpoint.resume;
  SharedRun run(settings, data, options, resume != nullptr ? resume->state().step : 0, ranks);
  try {
    run_ranks({.size = ranks,
               .algorithm = settings.uses_ordered_sums ? CollectiveAlgorithm::kOrdered
                                                       : CollectiveAlgorithm::kRing,
               .make_backend = options.make_backend},
              [&run](Communicator& world, Backend& backend) { run_rank(run, world, backend); });
  } catch (const std::exception& failure) {
    if (run.saved_step >= 0) {
      CheckpointWriter(*options.checkpoint.save_to, run.saved_step).discard();
    }
    const auto* const error = dynamic_cast<const Error*>(&failure);
    throw EndedEarly(early_end(run, failure.what(),
                               error != nullptr ? error->status() : ExitStatus::kRuntimeFault));
  }
  return {.first_step = run.first_step, .ranks = run.journal.take_common_steps()};
}

}  // namespace ptdp
