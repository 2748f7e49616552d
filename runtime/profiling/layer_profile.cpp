#include "runtime/profiling/layer_profile.h"

#include <ctime>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <iterator>
#include <mutex>
#include <numeric>
#include <utility>

#include "cost_model/iteration/flops.h"
#include "runtime/data/training_data.h"
#include "runtime/launch/launch.h"
#include "runtime/model/transformer_stage.h"
#include "runtime/optimizer/optimizer.h"
#include "runtime/profiling/samples.h"
#include "runtime/profiling/timed_backend.h"
#include "runtime/transport/solo_communicator.h"

namespace ptdp {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Returns the processor time of the calling thread [s].
double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Tensor upload(Backend& backend, const std::vector<std::int32_t>& values) {
  Tensor tensor(backend, DataType::kInt32, std::ssize(values));
  backend.copy_in(values.data(), tensor);
  return tensor;
}

// Numbers of graphs, one for each kind of pass, as the executor launches its actions.
constexpr std::int64_t kForwardGraph = 0;
constexpr std::int64_t kBackwardGraph = 1;

// A step has as many microbatches as make kFlopsOfStep, within bounds.
constexpr double kFlopsOfStep = 4e9;
constexpr double kFewestMicrobatches = 2.0;
constexpr double kMostMicrobatches = 8.0;

/// Returns the number of microbatches of a step. There are several, since the optimizer leaves the
/// caches in a state in which no microbatch does.
int microbatches_of(const ProfiledModel& profiled) {
  return static_cast<int>(
      std::clamp(kFlopsOfStep / pass_flops(profiled), kFewestMicrobatches, kMostMicrobatches));
}

/// The model and optimizer of one rank, which is alone in its tensor-parallel group.
class Trainer {
 public:
  Trainer(Backend& inner, Communicator& alone, const ProfiledModel& profiled,
          const LayerMeasurement& run)
      : backend_(inner),
        stage_(backend_, alone,
               {.model = profiled.model,
                .micro_batch_size = profiled.micro_batch_size,
                .type = run.type,
                .dropout = profiled.dropout,
                .seed = 1},
               {.count = profiled.model.num_layers, .begins_model = true, .ends_model = true},
               nullptr),
        optimizer_(backend_, {StoreShare{.store = &stage_.parameters()}}),
        squares_(backend_, DataType::kFloat64, 1),
        num_microbatches_(microbatches_of(profiled)),
        first_graph_(run.first_graph) {
    const TrainingData data =
        TrainingData::synthetic(profiled.model.vocab_size, profiled.model.seq_length, 1);
    const TokenBatch batch = data.batch(0, profiled.micro_batch_size);
    tokens_ = upload(backend_, batch.tokens);
    targets_ = upload(backend_, batch.targets);
    scale_ = 1.0 / static_cast<double>(batch.tokens.size());
  }

  /// Runs `lead_in` training steps of some microbatches and one more, and returns the operations of
  /// the last.
  std::vector<TimedOperation> pass(int lead_in) {
    for (int step = 0; step < lead_in; ++step) {
      static_cast<void>(queue_step());
    }
    const QueuedStep queued = queue_step();

    backend_.synchronize();  // only here: else a device would have nothing to do meanwhile
    std::vector<TimedOperation> operations = backend_.take();
    operations.resize(queued.num_operations);  // the optimizer is timed as a whole
    const OperationSizes sizes = {1.0, static_cast<double>(stage_.parameters().all_weights().size),
                                  1.0};
    operations.push_back({.operation = DeviceOperation::kAddSquares,
                          .sizes = sizes,
                          .seconds = backend_.seconds_between(queued.begin, queued.middle)});
    operations.push_back({.operation = DeviceOperation::kAdamW,
                          .sizes = sizes,
                          .seconds = backend_.seconds_between(queued.middle, queued.end)});
    return operations;
  }

 private:
  /// A step: its operations before the optimizer's, and where the optimizer's norm begins and ends.
  struct QueuedStep {
    std::size_t num_operations = 0;
    Event begin;
    Event middle;
    Event end;
  };

