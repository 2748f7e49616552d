// What a rank does with whole stages in a step: gathers, reductions, the norm, the optimizer.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "cost_model/error.h"
#include "runtime/executor/executor.h"

namespace ptdp {
namespace {

/// Returns where a part of a store that is reduced and gathered by itself begins. Returns the
/// store's size when the part is empty.
std::int64_t first_of_part(const ParameterStore& store, int part, int num_parts) {
  const std::vector<Part> ranges = reduction_ranges(store, part, num_parts);
  return ranges.empty() ? store.size() : ranges.front().first;
}

}  // namespace

/// Returns the number of buckets of a stage; 1 for a stage without actions of this kind.
int Executor::num_buckets(const std::map<int, Buckets>& buckets, int stage) {
  const auto found = buckets.find(stage);
  return found == buckets.end() ? 1 : static_cast<int>(found->second.actions.size());
}

/// Posts the reductions of buckets whose gradients all lie at or behind `complete_from`. The flat
/// buffers are cut into parts in the order of the layers. Backward passes complete the last part
/// first.
void Executor::post_reductions(int stage, std::int64_t complete_from) {
  Buckets& buckets = reductions_.at(stage);
  const ParameterStore& store = stages_.at(stage)->parameters();
  const int count = num_buckets(reductions_, stage);
  while (std::ssize(buckets.posted) < count) {
    const auto posted = static_cast<int>(buckets.posted.size());
    const int part = count - 1 - posted;
    if (first_of_part(store, part, count) < complete_from) {
      return;
    }
    buckets.posted.push_back(post(buckets.actions[static_cast<std::size_t>(posted)],
                                  [this, stage, part] { reduce_bucket(stage, part); }));
  }
}

/// Sums the gradients of one bucket over the replicas: a reduce-scatter with sharded states, else
/// an all-reduce.
void Executor::reduce_bucket(int stage, int part) {
  const ParameterStore& store = stages_.at(stage)->parameters();
  Communicator& group = *groups_.stage_data[static_cast<std::size_t>(stage)];
  for (const Part& range : reduction_ranges(store, part, num_buckets(reductions_, stage))) {
    const Buffer gradients = store.all_gradients().slice(range.first, range.count);
    if (is_sharded()) {
      group.reduce_scatter(gradients);
    } else {
      group.all_reduce(gradients, Reduction::kSum);
    }
  }
}

void Executor::post_gather(const Action& action, std::size_t index) {
  gathers_.at(action.stage)
      .posted.push_back(post(index, [this, stage = action.stage, bucket = action.microbatch] {
        gather_bucket(stage, bucket);
      }));
}

/// Waits until the parameters in front of `end` are gathered.
void Executor::wait_for_parameters(int stage, std::int64_t end) {
  const ParameterStore& store = stages_.at(stage)->parameters();
  const Buckets& gathers = gathers_.at(stage);
  const int count = num_buckets(gathers_, stage);
  for (std::size_t bucket = 0; bucket < gathers.posted.size(); ++bucket) {
    if (first_of_part(store, static_cast<int>(bucket), count) < end) {
      wait_for(gathers.posted[bucket]);
    }
  }
}

/// Gathers the weights of one bucket from the replicas.
void Executor::gather_bucket(int stage, int bucket) {
  const ParameterStore& store = stages_.at(stage)->parameters();
  for (const Part& range : reduction_ranges(store, bucket, num_buckets(gathers_, stage))) {
    groups_.stage_data[static_cast<std::size_t>(stage)]->all_gather(
        store.all_weights().slice(range.first, range.count));
  }
}

void Executor::reduce_tied(const Action& action) {
  wait_for_all(Lane::kData);
  const ParameterStore& store = stages_.at(action.stage)->parameters();
  Part range = store.tied_range();
  if (is_sharded()) {  // the rest belongs to other replicas
    const Communicator& data = *groups_.stage_data[static_cast<std::size_t>(action.stage)];
    const Part own = part_of(range.count, data.size(), data.rank());
    range = {.first = range.first + own.first, .count = own.count};
  }
  groups_.tied->all_reduce(store.all_gradients().slice(range.first, range.count), Reduction::kSum);
}

/// Sums the squares of the gradients over ranks, and the loss over the last stage's replicas. Both
/// sums stay on the device.
void Executor::reduce_norm() {
  wait_for_all(Lane::kData);
  backend_.fill(total_, 0.0);
  optimizer_->add_squares(total_);
  (is_sharded() ? groups_.world : groups_.model)->all_reduce(total_, Reduction::kSum);
  if (const Buffer loss = loss_total(); !loss.empty()) {
    groups_.stage_data[static_cast<std::size_t>(num_stages(settings_.schedule) - 1)]->all_reduce(
        loss, Reduction::kSum);
  }
}

/// Returns the sum of the losses of the last stage; empty on ranks without that stage.
Buffer Executor::loss_total() const {
  const auto found = stages_.find(num_stages(settings_.schedule) - 1);
  return found == stages_.end() ? Buffer() : found->second->loss_total();
}

/// Updates the weights, unless the sum of squares turns out not to be finite. Waits for the device
/// behind that.
void Executor::step_optimizer() {
  const AdamW step = {.learning_rate = learning_rate(settings_.learning_rate, state_.step + 1),
                      .beta1 = settings_.beta1,
                      .beta2 = settings_.beta2,
                      .epsilon = settings_.epsilon,
                      .weight_decay = settings_.weight_decay,
                      .step = state_.optimizer_steps + 1,
                      .gradient_scale = 1.0 / loss_scale(),
                      .largest_norm = settings_.gradient_clip,
                      .squares = total_};
  optimizer_->step(step);
  read_loss();
  read_norm();
}

/// Reads the step's loss from the device. Throws Error(kRuntimeFault) when it is not finite.
void Executor::read_loss() {
  const Buffer loss = loss_total();
  if (loss.empty()) {
    return;
  }
  double total = 0.0;
  read_from_device([&] { backend_.copy_out(loss, &total); });
  record_.loss =
      total / (static_cast<double>(settings_.global_batch_size) * settings_.model.seq_length);
  if (!std::isfinite(*record_.loss)) {
    throw Error(fmt::format("the loss is {}; expected a finite one (a smaller --lr, or longer "
                            "--lr-warm-up)",
                            *record_.loss),
                ExitStatus::kRuntimeFault);
  }
}

/// Reads the norm of the gradients from the device, and so whether the step changed the weights:
/// overflowing gradients of fp16 skip it. Throws Error(kRuntimeFault) when the norm is not finite
/// and no smaller loss scale can help.
void Executor::read_norm() {
  double squares = 0.0;
  read_from_device([&] { backend_.copy_out(total_, &squares); });
  record_.loss_scale = loss_scale();
  record_.is_skipped = !std::isfinite(squares);
  record_.gradient_norm = record_.is_skipped ? 0.0 : std::sqrt(squares) / loss_scale();
  const bool is_scaled = settings_.type == DataType::kFloat16;
  if (record_.is_skipped && !(is_scaled && loss_scaler_.scale() > LossScaler::kSmallestScale)) {
    throw Error(fmt::format("the norm of the gradients is {}; expected a finite one (a smaller "
                            "--lr, or longer --lr-warm-up)",
                            squares),
                ExitStatus::kRuntimeFault);
  }
  state_.optimizer_steps += record_.is_skipped ? 0 : 1;
  if (is_scaled) {
    loss_scaler_.update(record_.is_skipped);
  }
}

/// Returns the factor on the loss in fp16; 1 for other types.
double Executor::loss_scale() const {
  return settings_.type == DataType::kFloat16 ? loss_scaler_.scale() : 1.0;
}

}  // namespace ptdp
