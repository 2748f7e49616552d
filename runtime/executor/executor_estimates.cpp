// Estimates by the transport of a rank's calls, for the report to show beside measured times.
#include <algorithm>

#include "cost_model/simulation/engine/step_layout.h"
#include "runtime/executor/executor.h"

namespace ptdp {
namespace {

/// Estimates a call and keeps it if it is the largest of its group and kind. All ranks of a group
/// must make the same calls in the same order. Only the type and size of `buffer` matter.
void add_estimate(std::vector<CallEstimate>& estimates, CallGroup name, Communicator& group,
                  CollectiveKind kind, Buffer buffer, std::size_t action) {
  const auto kept = std::find_if(
      estimates.begin(), estimates.end(),
      [&](const CallEstimate& other) { return other.group == name && other.kind == kind; });
  const bool is_known = kept != estimates.end();
  if (group.size() == 1 || buffer.size == 0 || (is_known && kept->bytes >= buffer.bytes())) {
    return;
  }
  if (const std::optional<double> seconds = group.estimate(kind, buffer)) {
    CallEstimate& call = is_known ? *kept : estimates.emplace_back();
    call = {.group = name,
            .kind = kind,
            .bytes = buffer.bytes(),
            .seconds = *seconds,
            .action = action};
  }
}

}  // namespace

/// Adds estimates for the buckets of all stages: reductions, or gathers of weights.
void Executor::add_bucket_estimates(std::vector<CallEstimate>& estimates,
                                    const std::map<int, Buckets>& all, bool is_gather) const {
  const CollectiveKind reduction =
      is_sharded() ? CollectiveKind::kReduceScatter : CollectiveKind::kAllReduce;
  for (const auto& [stage, buckets] : all) {
    const ParameterStore& store = stages_.at(stage)->parameters();
    const Buffer whole = is_gather ? store.all_weights() : store.all_gradients();
    const auto count = static_cast<int>(buckets.actions.size());
    for (int part = 0; part < count; ++part) {
      std::int64_t size = 0;
      for (const Part& range : reduction_ranges(store, part, count)) {
        size += range.count;
      }
      // Reductions are listed from the last part to the first.
      const int place = is_gather ? part : count - 1 - part;
      add_estimate(estimates, CallGroup::kData,
                   *groups_.stage_data[static_cast<std::size_t>(stage)],
                   is_gather ? CollectiveKind::kAllGather : reduction, whole.slice(0, size),
                   buckets.actions[static_cast<std::size_t>(place)]);
    }
  }
}

std::vector<CallEstimate> Executor::estimates() const {
  std::vector<CallEstimate> estimates;
  const auto buffer_of = [this](std::int64_t size) {
    return Buffer{total_.buffer().data, size, settings_.type};
  };
  for (const auto& [action, group, call] : collectives_) {
    const bool is_of_shards = group == CallGroup::kData;
    add_estimate(estimates, group, is_of_shards ? *shards_ : *tensor_, call.kind,
                 buffer_of(call.bytes / bytes_of(settings_.type)), action);
  }
  const std::int64_t sent_size = message_size() / (sends_parts() ? tensor_->size() : 1);
  for (std::size_t index = 0; index < order_.size(); ++index) {
    const ActionKind kind = order_[index].kind;
    if (is_send(kind)) {
      const bool is_forward = kind == ActionKind::kSendForward;
      add_estimate(estimates, is_forward ? CallGroup::kForward : CallGroup::kBackward,
                   is_forward ? *groups_.pipeline_forward : *groups_.pipeline_backward,
                   CollectiveKind::kSend, buffer_of(sent_size), index);
    }
  }
  add_bucket_estimates(estimates, reductions_, /*is_gather=*/false);
  add_bucket_estimates(estimates, gathers_, /*is_gather=*/true);
  return estimates;
}

}  // namespace ptdp
