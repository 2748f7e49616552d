#include "runtime/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/schedule/lane.h"

namespace ptdp {
namespace {

/// The part of the model that a virtual stage is.
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

/// Whether `rank` holds the copy of a stage that is counted where every stage counts once.
bool holds_first_copy(const Schedule& schedule, int stage, int rank) {
  return rank_of(schedule, stage, 0) == rank;
}

Span span_of(const Event& start, const Event& end) {
  return {.start = Seconds(static_cast<double>(start.nanoseconds) * 1e-9),
          .end = Seconds(static_cast<double>(end.nanoseconds) * 1e-9)};
}

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
      order_(settings.schedule.orders[static_cast<std::size_t>(groups_.pipeline_rank)]),
      total_(backend, DataType::kFloat64, 1),
      state_{.seed = settings.seed, .model = settings.model} {
  auto timed = std::make_unique<TimedCommunicator>(backend, std::move(groups_.tensor));
  tensor_ = timed.get();
  groups_.tensor = std::move(timed);

  const StageSettings stage_settings{.model = settings.model,
                                     .micro_batch_size = settings.config.micro_batch_size,
                                     .type = settings.type,
                                     .recompute = settings.config.recompute,
                                     .sequence_parallel = settings.config.sequence_parallel,
                                     .dropout = settings.dropout,
                                     .seed = settings.seed,
                                     .adds_gradients_apart = settings.is_reproducible,
                                     .clock = &clock_};
  for (const Action& action : order_) {
    if (is_compute(action.kind)) {
      stages_.try_emplace(action.stage);
    }
  }
  std::vector<StoreShare> shares;
  for (auto& [number, stage] : stages_) {  // ascending: the first stage's table is there first
    const StageLayers layers = layers_of(settings, number);
    ParameterStore* table = layers.ends_model && !layers.begins_model && layers.holds_both_ends
                                ? &stages_.at(0)->parameters()
                                : nullptr;
    stage = std::make_unique<TransformerStage>(backend, *tensor_, stage_settings, layers, table);
    const Communicator& data_group = *groups_.stage_data[static_cast<std::size_t>(number)];
    shares.push_back({.store = &stage->parameters(),
                      .num_buckets = std::max(num_buckets(ActionKind::kReduceGradients, number), 1),
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

StepRecord Executor::run_step() {
  record_ = StepRecord{};
  record_.actions.assign(order_.size(), Span{});
  weight_gradients_left_.clear();
  for (const Action& action : order_) {
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient) {
      ++weight_gradients_left_[action.stage];
    }
  }
  for (const auto& [number, stage] : stages_) {
    if (!stage->loss_total().empty()) {
      backend_.fill(stage->loss_total(), 0.0);
    }
  }
  static_cast<void>(tensor_->take());
  static_cast<void>(clock_.take());
  const Event start = backend_.record();
  for (std::size_t index = 0; index < order_.size(); ++index) {
    compute_start_ = backend_.record();
    if (hooks_.before) {
      hooks_.before(state_.step, order_[index], Lane::kCompute);
    }
    run(order_[index], index);
    if (hooks_.after) {
      hooks_.after(Lane::kCompute);
    }
    if (occupies_lane(order_[index].kind)) {
      record_.actions[index] = span_of(compute_start_, backend_.record());
    }
    for (const TimedCollective& collective : tensor_->take()) {
      record_.sub_spans.push_back({.action = index,
                                   .kind = collective.kind,
                                   .span = span_of(collective.start, collective.end),
                                   .bytes = collective.bytes});
    }
  }
  record_.step = span_of(start, backend_.record());
  record_.operations = clock_.take();
  ++state_.step;
  state_.next_sample += settings_.global_batch_size;
  state_.loss_scaler = loss_scaler_.state();
  return std::move(record_);
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
      return;  // part of the backward pass here
    case ActionKind::kSendForward:
    case ActionKind::kSendBackward:
      return send(action);
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
      return reduce_gradients(action);
    case ActionKind::kGatherParameters:
      return gather_bucket(action.stage, action.microbatch);
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

bool Executor::sends_parts() const {
  return settings_.scatters_messages && !settings_.config.sequence_parallel && tensor_->size() > 1;
}

Buffer Executor::own_part(const Tensor& tensor) const {
  if (!sends_parts()) {
    return tensor;
  }
  const Part part = part_of(tensor.buffer().size, tensor_->size(), tensor_->rank());
  return tensor.buffer().slice(part.first, part.count);
}

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
    record_.actions[message.action] = span_of(arrival, arrival);
    compute_start_ = arrival;  // what is waited for is not the action's
  }
  return std::move(message.tensor);
}

void Executor::forward(const Action& action) {
  Tensor input = take(activations_, action);
  Tensor output = stages_.at(action.stage)->forward(microbatch(action), std::move(input));
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
  keep_input_gradient(action,
                      stages_.at(action.stage)->backward(microbatch(action), std::move(gradient)));
  finish_weight_gradient(action);
}

void Executor::input_gradient(const Action& action) {
  Tensor gradient = take(gradients_, action);
  keep_input_gradient(
      action, stages_.at(action.stage)->backward_input(microbatch(action), std::move(gradient)));
}

void Executor::weight_gradient(const Action& action) {
  stages_.at(action.stage)->backward_weights(microbatch(action));
  finish_weight_gradient(action);
}

void Executor::finish_weight_gradient(const Action& action) {
  tokens_.erase({action.stage, action.microbatch});
  if (--weight_gradients_left_.at(action.stage) == 0) {
    stages_.at(action.stage)->finish_gradients();
  }
}

void Executor::send(const Action& action) {
  const bool is_forward = action.kind == ActionKind::kSendForward;
  std::map<Key, Tensor>& results = is_forward ? outputs_ : input_gradients_;
  Communicator& group = is_forward ? *groups_.pipeline_forward : *groups_.pipeline_backward;
  const auto found = results.find({action.stage, action.microbatch});
  const int to =
      rank_of(settings_.schedule, action.stage + (is_forward ? 1 : -1), action.microbatch);
  group.wait(group.send(own_part(found->second), to));
  results.erase(found);
}

void Executor::receive(const Action& action, std::size_t index) {
  const bool is_forward = action.kind == ActionKind::kReceiveForward;
  const TransformerConfig& model = settings_.model;
  const ParallelConfig& config = settings_.config;
  const std::int64_t size = std::int64_t{model.seq_length} * config.micro_batch_size *
                            model.hidden_size / (config.sequence_parallel ? config.tp : 1);
  Message message{
      .tensor = Tensor(backend_, settings_.type, size), .action = index, .is_received = true};
  Communicator& group = is_forward ? *groups_.pipeline_forward : *groups_.pipeline_backward;
  const int from =
      rank_of(settings_.schedule, action.stage + (is_forward ? -1 : 1), action.microbatch);
  message.request = group.receive(own_part(message.tensor), from);
  (is_forward ? activations_ : gradients_)[{action.stage, action.microbatch}] = std::move(message);
}

int Executor::num_buckets(ActionKind kind, int stage) const {
  return static_cast<int>(std::count_if(order_.begin(), order_.end(), [&](const Action& action) {
    return action.kind == kind && action.stage == stage;
  }));
}

void Executor::reduce_gradients(const Action& action) {
  const ParameterStore& store = stages_.at(action.stage)->parameters();
  Communicator& group = *groups_.stage_data[static_cast<std::size_t>(action.stage)];
  for (const Part& range :
       reduction_ranges(store, action.microbatch, num_buckets(action.kind, action.stage))) {
    const Buffer gradients = store.all_gradients().slice(range.first, range.count);
    if (is_sharded()) {
      group.reduce_scatter(gradients);
    } else {
      group.all_reduce(gradients, Reduction::kSum);
    }
  }
}

void Executor::gather_bucket(int stage, int bucket) {
  const ParameterStore& store = stages_.at(stage)->parameters();
  for (const Part& range :
       reduction_ranges(store, bucket, num_buckets(ActionKind::kGatherParameters, stage))) {
    groups_.stage_data[static_cast<std::size_t>(stage)]->all_gather(
        store.all_weights().slice(range.first, range.count));
  }
}

void Executor::reduce_tied(const Action& action) {
  const ParameterStore& store = stages_.at(action.stage)->parameters();
  Part range{.first = store.first_of(GradientGroup::kTied),
             .count = store.count_of(GradientGroup::kTied)};
  if (is_sharded()) {  // the rest is another replica's
    const Communicator& data = *groups_.stage_data[static_cast<std::size_t>(action.stage)];
    const Part own = part_of(range.count, data.size(), data.rank());
    range = {.first = range.first + own.first, .count = own.count};
  }
  groups_.tied->all_reduce(store.all_gradients().slice(range.first, range.count), Reduction::kSum);
}

void Executor::reduce_norm() {
  backend_.fill(total_, 0.0);
  optimizer_->add_squares(total_);
  (is_sharded() ? groups_.world : groups_.model)->all_reduce(total_, Reduction::kSum);
  backend_.copy_out(total_, &squares_);

  const int last = num_stages(settings_.schedule) - 1;
  const auto found = stages_.find(last);
  if (found != stages_.end()) {
    const Buffer loss = found->second->loss_total();
    groups_.stage_data[static_cast<std::size_t>(last)]->all_reduce(loss, Reduction::kSum);
    double total = 0.0;
    backend_.copy_out(loss, &total);
    record_.loss =
        total / (static_cast<double>(settings_.global_batch_size) * settings_.model.seq_length);
    if (!std::isfinite(*record_.loss)) {
      throw Error(fmt::format("the loss is {}; expected a finite one (a smaller --lr, or longer "
                              "--lr-warm-up)",
                              *record_.loss),
                  ExitStatus::kRuntimeFault);
    }
  }
}

void Executor::step_optimizer() {
  record_.loss_scale = loss_scale();
  record_.is_skipped = !std::isfinite(squares_);
  record_.gradient_norm = record_.is_skipped ? 0.0 : std::sqrt(squares_) / loss_scale();
  if (record_.is_skipped) {
    const bool may_shrink =
        settings_.type == DataType::kFloat16 && loss_scaler_.scale() > LossScaler::kSmallestScale;
    if (!may_shrink) {
      throw Error(fmt::format("the norm of the gradients is {}; expected a finite one (a smaller "
                              "--lr, or longer --lr-warm-up)",
                              squares_),
                  ExitStatus::kRuntimeFault);
    }
    optimizer_->zero_gradients();
  } else {
    ++state_.optimizer_steps;
    optimizer_->step(
        {.learning_rate = learning_rate(settings_.learning_rate, state_.step + 1),
         .beta1 = settings_.beta1,
         .beta2 = settings_.beta2,
         .epsilon = settings_.epsilon,
         .weight_decay = settings_.weight_decay,
         .step = state_.optimizer_steps,
         .gradient_scale = gradient_scale(squares_, settings_.gradient_clip, loss_scale())});
  }
  if (settings_.type == DataType::kFloat16) {
    loss_scaler_.update(record_.is_skipped);
  }
}

double Executor::loss_scale() const {
  return settings_.type == DataType::kFloat16 ? loss_scaler_.scale() : 1.0;
}

void Executor::restore(const Checkpoint& checkpoint) {
  checkpoint.restore(backend_, *optimizer_);
  state_ = checkpoint.state();
  state_.seed = settings_.seed;
  loss_scaler_ = LossScaler(state_.loss_scaler);
}

void Executor::add_sent(RankRecord& record) const {
  add(record.tensor, tensor_->sent());
  add(record.pipeline_forward, groups_.pipeline_forward->sent());
  add(record.pipeline_backward, groups_.pipeline_backward->sent());
  for (const auto& [number, stage] : stages_) {
    add(record.data, groups_.stage_data[static_cast<std::size_t>(number)]->sent());
  }
  if (groups_.tied) {
    add(record.tied, groups_.tied->sent());
  }
  add(record.model, groups_.model->sent());
  add(record.model, groups_.world->sent());
}

}  // namespace ptdp
