#include "runtime/executor/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/pipeline_rank/aligned_ranges.h"
#include "cost_model/schedule/lane.h"
#include "cost_model/simulation/engine/step_layout.h"

namespace ptdp {
namespace {

/// Returns the layers that a virtual stage has, and its place in the model.
StageLayers layers_of(const TrainingSettings& settings, int stage) {
  const Schedule& schedule = settings.schedule;
  const int last = num_stages(schedule) - 1;
  StageLayers layers{.count = settings.stage_layers[stage],
                     .begins_model = stage == 0,
                     .ends_model = stage == last};
  for (int before = 0; before < stage; ++before) {
    layers.first += settings.stage_layers[before];
  }
  layers.holds_both_ends = rank_of(schedule, 0, 0) == rank_of(schedule, last, 0) ||
                           schedule.placement == StagePlacement::kBidirectional;
  return layers;
}

/// Returns whether pipeline rank `rank` holds the copy of a stage that counts in sums over stages.
/// With DualPipe a stage has two copies.
bool holds_first_copy(const Schedule& schedule, int stage, int rank) {
  return rank_of(schedule, stage, 0) == rank;
}

/// Wraps the communicator of a group to time its calls and to leave them out. Returns the outer
/// wrapper, owned by `group`, and adds the inner one to `silenced`. Returns null without a group.
TimedCommunicator* make_timed(Backend& backend, std::unique_ptr<Communicator>& group,
                              std::vector<SilentCommunicator*>& silenced) {
  if (group == nullptr) {
    return nullptr;
  }
  auto silent = std::make_unique<SilentCommunicator>(std::move(group));
  silenced.push_back(silent.get());
  auto timed = std::make_unique<TimedCommunicator>(backend, std::move(silent));
  TimedCommunicator* const result = timed.get();
  group = std::move(timed);
  return result;
}

/// Adds the bytes and messages sent, by kind, to `total`.
void add(SentBytes& total, const SentBytes& sent) {
  for (std::size_t kind = 0; kind < total.bytes.size(); ++kind) {
    total.bytes[kind] += sent.bytes[kind];
    total.messages[kind] += sent.messages[kind];
  }
}

}  // namespace

Executor::Executor(Backend& backend, Communicator& world, const TrainingSettings& settings,
                   const TrainingData& data, ActionHooks hooks)
    : backend_(backend),
      settings_(settings),
      data_(data),
      hooks_(std::move(hooks)),
      clock_(backend),
      groups_(make_process_groups(world, settings.config, settings.schedule)),
      tensor_(make_timed(backend, groups_.tensor, silenced_)),
      shards_(make_timed(backend, groups_.shards, silenced_)),
      order_(settings.schedule.orders[static_cast<std::size_t>(groups_.pipeline_rank)]),
      reductions_(buckets_of(order_, ActionKind::kReduceGradients)),
      gathers_(buckets_of(order_, ActionKind::kGatherParameters)),
      total_(backend, DataType::kFloat64, 1),
      state_{.seed = settings.seed,
             .decay_steps = settings.learning_rate.decay_steps,
             .model = settings.model},
      is_queued_(groups_.world->is_queued()),
      lanes_{{make_lane(Lane::kCompute), make_lane(Lane::kForwardMessages),
              make_lane(Lane::kBackwardMessages), make_lane(Lane::kData)}} {
  if (is_queued_) {
    backend_.tell_waits(hooks_.waits);
  }
  const StageSettings stage_settings{.model = settings.model,
                                     .micro_batch_size = settings.config.micro_batch_size,
                                     .type = settings.type,
                                     .recompute = settings.config.recompute,
                                     .sequence_parallel = settings.config.sequence_parallel,
                                     .overlaps_tensor = settings.overlaps_tensor,
                                     .dropout = settings.dropout,
                                     .seed = settings.seed,
                                     .adds_gradients_apart = settings.is_reproducible,
                                     .sharding = {.group = shards_,
                                                  .group_size = num_sharers(settings.config),
                                                  .of_weights = shards_weights(settings.config),
                                                  .keeps_weights = !gathers_again(settings.config)},
                                     .clock = &clock_};
  for (const Action& action : order_) {
    if (is_compute(action.kind)) {
      stages_.try_emplace(action.stage);
    }
  }
  std::vector<StoreShare> shares;
  // In ascending order: stage 0, which may own the tied table, is made before the last stage.
  for (auto& [number, stage] : stages_) {
    const StageLayers layers = layers_of(settings, number);
    ParameterStore* table = layers.ends_model && !layers.begins_model && layers.holds_both_ends
                                ? &stages_.at(0)->parameters()
                                : nullptr;
    stage = std::make_unique<TransformerStage>(backend, *tensor_, stage_settings, layers, table);
    const Communicator& data_group = *groups_.stage_data[static_cast<std::size_t>(number)];
    shares.push_back({.store = &stage->parameters(),
                      .num_buckets = num_buckets(reductions_, number),
                      .group_size = data_group.size(),
                      .group_rank = data_group.rank(),
                      .shards_states = is_sharded(),
                      .counts_tied = layers.begins_model,
                      .counts_replicated = groups_.tensor_rank == 0,
                      .counts = is_sharded() || holds_first_copy(settings.schedule, number,
                                                                 groups_.pipeline_rank)});
  }
  optimizer_ = std::make_unique<Optimizer>(backend, std::move(shares));
}

std::map<int, Executor::Buckets> Executor::buckets_of(const std::vector<Action>& order,
                                                      ActionKind kind) {
  std::map<int, Buckets> buckets;
  for (std::size_t index = 0; index < order.size(); ++index) {
    if (order[index].kind == kind) {
      buckets[order[index].stage].actions.push_back(index);
    }
  }
  return buckets;
}

void Executor::run(const Action& action, std::size_t index) {
  switch (action.kind) {
    case ActionKind::kForward:
      return forward(action);
    case ActionKind::kBackward:
      return backward(action);
    case ActionKind::kInputGradient:
      return input_gradient(action);
    case ActionKind::kWeightGradient:
      return weight_gradient(action);
    case ActionKind::kRecompute:
      return;  // this rank's backward pass includes it
    case ActionKind::kSendForward:
    case ActionKind::kSendBackward:
      return send(action, index);
    case ActionKind::kReceiveForward:
    case ActionKind::kReceiveBackward:
      return receive(action, index);
    case ActionKind::kCopyForward:
      activations_[{action.stage, action.microbatch}] = {
          .tensor = std::move(outputs_.at({action.stage - 1, action.microbatch}))};
      outputs_.erase({action.stage - 1, action.microbatch});
      return;
    case ActionKind::kCopyBackward:
      gradients_[{action.stage, action.microbatch}] = {
          .tensor = std::move(input_gradients_.at({action.stage + 1, action.microbatch}))};
      input_gradients_.erase({action.stage + 1, action.microbatch});
      return;
    case ActionKind::kReduceGradients:
      return post_reductions(action.stage, 0);
    case ActionKind::kGatherParameters:
      return post_gather(action, index);
    case ActionKind::kReduceTied:
      return reduce_tied(action);
    case ActionKind::kReduceNorm:
      return reduce_norm();
    case ActionKind::kOptimizer:
      return step_optimizer();
  }
}

Microbatch Executor::microbatch(const Action& action) {
  const TransformerConfig& model = settings_.model;
  const ParallelConfig& config = settings_.config;
  const auto tokens = static_cast<double>(settings_.global_batch_size) * model.seq_length;
  const std::int64_t turn = std::int64_t{action.microbatch} * config.dp + groups_.data_rank;
  Microbatch microbatch{.index = action.microbatch,
                        .step = state_.step,
                        .first_sample = turn * config.micro_batch_size,
                        .gradient_scale = loss_scale() / tokens};
  const bool begins = action.stage == 0;
  const bool ends = action.stage == num_stages(settings_.schedule) - 1;
  if (begins || ends) {
    Tokens& here = tokens_[{action.stage, action.microbatch}];
    if (here.inputs.empty() && here.targets.empty()) {
      const TokenBatch batch =
          data_.batch(state_.next_sample + microbatch.first_sample, config.micro_batch_size);
      const auto upload = [&](const std::vector<std::int32_t>& values) {
        Tensor tensor(backend_, DataType::kInt32, std::ssize(values));
        backend_.copy_in(values.data(), tensor);
        return tensor;
      };
      if (begins) {
        here.inputs = upload(batch.tokens);
      }
      if (ends) {
        here.targets = upload(batch.targets);
      }
    }
    microbatch.tokens = here.inputs;
    microbatch.targets = here.targets;
  }
  return microbatch;
}

/// Returns whether pipeline messages are split over the tensor-parallel group.
bool Executor::sends_parts() const {
  return settings_.scatters_messages && !settings_.config.sequence_parallel && tensor_->size() > 1;
}

/// Returns the number of elements of a microbatch's activations between two stages on this rank.
std::int64_t Executor::message_size() const {
  const ParallelConfig& config = settings_.config;
  return std::int64_t{settings_.model.seq_length} * config.micro_batch_size *
         settings_.model.hidden_size / (config.sequence_parallel ? config.tp : 1);
}

/// Returns the part of a message that this rank sends or receives.
Buffer Executor::own_part(const Tensor& tensor) const {
  if (!sends_parts()) {
    return tensor;
  }
  const Part part = part_of(tensor.buffer().size, tensor_->size(), tensor_->rank());
  return tensor.buffer().slice(part.first, part.count);
}

/// Takes a message out of `messages` and waits until it is whole. Returns an empty tensor at the
/// ends of the model.
Tensor Executor::take(Messages& messages, const Action& action) {
  const auto found = messages.find({action.stage, action.microbatch});
  if (found == messages.end()) {
    return {};  // the end of the model
  }
  Message message = std::move(found->second);
  messages.erase(found);
  if (message.is_received) {
    const bool is_forward = &messages == &activations_;
    (is_forward ? groups_.pipeline_forward : groups_.pipeline_backward)->wait(message.request);
    if (sends_parts()) {
      tensor_->all_gather(message.tensor);
    }
    const Event arrival = backend_.record();
    events_[message.action] = {.start = arrival, .end = arrival, .is_known = true};
    compute_start_ = arrival;  // the wait for the message is not the action's time
  }
  return std::move(message.tensor);
}

void Executor::forward(const Action& action) {
  Tensor input = take(activations_, action);
  // Parameters are gathered before their first use in a step.
  PlaceListener before_use;
  const auto gathers = gathers_.find(action.stage);
  const bool is_first_use = gathers != gathers_.end() && !gathers->second.posted.empty();
  if (is_first_use && lane_of(ActionKind::kGatherParameters) != Lane::kCompute) {
    before_use = [this, &action](std::int64_t end) { wait_for_parameters(action.stage, end); };
  }
  Tensor output =
      stages_.at(action.stage)->forward(microbatch(action), std::move(input), before_use);
  if (is_first_use) {
    gathers->second.posted.clear();
  }
  if (!output.empty()) {
    outputs_[{action.stage, action.microbatch}] = std::move(output);
  }
  int held = 0;
  for (const auto& [number, stage] : stages_) {
    held += stage->activations_held();
  }
  peak_activations_ = std::max(peak_activations_, held);
}

void Executor::keep_input_gradient(const Action& action, Tensor gradient) {
  if (!gradient.empty()) {
    input_gradients_[{action.stage, action.microbatch}] = std::move(gradient);
  }
}

void Executor::backward(const Action& action) {
  Tensor gradient = take(gradients_, action);
  const PlaceListener listener = reduces_behind(action);
  gradient = stages_.at(action.stage)->backward(microbatch(action), std::move(gradient), listener);
  keep_input_gradient(action, std::move(gradient));
  finish_weight_gradient(action);
}

void Executor::input_gradient(const Action& action) {
  Tensor gradient = take(gradients_, action);
  gradient = stages_.at(action.stage)->backward_input(microbatch(action), std::move(gradient));
  keep_input_gradient(action, std::move(gradient));
}

void Executor::weight_gradient(const Action& action) {
  const PlaceListener listener = reduces_behind(action);
  stages_.at(action.stage)->backward_weights(microbatch(action), listener);
  finish_weight_gradient(action);
}

/// Returns what to call as the stage's last weight gradient proceeds, to reduce each bucket once it
/// is complete. Returns an empty function for other actions, and when reductions do not overlap.
PlaceListener Executor::reduces_behind(const Action& action) {
  const bool is_last = weight_gradients_left_.at(action.stage) == 1;
  if (!is_last || !reductions_.contains(action.stage) ||
      lane_of(ActionKind::kReduceGradients) == Lane::kCompute) {
    return {};
  }
  const std::int64_t first_own =
      stages_.at(action.stage)->parameters().first_of(GradientGroup::kOwn);
  return [this, stage = action.stage, first_own](std::int64_t place) {
    // Gradients in front of `first_own` are first summed over other ranks.
    post_reductions(stage, std::max(place, first_own));
  };
}

void Executor::finish_weight_gradient(const Action& action) {
  tokens_.erase({action.stage, action.microbatch});
  if (--weight_gradients_left_.at(action.stage) == 0) {
    stages_.at(action.stage)->finish_gradients();
  }
}

void Executor::send(const Action& action, std::size_t index) {
  const bool is_forward = action.kind == ActionKind::kSendForward;
  std::map<Key, Tensor>& results = is_forward ? outputs_ : input_gradients_;
  const auto found = results.find({action.stage, action.microbatch});
  const auto result = std::make_shared<Tensor>(std::move(found->second));
  results.erase(found);
  const int to =
      rank_of(settings_.schedule, action.stage + (is_forward ? 1 : -1), action.microbatch);
  Communicator& group = is_forward ? *groups_.pipeline_forward : *groups_.pipeline_backward;
  post(index, [this, &group, result, to] {
    group.wait(group.send(own_part(*result), to));
    result->reset();
  });
}

void Executor::receive(const Action& action, std::size_t index) {
  const bool is_forward = action.kind == ActionKind::kReceiveForward;
  Message message{.tensor = Tensor(backend_, settings_.type, message_size()),
                  .action = index,
                  .is_received = true};
  Communicator& group = is_forward ? *groups_.pipeline_forward : *groups_.pipeline_backward;
  const int from =
      rank_of(settings_.schedule, action.stage + (is_forward ? -1 : 1), action.microbatch);
  message.request = group.receive(own_part(message.tensor), from);
  (is_forward ? activations_ : gradients_)[{action.stage, action.microbatch}] = std::move(message);
}

void Executor::restore(const Checkpoint& checkpoint) {
  checkpoint.restore(backend_, *optimizer_);
  state_ = checkpoint.state();
  state_.seed = settings_.seed;
  state_.decay_steps = settings_.learning_rate.decay_steps;
  loss_scaler_ = LossScaler(state_.loss_scaler);
}

void Executor::add_sent(RankRecord& record) const {
  add(record.tensor, tensor_->sent());
  add(record.pipeline_forward, groups_.pipeline_forward->sent());
  add(record.pipeline_backward, groups_.pipeline_backward->sent());
  for (const auto& [number, stage] : stages_) {
    add(record.data, groups_.stage_data[static_cast<std::size_t>(number)]->sent());
  }
  if (groups_.shards) {
    add(record.data, groups_.shards->sent());
  }
  if (groups_.tied) {
    add(record.tied, groups_.tied->sent());
  }
  add(record.model, groups_.model->sent());
  add(record.model, groups_.world->sent());
}

}  // namespace ptdp
