#include "runtime/run/training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "cost_model/text/plural.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "runtime/faults/control_channel.h"
#include "runtime/faults/watched_communicator.h"
#include "runtime/launch/launch.h"
#include "runtime/phase_limit.h"
#include "runtime/run/record_gathering.h"
#include "runtime/run/run_journal.h"
#include "runtime/run/stop_notice.h"
#include "runtime/transport/gathering.h"

namespace ptdp {
namespace {

// A terminal gets only the ranks that work, and those that wait longest for them.
constexpr std::size_t kFewLines = 24;
constexpr std::size_t kFewEnded = 4;

constexpr Seconds kForEver{1e9};

/// The first failure of the ranks of this process.
struct RankFailure {
  RunFault fault;
  bool is_out_of_memory = false;
  std::int64_t peak_bytes = 0;  ///< Peak memory of the failed rank [B].
  KeptMemory kept = {};         ///< Memory that the failed rank kept.
};

/// What the ranks of this process share.
struct RunState {
  RunState(const TrainingSettings& run_settings, const TrainingData& run_data,
           const RunOptions& run_options, std::int64_t first, int first_rank, int num_ranks);

  const TrainingSettings& settings;
  const TrainingData& data;
  const RunOptions& options;
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;  ///< Last step of the run, unless it is stopped before.
  /// Step whose checkpoint is being written; −1 otherwise.
  std::atomic<std::int64_t> saved_step = -1;
  std::atomic<bool> is_exporting = false;  ///< Whether weights are being exported.