  QueuedStep queue_step() {
    backend_.start();
    for (int index = 0; index < num_microbatches_; ++index) {
      const Microbatch microbatch{.index = index,
                                  .step = step_,
                                  .tokens = tokens_,
                                  .targets = targets_,
                                  .gradient_scale = scale_ / num_microbatches_};
      backend_.run_as_graph(first_graph_ + kForwardGraph,
                            [&] { static_cast<void>(stage_.forward(microbatch, {})); });
      backend_.run_as_graph(first_graph_ + kBackwardGraph,
                            [&] { static_cast<void>(stage_.backward(microbatch, {})); });
    }
    ++step_;
    QueuedStep queued{.num_operations = backend_.num_timed()};
    backend_.fill(squares_, 0.0);
    queued.begin = backend_.record();
    optimizer_.add_squares(squares_);
    queued.middle = backend_.record();
    optimizer_.step({.learning_rate = 1e-4, .step = step_});
    queued.end = backend_.record();
    return queued;
  }

  TimedBackend backend_;
  TransformerStage stage_;
  Optimizer optimizer_;
  Tensor squares_;
  Tensor tokens_;
  Tensor targets_;
  double scale_ = 0.0;
  int num_microbatches_;
  std::int64_t first_graph_;
  std::int64_t step_ = 0;
};

/// Returns the number of steps that take `seconds` or a little more. Runs one to find out.
int lead_in_steps(Trainer& trainer, double seconds) {
  if (seconds <= 0.0) {
    return 0;
  }
  const Clock::time_point begin = Clock::now();
  static_cast<void>(trainer.pass(/*lead_in=*/0));
  constexpr double most_steps = 1000.0;
  return static_cast<int>(std::min(std::ceil(seconds / seconds_since(begin)), most_steps));
}

/// A timed training step of one rank.
struct Pass {
  double seconds = 0.0;  ///< Time of the step, as the mean over it and those that led in.
  std::vector<TimedOperation> operations;
};

/// Returns whether tensor-parallel ranks meet before the operation. Row-parallel layers sum before
/// dropout and residual, and column-parallel layers sum input gradients before the backward pass of
/// a norm of hidden states.
bool meets_others(const TimedOperation& timed, int hidden_size) {
  switch (timed.operation) {
    case DeviceOperation::kBiasDropoutAdd:
    case DeviceOperation::kBiasAdd:
    case DeviceOperation::kAdd:
    case DeviceOperation::kSumLayerNorm:
    case DeviceOperation::kSumRmsNorm:
    case DeviceOperation::kDropoutSumLayerNorm:
    case DeviceOperation::kDropoutSumRmsNorm:
      return true;
    case DeviceOperation::kLayerNormBackward:
    case DeviceOperation::kLayerNormBackwardBias:
    case DeviceOperation::kRmsNormBackward:
    case DeviceOperation::kRmsNormBackwardBias:
      return timed.sizes[1] == hidden_size;
    default:
      return false;
  }
}

/// Returns the times [s] from one meeting of tensor-parallel ranks to the next.
std::vector<double> segments(const Pass& pass, int hidden_size) {
  std::vector<double> seconds = {0.0};
  for (const TimedOperation& timed : pass.operations) {
    if (meets_others(timed, hidden_size)) {
      seconds.push_back(0.0);
    }
    const bool is_optimizer = timed.operation == DeviceOperation::kAddSquares ||
                              timed.operation == DeviceOperation::kAdamW;
    seconds.back() += is_optimizer ? 0.0 : timed.seconds;
  }
  return seconds;
}

/// Returns the skew of one pass on all ranks: the sum of the slowest segments over the sum of the
/// mean ones, less 1.
double skew_of(const std::vector<const Pass*>& ranks, int hidden_size) {
  std::vector<double> slowest;
  double total = 0.0;
  for (const Pass* pass : ranks) {
    const std::vector<double> seconds = segments(*pass, hidden_size);
    slowest.resize(seconds.size());
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      slowest[i] = std::max(slowest[i], seconds[i]);
      total += seconds[i];
    }
  }
  const double most = std::accumulate(slowest.begin(), slowest.end(), 0.0);
  return most * static_cast<double>(ranks.size()) / total - 1.0;
}

/// Returns the median of the passes' skews. `passes` holds all passes of one rank after those of
/// another.
double median_skew(const std::vector<Pass>& passes, int num_ranks, int hidden_size) {
  const std::size_t count = passes.size() / static_cast<std::size_t>(num_ranks);
  std::vector<double> skews;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<const Pass*> ranks;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(num_ranks); ++rank) {
      ranks.push_back(&passes[rank * count + i]);
    }
    skews.push_back(skew_of(ranks, hidden_size));
  }
  std::sort(skews.begin(), skews.end());
  return skews.empty() ? 0.0 : skews[skews.size() / 2];
}

