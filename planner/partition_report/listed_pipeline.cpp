// Costs cuts of a list by sums over the layers before each.
#include "planner/partition_report/listed_pipeline.h"

#include <algorithm>

#include "cost_model/iteration/schedule_shape.h"
#include "cost_model/schedule/generators/generators.h"

namespace ptdp {
namespace {

constexpr double kForwardShare =
    1.0 / 3.0;  // a backward pass has two products for each forward one
/// Rounds of pp microbatches in which an interleaved schedule holds most: its warm-up takes less
/// than two, and one more shows every mix of chunks.
constexpr std::int64_t kWalkedRounds = 3;

/// Returns how many chunks of one microbatch each rank has in flight at its worst.
std::vector<double> peak_chunks(const PlannedJob& job) {
  const ScheduleTraits& traits = traits_of(job.config().schedule);
  const ScheduleShape shape = schedule_sizes(job.config(), job.microbatches());
  std::vector<double> chunks;
  for (int rank = 0; rank < job.config().pp; ++rank) {
    chunks.push_back(traits.peak_activations(shape, rank));
  }
  return chunks;
}

/// Returns the start of the job's schedule, in which every rank reaches its peak. With several
/// chunks, pp must divide the microbatches.
Schedule walked_schedule(const PlannedJob& job) {
  const std::int64_t microbatches = std::min(job.microbatches(), kWalkedRounds * job.config().pp);
  return traits_of(job.config().schedule).generate(schedule_sizes(job.config(), microbatches));
}

/// Returns the most that a rank with these orders keeps. `kept` is what each virtual stage keeps of
/// a microbatch from its forward to its backward pass.
Bytes most_kept(const std::vector<Action>& orders, const std::vector<Bytes>& kept) {
  Bytes most;
  Bytes now;
  for (const Action& action : orders) {
    now += (action.kind == ActionKind::kForward ? 1.0 : -1.0) * kept[action.stage];
    most = std::max(most, now);
  }
  return most;
}

Bytes fullest(const std::vector<MemoryBreakdown>& ranks) {
  return ranks[heaviest_of(ranks)].total();
}

}  // namespace

ListedPipeline::ListedPipeline(const LayerList& list) : sums_(1) {
  for (const ListedLayer* layer : entries_of(list)) {
    const Seconds forward = layer->forward.value_or(kForwardShare * layer->time);
    for (int i = 0; i < layer->count; ++i) {
      const Sums& before = sums_.back();
      layers_.push_back({.forward = forward,
                         .backward = layer->time - forward,
                         .parameters = layer->parameters.value() / list.tp,
                         .activations = layer->activations.value()});
      const Sums& own = layers_.back();
      sums_.push_back({.forward = before.forward + own.forward,
                       .backward = before.backward + own.backward,
                       .parameters = before.parameters + own.parameters,
                       .activations = before.activations + own.activations});
      outputs_.push_back(layer->output.value_or(Bytes(0.0)));
    }
  }
}

ListedPipeline::Sums ListedPipeline::between(int first, int end) const {
  return {.forward = sums_[end].forward - sums_[first].forward,
          .backward = sums_[end].backward - sums_[first].backward,
          .parameters = sums_[end].parameters - sums_[first].parameters,
          .activations = sums_[end].activations - sums_[first].activations};
}

std::vector<ListedPipeline::Sums> ListedPipeline::of_stages(const std::vector<int>& sizes) const {
  std::vector<Sums> stages;
  int first = 0;
  for (const int size : sizes) {
    stages.push_back(between(first, first + size));
    first += size;
  }
  return stages;
}

Seconds ListedPipeline::longest_layer() const {
  Seconds longest;
  for (const Sums& layer : layers_) {
    longest = std::max(longest, layer.forward + layer.backward);
  }
  return longest;
}

Bytes ListedPipeline::largest_output() const {
  // The last layer hands nothing on.
  return outputs_.size() == 1 ? Bytes(0.0)
                              : *std::max_element(outputs_.begin(), outputs_.end() - 1);
}

StageLoads ListedPipeline::loads(const PlannedJob& job, const std::vector<int>& sizes) const {
  StageLoads loads{.sent = std::vector<Bytes>(static_cast<std::size_t>(job.config().pp))};
  for (const Sums& stage : of_stages(sizes)) {
    loads.passes.push_back(stage_durations(stage.forward + job.stack().microbatch_overhead,
                                           stage.backward, Seconds(0.0)));
    loads.held.push_back({.dense = stage.parameters});
  }
  int end = 0;
  for (std::size_t stage = 0; stage + 1 < sizes.size(); ++stage) {
    end += sizes[stage];
    Bytes& sent = loads.sent[stage % loads.sent.size()];
    sent = std::max(sent, outputs_[end - 1]);
  }
  return loads;
}

std::vector<LayerCost> ListedPipeline::costs(const PlannedJob& job) const {
  const ParallelConfig& config = job.config();
  std::vector<LayerCost> costs;
  costs.reserve(layers_.size());
  for (const Sums& of : layers_) {
    const Bytes buckets =
        config.dp > 1 ? bucket_memory(job.stack(), config.pp, of.parameters) : Bytes(0.0);
    costs.push_back(
        {.time = of.forward + of.backward,
         .memory = model_state(job.stack(), config, {.dense = of.parameters}, job.cluster().gpu) +
                   buckets,
         .kept = of.activations});
  }
  return costs;
}

std::vector<MemoryBreakdown> ListedPipeline::memory_with(const PlannedJob& job,
                                                         const std::vector<Sums>& stages,
                                                         const std::vector<Bytes>& kept) const {
  const ParallelConfig& config = job.config();
  const StackSpec& stack = job.stack();
  std::vector<MemoryBreakdown> ranks;
  for (int rank = 0; rank < config.pp; ++rank) {
    RankParameters held;
    for (std::size_t stage = rank; stage < stages.size(); stage += config.pp) {
      held.dense += stages[stage].parameters;
    }
    MemoryBreakdown& memory = ranks.emplace_back();
    memory.weights = stack.weight_bytes * Bytes(held.dense);
    memory.gradients = gradient_memory(stack, config, {.whole = held});
    memory.optimizer =
        model_state(stack, config, held, job.cluster().gpu) - memory.weights - memory.gradients;
    memory.activations = kept[rank];
    memory.buffers = config.dp > 1 ? bucket_memory(stack, config.pp, held.dense) : Bytes(0.0);
    if (config.pp > 1) {
      memory.buffers += kMessageBuffers * largest_output();
    }
    memory.reserve = reserved_memory(job.cluster().gpu, stack);
  }
  return ranks;
}

std::vector<MemoryBreakdown> ListedPipeline::memory(const PlannedJob& job,
                                                    const std::vector<int>& sizes) const {
  const std::vector<Sums> stages = of_stages(sizes);
  std::vector<Bytes> of_stage;
  for (const Sums& stage : stages) {
    of_stage.push_back(stage.activations);
  }
  const Schedule schedule = walked_schedule(job);
  std::vector<Bytes> kept;
  for (const std::vector<Action>& orders : schedule.orders) {
    kept.push_back(most_kept(orders, of_stage));
  }
  return memory_with(job, stages, kept);
}

bool ListedPipeline::fits(const PlannedJob& job, const std::vector<int>& sizes, Bytes limit) const {
  const Bytes most = limit + Bytes(1.0 * num_layers());  // cuts count whole bytes of each layer
  // Mostly there is room for as many of the largest chunk, which needs no look at the schedule.
  const std::vector<Sums> stages = of_stages(sizes);
  std::vector<Bytes> kept(static_cast<std::size_t>(job.config().pp));
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    Bytes& largest = kept[stage % kept.size()];
    largest = std::max(largest, stages[stage].activations);
  }
  const std::vector<double> chunks = peak_chunks(job);
  for (std::size_t rank = 0; rank < kept.size(); ++rank) {
    kept[rank] = chunks[rank] * kept[rank];
  }
  return fullest(memory_with(job, stages, kept)) <= most ||
         (job.config().vpp > 1 && fullest(memory(job, sizes)) <= most);
}

bool ListedPipeline::exceeds(const PlannedJob& job, Bytes limit) const {
  const PartitionRequest request = this->request(job, limit);
  const Bytes state =
      model_state(job.stack(), job.config(), {.dense = parameters()}, job.cluster().gpu);
  const Bytes mean =
      (state + request.in_flight.back() * sums_.back().activations) / job.config().pp;
  return mean > *request.memory + Bytes(1.0 * num_layers());
}

PartitionRequest ListedPipeline::request(const PlannedJob& job, Bytes limit) const {
  const ParallelConfig& config = job.config();
  const Bytes room = limit - reserved_memory(job.cluster().gpu, job.stack()) -
                     (config.pp > 1 ? kMessageBuffers : 0.0) * largest_output();
  std::vector<double> in_flight = peak_chunks(job);
  for (double& microbatches : in_flight) {
    microbatches /= config.vpp;
  }
  return {.pp = config.pp,
          .vpp = config.vpp,
          .memory = std::max(room, Bytes(0.0)),
          .in_flight = std::move(in_flight)};
}

}  // namespace ptdp
