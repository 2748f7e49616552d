#include "runtime/faults/straggler.h"

#include <algorithm>

namespace ptdp {
namespace {

/// Factor by which a straggler is slower than ranks of its stage.
constexpr double kAmongPeers = 1.4;
/// Factor by which a straggler is slower than predicted, without other ranks on its stage.
constexpr double kAgainstPrediction = 1.8;
constexpr double kLeastLoss = 0.05;  // fraction of a step
constexpr std::size_t kFewestSteps = 3;

/// Returns the lower of the two middle values. Of two ranks, the faster one counts as normal.
double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns the compute time of a rank in a step [s], without its waits in collectives.
double compute_time(const std::vector<Action>& order, const StepRecord& step) {
  double time = 0.0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (is_compute(order[i].kind)) {
      time += step.actions[i].length().value();
    }
  }
  for (const SubSpan& sub : step.sub_spans) {
    // The gather of a scattered message ends before the action that takes the message begins.
    if (is_compute(order[sub.action].kind) && sub.span.start >= step.actions[sub.action].start) {
      time -= sub.exposed().value();
    }
  }
  return time;
}

}  // namespace

std::optional<MeasuredStraggler> find_straggler(const TrainingSettings& settings,
                                                std::span<const RankRecord> ranks,
                                                std::size_t first_step,
                                                std::span<const double> predicted, Seconds step) {
  const std::size_t num_steps = ranks.front().steps.size();
  if (num_steps < first_step + kFewestSteps) {
    return std::nullopt;
  }
  // Ranks are numbered with the tensor rank fastest, then data, then pipeline.
  const auto per_stage =
      static_cast<std::size_t>(settings.config.tp) * static_cast<std::size_t>(settings.config.dp);
  const bool has_peers = per_stage > 1;
  if (!has_peers && (predicted.empty() || ranks.size() < 2)) {
    return std::nullopt;
  }
  std::vector<double> times;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<Action>& order = settings.schedule.orders[rank / per_stage];
    std::vector<double> of_steps;
    for (std::size_t i = first_step; i < num_steps; ++i) {
      of_steps.push_back(compute_time(order, ranks[rank].steps[i]));
    }
    times.push_back(lower_median(std::move(of_steps)));
  }
  std::vector<double> relative = times;
  for (std::size_t rank = 0; !has_peers && rank < relative.size(); ++rank) {
    relative[rank] /= std::max(predicted[rank], 1e-12);
  }
  std::optional<MeasuredStraggler> slowest;
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    const std::size_t first = has_peers ? rank / per_stage * per_stage : 0;
    const auto begin = relative.begin() + static_cast<std::ptrdiff_t>(first);
    const double usual = lower_median(
        {begin, has_peers ? begin + static_cast<std::ptrdiff_t>(per_stage) : relative.end()});
    const double factor = relative[rank] / std::max(usual, 1e-12);
    const MeasuredStraggler found{.rank = static_cast<int>(rank),
                                  .factor = factor,
                                  .lost = Seconds(times[rank] * (1.0 - 1.0 / factor))};
    if (factor >= (has_peers ? kAmongPeers : kAgainstPrediction) &&
        found.lost >= kLeastLoss * step && (!slowest || found.lost > slowest->lost)) {
      slowest = found;
    }
  }
  return slowest;
}

}  // namespace ptdp