/// Returns the mean time of every operation in the chosen passes.
OperationTimes mean_times(const std::vector<Pass>& passes, const std::vector<std::size_t>& chosen) {
  struct Total {
    double seconds = 0.0;
    int count = 0;
  };
  std::map<OperationKey, Total> totals;
  for (const std::size_t index : chosen) {
    for (const TimedOperation& timed : passes[index].operations) {
      Total& total = totals[{timed.operation, timed.sizes}];
      total.seconds += timed.seconds;
      total.count += timed.is_whole ? 1 : 0;
    }
  }
  OperationTimes times;
  for (const auto& [key, total] : totals) {
    times[key] = total.seconds / total.count;
  }
  return times;
}

}  // namespace

double pass_flops(const ProfiledModel& profiled) {
  return model_flops(profiled.model, profiled.micro_batch_size).value();
}

double step_flops(const ProfiledModel& profiled) {
  return microbatches_of(profiled) * pass_flops(profiled);
}

LayerTimes time_layers(const ProfiledModel& profiled, const LayerMeasurement& run) {
  std::vector<Pass> passes;
  std::mutex mutex;
  double elapsed = 0.0;
  double processor = 0.0;
  const auto run_rank = [&](Communicator& world, Backend& backend) {
    SoloCommunicator alone(/*rank=*/0, /*size=*/1);
    Trainer trainer(backend, alone, profiled, run);
    static_cast<void>(trainer.pass(/*lead_in=*/0));  // Libraries load and choose in it.
    const int lead_in = lead_in_steps(trainer, run.lead_in);
    std::vector<Pass> here;
    double own_processor = 0.0;
    StopFlag stop;  // the first rank decides for all ranks, which wait for each other here
    const Clock::time_point begin = Clock::now();
    for (int pass = 0; pass < run.most_passes; ++pass) {
      const bool is_done = pass >= run.least_passes && seconds_since(begin) > run.seconds;
      if (world.rank() == 0 && (is_done || (run.is_cancelled && run.is_cancelled()))) {
        stop.raise();
      }
      if (agree_to_stop(stop, world, backend)) {
        break;
      }
      const Clock::time_point start = Clock::now();
      const double processor_start = processor_seconds();
      Pass& timed = here.emplace_back();
      timed.operations = trainer.pass(lead_in);
      own_processor += (processor_seconds() - processor_start) / (1 + lead_in);
      timed.seconds = seconds_since(start) / (1 + lead_in);
    }
    const std::lock_guard lock(mutex);
    std::move(here.begin(), here.end(), std::back_inserter(passes));
    processor += own_processor;
  };
  if (run.backend != nullptr) {
    assert(run.ranks == 1);
    SoloCommunicator world(/*rank=*/0, /*size=*/1);
    run_rank(world, *run.backend);
  } else {
    run_ranks({.size = run.ranks, .make_backend = run.make_backend}, run_rank);
  }
  LayerTimes times;
  for (const Pass& pass : passes) {
    times.passes.push_back(pass.seconds);
    elapsed += pass.seconds;
  }
  if (!passes.empty()) {
    times.operations = mean_times(passes, middle_half(times.passes));
    times.skew = run.ranks > 1 ? median_skew(passes, run.ranks, profiled.model.hidden_size) : 0.0;
    times.processor_share = processor / elapsed;
  }
  return times;
}

OperationTimes mean_of(const std::vector<OperationTimes>& times) {
  OperationTimes mean;
  std::map<OperationKey, int> counts;
  for (const OperationTimes& of : times) {
    for (const auto& [key, seconds] : of) {
      mean[key] += seconds;
      ++counts[key];
    }
  }
  for (auto& [key, seconds] : mean) {
    seconds /= counts[key];
  }
  return mean;
}

void keep_shorter(OperationTimes& all, const OperationTimes& more) {
  for (const auto& [key, seconds] : more) {
    const auto [place, is_new] = all.try_emplace(key, seconds);
    place->second = std::min(place->second, seconds);
  }
}

}  // namespace ptdp
