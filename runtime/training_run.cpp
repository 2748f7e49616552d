#include "runtime/training_run.h"

#include <algorithm>
#include <utility>

#include "cost_model/error.h"
#include "runtime/checkpoint_writer.h"
#include "runtime/executor.h"
#include "runtime/record_gathering.h"
#include "runtime/transport/gathering.h"
#include "runtime/transport/launch.h"

namespace ptdp {
namespace {

/// What the ranks of a run share.
struct SharedRun {
  const TrainingSettings& settings;
  const TrainingData& data;
  const RunOptions& options;
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;  ///< Unless it is stopped before.
  RunRecord record = {};
};

/// Whether this rank tells of its steps: of those that know the loss, the first.
bool reports(const TrainingSettings& settings, const Executor& executor) {
  const ProcessGroups& groups = executor.groups();
  const int last_stage = num_stages(settings.schedule) - 1;
  return groups.tensor_rank == 0 && groups.data_rank == 0 &&
         groups.pipeline_rank == rank_of(settings.schedule, last_stage, 0);
}

/// Steps of this run, from its first action to the end of the last.
void report_step(const SharedRun& run, std::int64_t first, std::int64_t step,
                 const StepRecord& record, double& step_before) {
  const double end = record.step.end.value();
  // A checkpoint may lie between two steps.
  const double start = std::max(record.step.start.value(), step_before);
  step_before = end;
  run.options.on_step({.step = step,
                       .done = step - first + 1,
                       .steps = run.options.steps,
                       .loss = record.loss.value_or(0.0),
                       .gradient_norm = record.gradient_norm,
                       .is_skipped = record.is_skipped,
                       .time = Seconds(end - start)});
}

/// Forgets when the actions of a step ran: all of them, of every rank, would fill the memory.
void forget_details(std::vector<StepRecord>& steps) {
  if (std::ssize(steps) > kDetailedSteps) {
    StepRecord& old = steps[steps.size() - 1 - kDetailedSteps];
    old.actions = {};
    old.sub_spans = {};
  }
}

/// Every rank calls it between the same steps.
void save(const SharedRun& run, Communicator& world, Backend& backend, const Executor& executor) {
  const CheckpointWriter writer(*run.options.checkpoint.save_to, executor.state().step);
  if (world.rank() == 0) {
    writer.begin();
  }
  world.barrier();
  writer.write_shard(world.rank(), backend, executor.optimizer());
  world.barrier();
  if (world.rank() == 0) {
    writer.finish(executor.state(), world.size());
  }
}

/// How rank 0 tells the others whether a step is the last one. It does so as the step begins, so
/// that they need not wait to know it at the step's end.
class StopNotice {
 public:
  StopNotice(Communicator& world, Backend& backend)
      : world_(&world), backend_(&backend), is_last_(backend, DataType::kInt32, 1) {}

  /// `is_last` is rank 0's.
  void begin_step(bool is_last) {
    if (world_->rank() != 0) {
      request_ = world_->receive(is_last_, 0);
      return;
    }
    const std::int32_t notice = is_last ? 1 : 0;
    backend_->copy_in(&notice, is_last_);
    for (int rank = 1; rank < world_->size(); ++rank) {
      world_->wait(world_->send(is_last_, rank));
    }
  }
  [[nodiscard]] bool was_last() {
    world_->wait(std::exchange(request_, {}));
    std::int32_t notice = 0;
    backend_->copy_out(is_last_, &notice);
    return notice != 0;
  }

 private:
  Communicator* world_;
  Backend* backend_;
  Tensor is_last_;
  Request request_;
};

/// Brings the records of all ranks together on rank 0: threads write theirs to their places.
void keep(SharedRun& run, Communicator& world, Backend& backend, RankRecord record) {
  const MpiProcess* const process = run.options.process;
  if (process == nullptr) {
    run.record.ranks[static_cast<std::size_t>(world.rank())] = std::move(record);
    return;
  }
  run.record.ranks = gather_records(world, backend, std::move(record));
  run.record.hosts = gather_bytes(world, backend, process->host());
}

void run_rank(SharedRun& run, Communicator& world, Backend& backend) {
  const CheckpointOptions& checkpoint = run.options.checkpoint;
  Executor executor(backend, world, run.settings, run.data);
  if (checkpoint.resume != nullptr) {
    executor.restore(*checkpoint.resume);
  } else if (checkpoint.save_to) {
    save(run, world, backend, executor);
  }
  const bool is_reporter = run.options.on_step && reports(run.settings, executor);
  RankRecord record;
  double step_before = 0.0;
  StopNotice notice(world, backend);
  world.barrier();
  for (bool is_last = false; !is_last;) {
    const std::int64_t step = executor.state().step;
    notice.begin_step(step == run.last_step || (run.options.stop != nullptr && *run.options.stop));
    record.steps.push_back(executor.run_step());
    forget_details(record.steps);
    if (is_reporter) {
      report_step(run, run.first_step, step, record.steps.back(), step_before);
    }
    is_last = notice.was_last();
    const std::int64_t done = step + 1;
    const bool is_due = checkpoint.save_every > 0 && done % checkpoint.save_every == 0;
    if (checkpoint.save_to && (is_due || is_last)) {
      save(run, world, backend, executor);
    }
  }
  record.peak_bytes = backend.peak_bytes();
  record.peak_activations = executor.peak_activations();
  executor.add_sent(record);
  keep(run, world, backend, std::move(record));
}

}  // namespace

RunRecord run_training(const TrainingSettings& settings, const TrainingData& data,
                       const RunOptions& options) {
  const auto ranks = static_cast<int>(settings.config.world_size());
  const Checkpoint* resume = options.checkpoint.resume;
  SharedRun run{.settings = settings,
                .data = data,
                .options = options,
                .first_step = resume != nullptr ? resume->state().step : 0};
  run.record.first_step = run.first_step;
  run.record.ranks.resize(static_cast<std::size_t>(ranks));
  run.last_step = run.first_step + options.steps - 1;
  run_ranks({.size = ranks,
             .algorithm = settings.uses_ordered_sums ? CollectiveAlgorithm::kOrdered
                                                     : CollectiveAlgorithm::kRing,
             .make_backend = options.make_backend,
             .process = options.process},
            [&run](Communicator& world, Backend& backend) { run_rank(run, world, backend); });
  return std::move(run.record);
}

}  // namespace ptdp
