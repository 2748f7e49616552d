#include "tests/runtime/training_harness.h"

#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "kernels/cpu/cpu_backend.h"
#include "runtime/launch/launch.h"

namespace ptdp::testing {
namespace {

ScheduleShape shape_of(const Layout& layout, const Job& job) {
  return {.pp = layout.pp,
          .vpp = layout.vpp,
          .num_microbatches =
              static_cast<int>(job.global_batch_size / layout.dp / layout.micro_batch_size)};
}

/// Returns a schedule with everything that a step of the layout has.
Schedule schedule_of(const Layout& layout, const Job& job) {
  const ScheduleTraits& generator = *find_schedule(layout.schedule);
  const Schedule compute = generator.generate(shape_of(layout, job));
  const bool has_copies = compute.placement == StagePlacement::kBidirectional;
  const bool has_data = layout.dp > 1 || has_copies;
  const bool is_gathered = layout.zero_stage > 0 && !shards_weights(layout.config());
  const bool is_reduced = !shards_gradients(layout.config());
  return complete(compute,
                  {.gradient_buckets = has_data && (is_reduced || is_gathered)
                                           ? std::vector<int>{layout.num_buckets}
                                           : std::vector<int>{},
                   .reduces_gradients = is_reduced,
                   // As ptdp-run has it. Ranks of a host may also reduce early: no send
                   // waits there, which a reduction in front of its receive would block.
                   .overlaps_reductions = !job.uses_nccl || layout.data != DataMode::kBlocking,
                   .gathers_parameters = has_data && is_gathered,
                   .ties_embeddings = !job.model.untied_embeddings});
}

/// Returns the schedule without its optimizer, so that gradients remain.
Schedule without_optimizer(Schedule schedule) {
  for (std::vector<Action>& order : schedule.orders) {
    std::erase_if(order,
                  [](const Action& action) { return action.kind == ActionKind::kOptimizer; });
  }
  return schedule;
}

/// Puts what this rank updates into the whole tensors. Every element of the model is updated by
/// some rank.
void collect(Executor& executor, Backend& backend, Buffer OwnedSlice::*which, Tensors& whole) {
  for (int store = 0; store < std::ssize(executor.optimizer().shares()); ++store) {
    const auto parameters = executor.optimizer().shares()[store].store->parameters();
    for (const OwnedSlice& slice : executor.optimizer().owned_slices(store)) {
      const Parameter& parameter = parameters[slice.parameter];
      const MatrixBlock& block = parameter.block;
      std::vector<double>& tensor = whole[parameter.name];
      tensor.resize(static_cast<std::size_t>(parameter.total_rows * block.total_columns));
      const std::vector<double> values = values_of(slice.*which, backend);
      for (std::int64_t i = 0; i < slice.range.count; ++i) {
        const std::int64_t element = slice.range.first - parameter.first + i;
        const std::int64_t row = block.first_row + element / block.columns;
        const std::int64_t column = block.first_column + element % block.columns;
        if (row < parameter.total_rows) {
          tensor[row * block.total_columns + column] = values[i];
        }
      }
    }
  }
}

/// Warms a rank up, as ptdp-run does, and waits for the others.
void warm_up(Executor& executor, Communicator& world, bool warms_up) {
  if (warms_up) {
    executor.warm_up();
  }
  world.barrier();
}

double norm(const std::vector<double>& values) {
  return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
}

}  // namespace

std::vector<double> values_of(const Buffer& buffer, Backend& backend) {
  Tensor wide(backend, DataType::kFloat64, buffer.size);
  std::vector<double> values(static_cast<std::size_t>(buffer.size));
  if (buffer.type == DataType::kFloat64) {
    backend.copy(buffer, wide);
  } else {
    backend.convert(buffer, wide);
  }
  backend.copy_out(wide, values.data());
  return values;
}

ParallelConfig Layout::config() const {
  return {.tp = tp,
          .pp = pp,
          .dp = dp,
          .vpp = vpp,
          .micro_batch_size = micro_batch_size,
          .schedule = *find_value(schedule, NamedValues<ScheduleKind>(kScheduleNames)),
          .recompute = recompute,
          .sequence_parallel = sequence_parallel,
          .zero_stage = zero_stage,
          .reshard_after_forward = reshard_after_forward};
}

std::string to_string(const Layout& layout) {
  return ptdp::to_string(layout.config()) + (layout.zero_stage > 0 ? " zero" : "") +
         (layout.sequence_parallel ? " sp" : "") + " " + layout.schedule +
         (layout.messages == MessageMode::kOverlapped ? " messages beside" : "") +
         (layout.data == DataMode::kBlocking ? "" : " reductions beside") +
         (layout.data == DataMode::kOverlapped ? " gathers beside" : "") +
         (layout.overlaps_tensor ? " tensor beside" : "");
}

Job small_job() {
  return {.model = resolved({.num_layers = 8,
                             .hidden_size = 24,
                             .num_attention_heads = 4,
                             .vocab_size = 150,
                             .seq_length = 8},
                            "small_job")};
}

bool exists(const Layout& layout, const Job& job) {
  const ScheduleTraits* generator = find_schedule(layout.schedule);
  const bool divides = job.global_batch_size / layout.dp % layout.micro_batch_size == 0 &&
                       job.global_batch_size % layout.dp == 0 &&
                       job.model.num_layers % (layout.pp * layout.vpp) == 0;
  return generator != nullptr && generator->is_synchronous && divides &&
         !generator->find_conflict(shape_of(layout, job)) &&
         !(layout.sequence_parallel && layout.tp == 1);
}

TrainingSettings settings_of(const Layout& layout, const Job& job) {
  return {.model = job.model,
          .config = layout.config(),
          .schedule = schedule_of(layout, job),
          .stage_layers = std::vector<int>(static_cast<std::size_t>(layout.pp * layout.vpp),
                                           job.model.num_layers / (layout.pp * layout.vpp)),
          .global_batch_size = job.global_batch_size,
          .messages = layout.messages,
          .data = layout.data,
          .overlaps_tensor = layout.overlaps_tensor,
          .scatters_messages = true,
          .type = job.type,
          .dropout = job.dropout,
          .seed = 7,
          .is_reproducible = job.is_reproducible,
          .uses_ordered_sums = job.is_reproducible,
          .learning_rate = {.maximum = 1e-2, .minimum = 1e-3, .decay_steps = 20}};
}

Trained train(const Layout& layout, const Job& job) {
  return train(layout, job, [] { return std::make_unique<CpuBackend>(); });
}

Trained train(const Layout& layout, const Job& job, const BackendMaker& make_backend) {
  return train(settings_of(layout, job), job.steps, make_backend, job.uses_nccl, job.warms_up);
}

Trained train(const TrainingSettings& settings, std::int64_t steps,
              const BackendMaker& make_backend, bool uses_nccl, bool warms_up) {
  TrainingSettings of_gradients = settings;
  of_gradients.schedule = without_optimizer(settings.schedule);
  const TransformerConfig& model = settings.model;
  const TrainingData data =
      TrainingData::synthetic(model.vocab_size, model.seq_length, settings.seed);
  Trained result{.schedule = settings.schedule};
  const auto ranks = static_cast<int>(settings.config.world_size());
  result.ranks.resize(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  run_ranks({.size = ranks,
             .algorithm = settings.uses_ordered_sums ? CollectiveAlgorithm::kOrdered
                                                     : CollectiveAlgorithm::kRing,
             .make_backend = make_backend,
             .uses_nccl = uses_nccl,
             .make_host_backend = [] { return std::make_unique<CpuBackend>(); }},
            [&](Communicator& world, Backend& backend) {
              {
                Executor executor(backend, world, of_gradients, data);
                warm_up(executor, world, warms_up);
                static_cast<void>(executor.run_step());
                const std::lock_guard lock(mutex);
                collect(executor, backend, &OwnedSlice::gradient, result.gradients);
              }
              world.barrier();
              Executor executor(backend, world, settings, data);
              warm_up(executor, world, warms_up);
              RankRecord& record = result.ranks[static_cast<std::size_t>(world.rank())];
              for (std::int64_t step = 0; step < steps; ++step) {
                record.steps.push_back(executor.run_step());
              }
              record.peak_bytes = backend.peak_bytes();
              record.peak_activations = executor.peak_activations();
              executor.add_sent(record);
              const std::lock_guard lock(mutex);
              collect(executor, backend, &OwnedSlice::master, result.weights);
            });
  for (std::int64_t step = 0; step < steps; ++step) {
    for (const RankRecord& record : result.ranks) {
      if (record.steps[step].loss) {
        result.losses.push_back(*record.steps[step].loss);
        result.gradient_norms.push_back(record.steps[step].gradient_norm);
        break;
      }
    }
  }
  return result;
}

double largest_difference(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) {
    return std::numeric_limits<double>::infinity();
  }
  double squares = 0.0;
  for (const auto& [name, values] : b) {
    squares += norm(values) * norm(values);
  }
  double largest = 0.0;
  for (const auto& [name, expected] : b) {
    const auto found = a.find(name);
    if (found == a.end() || found->second.size() != expected.size()) {
      return std::numeric_limits<double>::infinity();
    }
    std::vector<double> difference(expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      difference[i] = found->second[i] - expected[i];
    }
    largest =
        std::max(largest, norm(difference) / std::max(norm(expected), 1e-3 * std::sqrt(squares)));
  }
  return largest;
}

}  // namespace ptdp::testing
