#include "cost_model/simulation/engine/action_durations.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace ptdp {

namespace {

/// Hashes a number with one step of splitmix64. Source: Steele, Lea & Flood, OOPSLA 2014; constants
/// of https://prng.di.unimi.it/splitmix64.c.
std::uint64_t splitmix64(std::uint64_t state) {
  std::uint64_t mixed = state + 0x9e3779b97f4a7c15U;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}

/// Returns a number in (0, 1] made of 53 of the bits.
double uniform_of(std::uint64_t bits) {
  return static_cast<double>((bits >> 11U) + 1) * 0x1.0p-53;
}

template <class T>
const T& one_or_each(const std::vector<T>& values, int index) {
  return values[values.size() == 1 ? 0 : static_cast<std::size_t>(index)];
}

}  // namespace

double jitter_factor(const Jitter& jitter, int rank, std::size_t position) {
  if (jitter.sigma == 0.0) {
    return 1.0;
  }
  const std::uint64_t key =
      splitmix64(splitmix64(splitmix64(jitter.seed) ^ static_cast<std::uint64_t>(rank)) ^ position);
  const double radius = std::sqrt(-2.0 * std::log(uniform_of(key)));
  const double angle = 2.0 * std::numbers::pi * uniform_of(splitmix64(key));
  return std::exp(jitter.sigma * radius * std::cos(angle));
}

ActionDurations::ActionDurations(const Schedule& schedule, const StepTimes& times)
    : times_(times),
      ranks_(schedule),
      has_alone_(std::ranges::any_of(
          times.stages, [](const StageDurations& of) { return of.alone > Seconds(0.0); })),
      depends_on_position_(has_alone_ || times.jitter.sigma != 0.0),
      slowdown_(schedule.pp, 1.0) {
  assert(times.stages.size() == 1 || std::ssize(times.stages) == num_stages(schedule));
  assert(times.node_of.empty() || std::ssize(times.node_of) == schedule.pp);
  if (has_alone_) {
    const auto is_of = [](ActionKind kind) {
      return [kind](const Action& action) { return action.kind == kind; };
    };
    for (const std::vector<Action>& order : schedule.orders) {
      const auto backward = std::ranges::find_if(order, is_of(ActionKind::kBackward));
      const auto forward = std::find_if(order.rbegin(), order.rend(), is_of(ActionKind::kForward));
      first_backward_.push_back(static_cast<std::size_t>(backward - order.begin()));
      last_forward_.push_back(static_cast<std::size_t>(order.rend() - forward) - 1);
    }
  }
  for (const Straggler& straggler : times.stragglers) {
    slowdown_.at(straggler.rank) *= straggler.factor;
  }
  passes_.reserve(ranks_.rows().size());
  const int num_stages = ranks_.num_stages();
  for (std::size_t row = 0; row < ranks_.rows().size(); ++row) {
    const int stage = static_cast<int>(row) % num_stages;
    const int microbatch = static_cast<int>(row) < num_stages ? 0 : schedule.num_microbatches - 1;
    passes_.push_back(passes_on(ranks_.rows()[row], stage, microbatch));
  }
}

ActionDurations::Passes ActionDurations::passes_on(int rank, int stage, int microbatch) const {
  const StageDurations& of = one_or_each(times_.stages, stage);
  const double slowdown = slowdown_[rank];
  const auto latency_from = [&](int other) {
    if (other < 0 || other >= ranks_.num_stages()) {
      return 0.0;
    }
    const int sender = ranks_.of(other, microbatch);
    return sender == rank ? 0.0 : message(sender, rank).total().value();
  };
  return {.durations = {of.forward.value() * slowdown, of.backward.value() * slowdown,
                        of.input_gradient.value() * slowdown, of.weight_gradient.value() * slowdown,
                        of.recompute.value() * slowdown},
          .from_stage_before = latency_from(stage - 1),
          .from_stage_behind = latency_from(stage + 1)};
}

double ActionDurations::at_position(const Action& action, int rank, std::size_t position) const {
  double duration = passes_with(action).duration_of(action.kind);
  // Passes that no pass of the other kind accompanies take longer (StageDurations::alone).
  const StageDurations& of = one_or_each(times_.stages, action.stage);
  if (has_alone_ && action.kind == ActionKind::kForward && position < first_backward_[rank]) {
    duration = (of.forward + of.alone).value() * slowdown_[rank];
  } else if (has_alone_ && action.kind == ActionKind::kBackward && position > last_forward_[rank]) {
    duration = (of.backward + of.alone).value() * slowdown_[rank];
  }
  return duration * jitter_factor(times_.jitter, rank, position);
}

const TransferTime& ActionDurations::collective(const Action& action) const {
  return one_or_each(
      action.kind == ActionKind::kGatherParameters ? times_.gathers : times_.reductions,
      action.stage);
}

Seconds ActionDurations::optimizer(int rank) const {
  return one_or_each(times_.optimizer, rank);
}

}  // namespace ptdp