  RunJournal journal;  ///< Steps of the ranks of this process.
  /// Activities of the ranks of this process.
  ActionLog log;
  RunRecord record = {};  ///< Complete once all ranks are done.
  std::mutex channel_mutex;
  /// Channel to other processes; null when ranks are threads.
  std::unique_ptr<ControlChannel> channel;
  std::mutex failure_mutex;
  std::optional<RankFailure> failure;
  std::vector<KeptMemory> kept;  ///< Memory that each rank of this process keeps.
  Watchdog watchdog;             ///< The last member, since it looks at the others.
};

/// An exception of a rank, used when the watchdog does not know why the run ended.
struct Thrown {
  std::string message = "does not end";
  ExitStatus status = ExitStatus::kRuntimeFault;
  bool is_aborted = false;  ///< Whether the rank only heard of another's failure.
};

/// Describes how the run ended.
EarlyEnd early_end(RunState& run, const Thrown& thrown) {
  EarlyEnd end{.record = {.first_step = run.first_step, .ranks = run.journal.common_steps()},
               .asked_steps = run.options.steps,
               .signal = run.watchdog.interrupt(),
               .fault = thrown.message,
               .status = thrown.status,
               .actions = describe_actions(run.log, SIZE_MAX, ActionLog::kKept),
               .few_actions = describe_actions(run.log, kFewLines, kFewEnded)};
  end.done_steps = std::ssize(end.record.ranks.front().steps);
  if (run.options.process != nullptr) {
    end.record.ranks.clear();  // other processes have their own records
    end.process = run.log.first_rank();
  }
  if (end.signal != 0) {
    end.fault.clear();  // what was thrown only follows from the signal
  }
  // Only rank 0's process tells what all processes see.
  end.is_told_elsewhere = run.log.first_rank() > 0 && (end.signal != 0 || thrown.is_aborted);
  if (const std::optional<RunFault> fault = run.watchdog.fault()) {
    end.fault = to_string(*fault);
    end.status = fault->status;
    end.signal = fault->signal;
    end.is_told_elsewhere =
        fault->signal != 0 ? run.log.first_rank() > 0 : fault->is_told_elsewhere;
    const std::lock_guard lock(run.failure_mutex);
    if (run.failure && run.failure->fault.rank == fault->rank) {
      end.out_of_memory_rank = run.failure->is_out_of_memory ? fault->rank : -1;
      end.out_of_memory_peak = run.failure->peak_bytes;
      end.out_of_memory_kept = run.failure->kept;
    }
  }
  return end;
}

/// Removes an export that did not finish, before the process leaves a rank behind that still syncs
/// it. That rank names no file any more, since it looks before it does. Waits a second at most: the
/// file system may be what hangs.
void discard_export_in_time(const RunState& run) {
  if (!run.is_exporting) {
    return;
  }
  std::promise<void> done;
  const std::future<void> is_done = done.get_future();
  std::thread([directory = run.options.checkpoint.export_to->directory,
               done = std::move(done)]() mutable {
    discard_unfinished_weights(directory);
    done.set_value();
  }).detach();
  is_done.wait_for(std::chrono::seconds(1));
}

/// Returns the options that connect the watchdog with the run.
WatchdogOptions watchdog_options(RunState& run) {
  WatchdogOptions options{
      .deadlines = run.options.deadlines, .interrupt = run.options.interrupt, .give_up = [&run] {
        discard_export_in_time(run);
        if (run.options.give_up) {
          run.options.give_up(early_end(run, {}));
        }
      }};
  const JobProcess* const process = run.options.process;
  if (process == nullptr) {
    return options;
  }
  // Only rank 0's process judges who waits for whom, since it hears of all ranks.
  options.deadlines.is_on = options.deadlines.is_on && process->rank() == 0;
  options.remote_fault = [&run]() -> std::optional<RunFault> {
    const std::lock_guard lock(run.channel_mutex);
    return run.channel ? run.channel->fault() : std::nullopt;
  };
  options.remote_activities = [&run]() -> std::vector<RankActivity> {
    const std::lock_guard lock(run.channel_mutex);
    return run.channel ? run.channel->activities() : std::vector<RankActivity>();
  };
  options.spread = [&run](const RunFault& fault) {
    const std::lock_guard lock(run.channel_mutex);
    if (run.channel) {
      run.channel->spread(fault);
    }
  };
  return options;
}

RunState::RunState(const TrainingSettings& run_settings, const TrainingData& run_data,
                   const RunOptions& run_options, std::int64_t first, int first_rank, int num_ranks)
    : settings(run_settings),
      data(run_data),
      options(run_options),
      first_step(first),
      last_step(first + run_options.steps - 1),
      journal(num_ranks),
      log(first_rank, num_ranks),
      kept(static_cast<std::size_t>(num_ranks)),
      watchdog(log, watchdog_options(*this)) {}

/// Lets the watchdog end waits in a rank's world for the lifetime of this object.
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

/// Returns whether this rank tells of its steps: the first of those that know the loss.
bool reports(const TrainingSettings& settings, const Executor& executor) {
  const ProcessGroups& groups = executor.groups();
  const int last_stage = num_stages(settings.schedule) - 1;
  return groups.tensor_rank == 0 && groups.data_rank == 0 &&
         groups.pipeline_rank == rank_of(settings.schedule, last_stage, 0);
}

/// Tells of a step. Its time runs from the end of the step before, or after a pause from its own
/// first action.
void report_step(const RunState& run, std::int64_t step, const StepRecord& record,
                 double& step_before) {
  const double end = record.step.end.value();
  const double start = record.is_after_pause ? record.step.start.value() : step_before;
  step_before = end;
  run.options.on_step({.step = step,
                       .done = step - run.first_step + 1,
                       .steps = run.options.steps,
                       .loss = record.loss.value_or(0.0),
                       .gradient_norm = record.gradient_norm,
                       .is_skipped = record.is_skipped,
                       .time = Seconds(end - start),
                       .record = &record});
}

/// Saves a checkpoint. Every rank calls it between the same steps.
void save(RunState& run, Communicator& host, Backend& backend, const Executor& executor) {
  const std::int64_t step = executor.state().step;
  run.log.enter(host.rank(), Phase::kSaving, step);
  run.saved_step = step;
  const CheckpointWriter writer(*run.options.checkpoint.save_to, step);
  if (host.rank() == 0) {
    writer.begin();
  }
  host.barrier();
  writer.write_shard(host.rank(), backend, executor.optimizer());
  host.barrier();
  if (host.rank() == 0) {
    writer.finish(executor.state(), host.size());
    run.saved_step = -1;
  }
}

/// Tells the watchdog of the current exception, which a lane of this rank threw, so that other
/// ranks end. Does nothing when the exception only follows from another failure.
void note_failure(RunState& run, int rank, const LaneState& in, const Backend& backend) {
  RankFailure failure{.fault = {.rank = rank, .place = in.is_active ? place_of(in.now) : ""},
                      .peak_bytes = backend.peak_bytes()};
  try {
    throw;
  } catch (const Aborted&) {
    return;  // another rank or lane failed
  } catch (const PeerLost&) {
    return;  // another process ended: the control channel knows more of that
  } catch (const Error& error) {
    failure.fault.what = error.what();
    failure.fault.status = error.status();
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
    failure.kept = run.kept[static_cast<std::size_t>(rank - run.log.first_rank())];
    if (!run.failure) {
      run.failure = failure;
    }
  }
  run.watchdog.report(std::move(failure.fault));
}

/// Returns hooks that keep the action log, and call the run's own hooks.
ActionHooks hooks_of(RunState& run, int rank, const Backend& backend) {
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

}  // namespace

KeptMemory kept_by(const Optimizer& optimizer) {
  KeptMemory kept;
  for (int store = 0; store < std::ssize(optimizer.shares()); ++store) {
    const ParameterStore& parameters = *optimizer.shares()[static_cast<std::size_t>(store)].store;
    kept.weights += parameters.all_weights().bytes();
    kept.gradients += parameters.all_gradients().bytes();
    kept.optimizer += optimizer.state_bytes(store);
  }
  return kept;
}

namespace {

/// Returns whether the ranks sent or held something unexpected by the end of `done` steps, and
/// notes how. All ranks call it and agree.
bool differs(RunState& run, const RankRecord& totals, std::int64_t done, const Executor& executor,
             const HostSide& host) {
  std::vector<std::string> differences =
      find_differences(*run.options.expected,
                       {.record = &totals,
                        .steps = done - run.first_step,
                        .pipeline_rank = executor.groups().pipeline_rank},
                       host);
  const bool is_other = !differences.empty();
  if (is_other && host.world.rank() == run.log.first_rank()) {
    run.record.differences = std::move(differences);
  }
  return is_other;
}

/// Gives the rank the weights that the run begins with: those of a checkpoint or of files, or its
/// initial values. New ones are saved, if anything is.
void begin_weights(RunState& run, const HostSide& host, Backend& backend, Executor& executor) {
  const CheckpointOptions& checkpoint = run.options.checkpoint;
  if (checkpoint.resume != nullptr || checkpoint.load != nullptr) {
    run.log.enter(host.world.rank(), Phase::kRestoring, run.first_step);
  }
  if (checkpoint.resume != nullptr) {
    executor.restore(*checkpoint.resume);
    return;
  }
  if (checkpoint.load != nullptr) {
    executor.load(*checkpoint.load);
  }
  if (checkpoint.save_to) {
    save(run, host.world, backend, executor);
  }
}

/// Compares what is taken of the ranks' GPUs before the first step with what their plan leaves.
/// Only over NCCL do all ranks know that each has a GPU to itself.
void check_start_memory(const RunOptions& options, const HostSide& host, Backend& backend,
                        const Executor& executor) {
  if (!options.uses_nccl && host.world.size() > 1) {
    return;
  }
  const Bytes taken(static_cast<double>(backend.bytes_beside()));
  const std::string note =
      compare_start_memory(options.planned_memory, taken, executor.groups().pipeline_rank, host);
  if (!note.empty() && options.on_note) {
    options.on_note(note);
  }
}

/// What is asked once, after the first step, and equal in all steps.
struct AskedOnce {
  std::int64_t bytes_beside = 0;
  std::vector<CallEstimate> estimates = {};
};

AskedOnce ask_once(const RunOptions& options, const Executor& executor, Backend& backend) {
  return {.bytes_beside = backend.bytes_beside(),
          .estimates = options.asks_estimates ? executor.estimates() : std::vector<CallEstimate>()};
}

/// Returns what a rank holds and has sent so far.
RankRecord totals_of(const Executor& executor, const Backend& backend, const AskedOnce& asked) {
  RankRecord totals{.peak_bytes = backend.peak_bytes(),
                    .bytes_beside = asked.bytes_beside,
                    .peak_activations = executor.peak_activations(),
                    .estimates = asked.estimates};
  executor.add_sent(totals);
  return totals;
}

/// Trains on one rank, from its start to the end of the run.
void train(RunState& run, Communicator& world, Backend& backend, const HostSide& host) {
  const int rank = world.rank();
  const CheckpointOptions& checkpoint = run.options.checkpoint;
  run.log.enter(rank, Phase::kStarting, run.first_step);
  Executor executor(backend, world, run.settings, run.data, hooks_of(run, rank, backend));
  {
    const std::lock_guard lock(run.failure_mutex);
    run.kept[static_cast<std::size_t>(rank - run.log.first_rank())] = kept_by(executor.optimizer());
  }
  begin_weights(run, host, backend, executor);
  run.log.enter(rank, Phase::kStarting, run.first_step);
  executor.warm_up();
  check_start_memory(run.options, host, backend, executor);
  const bool is_reporter = run.options.on_step && reports(run.settings, executor);
  double step_before = 0.0;
  AskedOnce asked;
  StopNotice notice(host.world, host.backend);
  run.log.enter(rank, Phase::kBetweenSteps, run.first_step);
  host.world.barrier();
  bool is_other = false;  // Whether a step differed from what is expected.
  bool is_after_pause = true;
  for (bool is_last = false; !is_last;) {
    const std::int64_t step = executor.state().step;
    notice.begin_step(step == run.last_step || (run.options.stop != nullptr && *run.options.stop));
    StepRecord record = executor.run_step();
    record.is_after_pause = is_after_pause;
    run.log.enter(rank, Phase::kBetweenSteps, step + 1);
    if (is_reporter) {
      report_step(run, step, record, step_before);
    }
    const bool is_first = step == run.first_step;
    if (is_first) {
      asked = ask_once(run.options, executor, backend);
    }
    const RankRecord totals = totals_of(executor, backend, asked);
    run.journal.add(rank - run.log.first_rank(), std::move(record), totals);
    is_last = notice.was_last();
    const std::int64_t done = step + 1;
    const bool is_due = checkpoint.save_every > 0 && done % checkpoint.save_every == 0;
    const bool is_saved = checkpoint.save_to && (is_due || is_last);
    const bool is_looked_at = run.options.expected && (is_first || is_saved || is_last);
    is_other = is_looked_at && differs(run, totals, done, executor, host);
    is_after_pause = is_saved || is_looked_at || is_first;
    is_last = is_last || is_other;
    if (is_saved && !is_other) {
      save(run, host.world, backend, executor);
    }
  }
  if (checkpoint.export_to && !is_other) {
    run.log.enter(rank, Phase::kExporting, executor.state().step);
    run.is_exporting = true;
    export_weights(*checkpoint.export_to, host, backend, executor.optimizer(), [&run] {
      if (run.watchdog.is_stopping()) {
        throw Aborted();
      }
    });
  }
  run.log.enter(rank, Phase::kDone, executor.state().step);
  if (run.options.process != nullptr) {
    run.record.ranks = gather_records(host.world, host.backend,
                                      std::move(run.journal.take_common_steps().front()));
    run.record.hosts = gather_bytes(host.world, host.backend, run.options.process->host());
  }
}

/// Returns the silence after which a process counts as stopped. A process that runs beats ten times
/// a second, whatever its rank is in.
Seconds longest_silence(const DeadlineRule& rule) {
  constexpr Seconds least(1.0);
  return rule.is_on ? std::max(rule.fixed.value_or(rule.least), least) : kForEver;
}

/// Returns on all ranks where rank 0's process listens; only its `table` counts. The other ranks
/// wait for that process under a limit of their own. No watchdog notices a process that is stopped
/// before there is a channel.
std::string spread_table(RunState& run, const HostSide& host, std::string table) {
  const int rank = host.world.rank();
  const std::optional<Seconds> limit = phase_deadline(run.options.deadlines);
  const PhaseLimit limited(rank == 0 ? std::nullopt : limit, [&] {
    run.watchdog.report({.rank = 0,
                         .place = place_of({.phase = Phase::kStarting}),
                         .what = fmt::format("rank {} on host {} waits for its control channel; "
                                             "expected at most {:.4g} s (--deadline)",
                                             rank, run.options.process->host(), limit->value())});
  });
  return broadcast_bytes(host.world, host.backend, std::move(table));
}

/// Opens the control channel between the processes of a job: rank 0's listens, and all hear where.
void open_channel(RunState& run, const HostSide& host) {
  Communicator& world = host.world;
  const DeadlineRule& rule = run.options.deadlines;
  ControlOptions options{.first_rank = world.rank(),
                         .world_size = world.size(),
                         .connect_timeout = phase_deadline(rule).value_or(kForEver),
                         .longest_silence = longest_silence(rule),
                         .activities = [&run] { return activities_of(run.log); }};
  std::optional<ControlHub> hub;
  if (world.rank() == 0) {
    hub.emplace(run.options.process->address());
  }
  const std::string table = spread_table(run, host, hub ? to_text(hub->table()) : "");
  std::unique_ptr<ControlChannel> channel =
      hub ? std::make_unique<ControlChannel>(std::move(options), std::move(*hub))
          : std::make_unique<ControlChannel>(std::move(options), parse_hub_table(table));
  const std::lock_guard lock(run.channel_mutex);
  run.channel = std::move(channel);
}

/// Rethrows the current PeerLost with what this rank was in. The lost process may be gone before it
/// ever said what it was in.
[[noreturn]] void throw_with_place(const PeerLost& lost, const LaneState& in) {
  if (!in.is_active) {
    throw;
  }
  const bool is_starting = !in.now.action && in.now.phase == Phase::kStarting;
  throw PeerLost(fmt::format("{}: {}", is_starting ? "the start" : place_of(in.now), lost.what()));
}

/// Runs one rank: its watched worlds, its control channel, its training.
void run_rank(RunState& run, Communicator& inner, Backend& backend, const HostSide& inner_host) {
  const WatchedWorld watched(run.watchdog, inner);
  const WatchedWorld watched_host(run.watchdog, inner_host.world);
  WatchedCommunicator world(run.log, inner);
  WatchedCommunicator host_world(run.log, inner_host.world);
  const HostSide host{.world = host_world, .backend = inner_host.backend};
  try {
    if (run.options.process != nullptr) {
      run.log.enter(world.rank(), Phase::kStarting, run.first_step);
      open_channel(run, host);
    }
    train(run, world, backend, host);
  } catch (const PeerLost& lost) {
    throw_with_place(lost, run.log.state(inner.rank(), Lane::kCompute));
  } catch (...) {
    // Hooks have noted failures of actions; the first failure counts.
    note_failure(run, inner.rank(), run.log.state(inner.rank(), Lane::kCompute), backend);
    throw;
  }
}

/// Waits, for half a second at most, for the news why another process ended the world.
void wait_for_fault(const RunState& run) {
  for (int i = 0; i < 50 && !run.watchdog.is_stopping(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

EndedEarly::EndedEarly(EarlyEnd end)
    : Error(end.signal == 0
                ? end.fault
                : fmt::format("{}{}interrupted after {} of {}", end.fault,
                              end.fault.empty() ? "" : ": ", end.record.first_step + end.done_steps,
                              plural(end.record.first_step + end.asked_steps, "step")),
            end.status),
      end_(std::make_shared<const EarlyEnd>(std::move(end))) {}

RunRecord run_training(const TrainingSettings& settings, const TrainingData& data,
                       const RunOptions& options) {
  const auto ranks = static_cast<int>(settings.config.world_size());
  const Checkpoint* resume = options.checkpoint.resume;
  const JobProcess* const process = options.process;
  RunState run(settings, data, options, resume != nullptr ? resume->state().step : 0,
               process != nullptr ? process->rank() : 0, process != nullptr ? 1 : ranks);
  try {
    run_ranks({.size = ranks,
               .algorithm = settings.uses_ordered_sums ? CollectiveAlgorithm::kOrdered
                                                       : CollectiveAlgorithm::kRing,
               .make_backend = options.make_backend,
               .process = options.process,
               .uses_nccl = options.uses_nccl,
               .make_host_backend = options.make_host_backend,
               .start_limit = phase_deadline(options.deadlines)},
              [&run](Communicator& world, Backend& backend, const HostSide& host) {
                run_rank(run, world, backend, host);
              });
  } catch (const std::exception& failure) {
    const auto* const error = dynamic_cast<const Error*>(&failure);
    const Thrown thrown{.message = failure.what(),
                        .status = error != nullptr ? error->status() : ExitStatus::kRuntimeFault,
                        .is_aborted = dynamic_cast<const Aborted*>(&failure) != nullptr};
    const bool is_lost = dynamic_cast<const PeerLost*>(&failure) != nullptr;
    if (process != nullptr && (thrown.is_aborted || is_lost)) {
      wait_for_fault(run);
    }
    if (run.saved_step >= 0 && process == nullptr) {
      CheckpointWriter(*options.checkpoint.save_to, run.saved_step).discard();
    }
    if (run.is_exporting) {
      discard_unfinished_weights(options.checkpoint.export_to->directory);
    }
    throw EndedEarly(early_end(run, thrown));
  }
  run.record.first_step = run.first_step;
  if (process == nullptr) {
    run.record.ranks = run.journal.take_common_steps();
  }
  return std::move(run.record);
}

}  // namespace ptdp
