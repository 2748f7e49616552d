#include "planner/logs/log_timers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <optional>
#include <span>

#include "cost_model/measured/quantile.h"
#include "planner/logs/log_lines.h"

namespace ptdp {
namespace {

constexpr std::string_view kOneRank = "time (ms)";
constexpr std::string_view kDots = "..: ";
constexpr double kLongestTimer = 1e10;  // ms

// Timers of megatron/training/training.py, core/pipeline_parallel, core/optimizer and
// core/distributed at d98e8a64, and of megatron/training.py in 2021 and 2022.
constexpr std::array<std::string_view, 2> kPassTimers = {"forward-compute", "backward-compute"};
constexpr std::array<std::string_view, 1> kForwardBackward = {"forward-backward"};
constexpr std::array<std::string_view, 11> kWaitingTimers = {
    "forward-recv",
    "forward-send",
    "backward-recv",
    "backward-send",
    "forward-send-backward-recv",
    "backward-send-forward-recv",
    "forward-send-forward-recv",
    "backward-send-backward-recv",
    "forward-backward-send-forward-backward-recv",
    "embedding-grads-all-reduce",
    "backward-embedding-all-reduce"};
constexpr std::array<std::string_view, 6> kReplicaTimers = {
    "all-grads-sync",   "params-all-gather",           "backward-params-all-reduce",
    "grads-all-reduce", "backward-reduce-model-grads", "backward-gather-model-params"};
constexpr std::array<std::string_view, 1> kOptimizerTimers = {"optimizer"};

constexpr std::array kPassTerms = {
    &CostBreakdown::matmul,          &CostBreakdown::attention,
    &CostBreakdown::memory_bound,    &CostBreakdown::launch,
    &CostBreakdown::tensor_parallel, &CostBreakdown::context_parallel,
    &CostBreakdown::expert_parallel, &CostBreakdown::recompute,
    &CostBreakdown::offload,         &CostBreakdown::embedding_and_logits};
constexpr std::array kWaitingTerms = {&CostBreakdown::bubble, &CostBreakdown::pipeline_messages,
                                      &CostBreakdown::embedding_all_reduce};
constexpr std::array kReplicaTerms = {&CostBreakdown::data_parallel};
constexpr std::array kOptimizerTerms = {&CostBreakdown::optimizer};

bool is_timer_of_iterations(std::string_view name) {
  const auto is_in = [&](std::span<const std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  return is_in(kPassTimers) || is_in(kForwardBackward) || is_in(kWaitingTimers) ||
         is_in(kReplicaTimers) || is_in(kOptimizerTimers);
}

std::string_view timer_name(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos
             ? ""
             : text.substr(first, text.find_last_not_of(" \t.") + 1 - first);
}

/// Returns the milliseconds at the start of a text, as seconds, and moves the text behind them.
std::optional<double> take_milliseconds(std::string_view& text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !(value >= 0.0 && value <= kLongestTimer)) {
    return std::nullopt;
  }
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return 1e-3 * value;
}

/// Adds the timer if it is one of an iteration and has a time.
void add_timer(std::string_view name, std::string_view value, std::vector<LogTimer>& timers) {
  if (!is_timer_of_iterations(name)) {
    return;
  }
  const bool is_range = value.starts_with('(');
  value.remove_prefix(is_range ? 1 : 0);
  const std::optional<double> low = take_milliseconds(value);
  std::optional<double> high = low;
  if (is_range) {
    value.remove_prefix(std::min(value.find_first_not_of(", "), value.size()));
    high = take_milliseconds(value);
  }
  if (low && high) {
    timers.push_back({.name = std::string(name), .low = *low, .high = *high});
  }
}

/// Returns the sum of the timers with these names; nullopt if there is none of them.
std::optional<LogTimer> sum_of(const std::vector<LogTimer>& timers,
                               std::span<const std::string_view> names) {
  std::optional<LogTimer> sum;
  for (const LogTimer& timer : timers) {
    if (std::find(names.begin(), names.end(), timer.name) != names.end()) {
      sum = sum.value_or(LogTimer());
      sum->low += timer.low;
      sum->high += timer.high;
    }
  }
  return sum;
}

}  // namespace

bool may_hold_timers(std::string_view line) {
  return has_word(line, kOneRank) || has_word(line, kDots);
}

std::vector<LogTimer> timers_of(std::string_view line) {
  std::vector<LogTimer> timers;
  if (const std::size_t start = line.find(kOneRank); start != std::string_view::npos) {
    line.remove_prefix(start + kOneRank.size());
    while (!line.empty()) {
      const std::string_view field = line.substr(0, line.find('|'));
      line.remove_prefix(std::min(field.size() + 1, line.size()));
      const std::size_t colon = field.find(": ");
      if (colon != std::string_view::npos) {
        add_timer(timer_name(field.substr(0, colon)), field.substr(colon + 2), timers);
      }
    }
  } else if (const std::size_t dots = line.find(kDots); dots != std::string_view::npos) {
    std::string_view name = timer_name(line.substr(0, dots));
    name.remove_prefix(name.find_last_of(" \t:]") + 1);  // a launcher's prefix
    add_timer(name, line.substr(dots + kDots.size()), timers);
  }
  return timers;
}

void LoggedTimers::add(std::string_view line) {
  if (lines_ >= kMostTimedLines) {
    return;
  }
  const std::vector<LogTimer> timers = timers_of(line);
  lines_ += timers.empty() ? 0 : 1;
  for (const LogTimer& timer : timers) {
    Samples& samples = samples_[timer.name];
    samples.low.push_back(timer.low);
    samples.high.push_back(timer.high);
  }
}

std::vector<LogTimer> LoggedTimers::medians() const {
  std::vector<LogTimer> timers;
  timers.reserve(samples_.size());
  for (const auto& [name, samples] : samples_) {
    timers.push_back({.name = name, .low = median(samples.low), .high = median(samples.high)});
  }
  return timers;
}

std::vector<TimedPart> split_by_timers(const std::vector<LogTimer>& timers,
                                       const CostBreakdown& predicted) {
  std::vector<TimedPart> parts;
  const auto add = [&](std::string_view name, std::span<const std::string_view> names,
                       std::initializer_list<std::span<Seconds CostBreakdown::*const>> terms) {
    const std::optional<LogTimer> sum = sum_of(timers, names);
    if (!sum) {
      return false;
    }
    TimedPart part{
        .name = name, .predicted = {}, .low = Seconds(sum->low), .high = Seconds(sum->high)};
    for (const auto& some : terms) {
      for (Seconds CostBreakdown::*const term : some) {
        part.predicted += predicted.*term;
      }
    }
    parts.push_back(part);
    return true;
  };
  if (add("passes", kPassTimers, {kPassTerms})) {
    (void)add("waiting for stages", kWaitingTimers, {kWaitingTerms});
  } else {
    (void)add("passes and waiting", kForwardBackward, {kPassTerms, kWaitingTerms});
  }
  (void)add("replicas", kReplicaTimers, {kReplicaTerms});
  (void)add("optimizer", kOptimizerTimers, {kOptimizerTerms});
  return parts;
}

}  // namespace ptdp
