// A rank's walk through its list in a step: lanes, their order, and when everything ran.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/schedule/lane.h"
#include "cost_model/simulation/engine/step_layout.h"
#include "runtime/executor/executor.h"

namespace ptdp {
namespace {

static_assert(kNumLanes <= kNumBackendLanes);

/// Names of lanes' threads, by Lane.
constexpr std::array<std::string_view, kNumLanes> kThreadNames = {"compute", "forward", "backward",
                                                                  "data"};

/// Returns whether the failure is only the news that the world was aborted.
bool is_aborted(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Aborted&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// Returns the exit status of a job that ends by this failure.
ExitStatus status_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.status();
  } catch (...) {
    return ExitStatus::kRuntimeFault;
  }
}

}  // namespace

/// Returns whether the settings put any work on a lane beside compute.
bool Executor::is_used(Lane lane) const {
  const bool has_messages =
      settings_.messages == MessageMode::kOverlapped && settings_.config.pp > 1;
  const bool has_reductions = settings_.data != DataMode::kBlocking && !reductions_.empty();
  const bool has_gathers = settings_.data == DataMode::kOverlapped && !gathers_.empty();
  return lane == Lane::kData ? has_reductions || has_gathers
                             : lane != Lane::kCompute && has_messages;
}

/// Makes a lane, with a thread of its own when its calls would make the rank's thread wait for
/// others.
LaneThread Executor::make_lane(Lane lane) {
  if (!is_used(lane) || is_queued_) {
    return {};
  }
  return LaneThread::beside(
      fmt::format("{} of {}", kThreadNames[static_cast<std::size_t>(lane)], groups_.world->rank()),
      [this](const std::exception_ptr& failure) { groups_.world->abort(status_of(failure)); });
}

StepRecord Executor::run_step() {
  record_ = StepRecord{};
  events_.assign(order_.size(), ActionEvents{});
  collectives_.clear();
  last_posted_ = {};
  weight_gradients_left_.clear();
  for (const Action& action : order_) {
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient) {
      ++weight_gradients_left_[action.stage];
    }
  }
  for (auto& [number, buckets] : reductions_) {
    buckets.posted.clear();
  }
  for (const auto& [number, stage] : stages_) {
    if (!stage->loss_total().empty()) {
      backend_.fill(stage->loss_total(), 0.0);
    }
  }
  static_cast<void>(tensor_->take());
  times_operations_ = settings_.operation_timing.includes(num_steps_++);
  clock_.restart(times_operations_);
  const Event start = backend_.record();
  try {
    run_actions();
    wait_for_lanes();
  } catch (...) {
    fail(std::current_exception());
  }
  add_times(start, backend_.record());
  ++state_.step;
  state_.next_sample += settings_.global_batch_size;
  state_.loss_scaler = loss_scaler_.state();
  return std::move(record_);
}

/// Waits for the device and records when everything of the step ran.
void Executor::add_times(const Event& start, const Event& end) {
  read_from_device([this] { backend_.synchronize(); });
  const double origin = static_cast<double>(start.nanoseconds) * 1e-9;
  const auto span = [&](const Event& from, const Event& to) {
    return Span{.start = Seconds(origin + backend_.seconds_between(start, from)),
                .end = Seconds(origin + backend_.seconds_between(start, to))};
  };
  record_.step = span(start, end);
  record_.actions.reserve(events_.size());
  for (const ActionEvents& action : events_) {
    record_.actions.push_back(action.is_known ? span(action.start, action.end) : Span{});
  }
  for (const auto& [action, group, collective] : collectives_) {
    record_.sub_spans.push_back({.action = action,
                                 .group = group,
                                 .kind = collective.kind,
                                 .span = span(collective.start, collective.end),
                                 .bytes = collective.bytes,
                                 .hidden = span(collective.begun, collective.waited).length()});
  }
  std::stable_sort(record_.sub_spans.begin(), record_.sub_spans.end(),
                   [](const SubSpan& a, const SubSpan& b) { return a.span.start < b.span.start; });
  if (times_operations_) {
    record_.operations = clock_.take();
  }
}

/// Runs an action, or its part on this lane, between the hooks.
template <class Work>
void Executor::run_told(const Action& action, Lane lane, const Work& work) {
  try {
    if (hooks_.before) {
      hooks_.before(state_.step, action, lane);
    }
    work();
    if (hooks_.after) {
      hooks_.after(lane);
    }
  } catch (...) {
    if (hooks_.failed) {
      hooks_.failed(lane);
    }
    throw;
  }
}

void Executor::run_actions() {
  for (std::size_t index = 0; index < order_.size();) {
    const std::size_t next = is_queued_ ? post_receives_behind(index) : index + 1;
    run_at(index);
    index = next;
  }
}

void Executor::run_at(std::size_t index) {
  const Action& action = order_[index];
  compute_start_ = backend_.record();
  if (is_send(action.kind) || is_collective(action.kind)) {
    run(action, index);  // posts the action on its lane
    return;
  }
  run_told(action, Lane::kCompute, [&] { run(action, index); });
  if (occupies_lane(action.kind)) {
    events_[index] = {.start = compute_start_, .end = backend_.record(), .is_known = true};
  }
  take_collectives(index);
}

/// Takes the timed collectives of the action at `index` out of the communicators.
void Executor::take_collectives(std::size_t index) {
  for (TimedCollective& call : tensor_->take()) {
    collectives_.push_back({.action = index, .group = CallGroup::kTensor, .call = std::move(call)});
  }
  if (shards_ != nullptr) {
    for (TimedCollective& call : shards_->take()) {
      collectives_.push_back({.action = index, .group = CallGroup::kData, .call = std::move(call)});
    }
  }
}

/// Runs ahead the receives that follow the compute action at `index`. In the list, a receive
/// follows the action that its rank runs when the message is sent. Where a send needs its receiver,
/// the receive must be posted in front of that action. It receives into memory that is free once
/// the work issued so far is done. The order of messages does not change. Returns the index behind
/// the receives that were posted.
std::size_t Executor::post_receives_behind(std::size_t index) {
  std::size_t next = index + 1;
  if (is_compute(order_[index].kind)) {
    for (; next < order_.size() && !occupies_lane(order_[next].kind); ++next) {
      run_at(next);
    }
  }
  return next;
}

/// Runs `read`, which waits for the device. On a device that waits for other ranks by itself, the
/// hooks are told and faults of the world are checked.
void Executor::read_from_device(const std::function<void()>& read) const {
  if (!is_queued_) {
    return read();
  }
  if (hooks_.waits) {
    hooks_.waits(/*begins=*/true);
  }
  read();
  groups_.world->check();
  if (hooks_.waits) {
    hooks_.waits(/*begins=*/false);
  }
}

/// Aborts the world and rethrows the cause of a failure.
void Executor::fail(std::exception_ptr failure) {
  groups_.world->abort(status_of(failure));
  // The cause of a failure that this rank merely heard of may lie on one of its own lanes.
  for (const LaneThread& lane : lanes_) {
    const std::exception_ptr cause = lane.failure();
    if (cause != nullptr && is_aborted(failure)) {
      failure = cause;
    }
  }
  std::rethrow_exception(failure);
}

/// Posts an action's work on its lane, behind all work issued so far.
Executor::Posted Executor::post(std::size_t index, std::function<void()> work) {
  const Lane on = lane_of(order_[index].kind);
  LaneThread& worker = lane(on);
  const bool is_beside = is_used(on);
  Event asked;
  if (is_beside) {
    asked = backend_.mark();
  }
  const LaneThread::Ticket ticket =
      worker.post([this, index, on, is_beside, asked, work = std::move(work)] {
        if (is_beside) {
          backend_.use_lane(static_cast<int>(on));
          backend_.wait(asked);
        }
        const Event start = backend_.record();
        run_told(order_[index], on, work);
        events_[index] = {.start = start, .end = backend_.record(), .is_known = true};
        if (is_beside && is_queued_) {
          backend_.use_lane(static_cast<int>(Lane::kCompute));
        }
      });
  const Posted posted{.lane = on, .ticket = ticket, .action = index};
  last_posted_[static_cast<std::size_t>(on)] = posted;
  return posted;
}

/// Waits until posted work is done. What the caller issues afterwards comes behind it on the
/// device.
void Executor::wait_for(const Posted& posted) {
  if (hooks_.waits) {
    hooks_.waits(/*begins=*/true);
  }
  lane(posted.lane).wait(posted.ticket);
  if (is_used(posted.lane)) {
    backend_.wait(events_[posted.action].end);
  }
  if (hooks_.waits) {
    hooks_.waits(/*begins=*/false);
  }
}

/// Waits for all work posted on a lane in this step.
void Executor::wait_for_all(Lane lane) {
  if (const std::optional<Posted>& last = last_posted_[static_cast<std::size_t>(lane)]) {
    wait_for(*last);
  }
}

/// Waits for the work posted on all lanes in this step.
void Executor::wait_for_lanes() {
  for (const std::optional<Posted>& last : last_posted_) {
    if (last) {
      lane(last->lane).wait(last->ticket);
      backend_.wait(events_[last->action].end);
    }
  }
}

}  // namespace ptdp
