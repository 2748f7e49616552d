#include "runtime/faults/watchdog.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>

#include "runtime/named_thread.h"
#include "runtime/steady_clock.h"

namespace ptdp {
namespace {

constexpr std::chrono::milliseconds kInterval{20};
constexpr std::int64_t kSecond = 1'000'000'000;
/// Time [ns] before the process leaves without its ranks. A signal may take a second, and the
/// report needs some of it.
constexpr std::int64_t kGrace = kSecond / 2;
/// Time [ns] that a signal waits for the word of another process. A launcher that saw a rank die
/// ends the others by a signal, which does not say which rank it was.
constexpr std::int64_t kHearing = kSecond / 5;
/// Longest pause [ns] between looks that counts. A thread that looks every 20 ms pauses longer only
/// when the process itself was stopped.
constexpr std::int64_t kLongestPause = kSecond;
constexpr double kLongestDeadline = 1e7;  // [s]

/// Returns the time at which the lane began its activity or its wait, whichever is later.
std::int64_t begin_of(const LaneState& state) {
  return std::max(state.now.start, state.waits_since);
}

/// Returns how long a phase may take.
Seconds time_of_phase(const DeadlineRule& rule) {
  return rule.fixed ? std::max(*rule.fixed, rule.least_of_phase) : rule.unknown;
}

}  // namespace

std::string to_string(const RunFault& fault) {
  std::string text = fault.rank < 0 ? "" : fmt::format("rank {}: ", fault.rank);
  text += fault.place.empty() ? "" : fault.place + ": ";
  return text + fault.what;
}

std::optional<DeadlineRule> parse_deadline_rule(std::string_view text) {
  if (text == "auto" || text == "off") {
    return DeadlineRule{.is_on = text == "auto"};
  }
  double seconds = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds > 0.0) ||
      !(seconds <= kLongestDeadline)) {
    return std::nullopt;
  }
  return DeadlineRule{.fixed = Seconds(seconds)};
}

std::optional<Seconds> phase_deadline(const DeadlineRule& rule) {
  return rule.is_on ? std::optional(time_of_phase(rule)) : std::nullopt;
}

Seconds deadline_of(const DeadlineRule& rule, const Activity& activity, Seconds longest) {
  if (!activity.action) {
    return time_of_phase(rule);
  }
  if (rule.fixed) {
    return *rule.fixed;
  }
  const auto found = rule.predicted.find({activity.action->kind, activity.action->stage});
  const Seconds predicted = found == rule.predicted.end() ? Seconds(0.0) : found->second;
  const Seconds known = std::max(predicted, longest);
  const Seconds usual =
      known > Seconds(0.0) ? std::max(rule.least, rule.factor * known) : rule.unknown;
  const bool is_first = longest == Seconds(0.0);
  return rule.prepares_in_first && is_first ? std::max(usual, rule.unknown) : usual;
}

std::vector<RankActivity> activities_of(const ActionLog& log) {
  std::vector<RankActivity> activities;
  for (int rank = log.first_rank(); rank < log.first_rank() + log.num_ranks(); ++rank) {
    for (int lane = 0; lane < kNumLanes; ++lane) {
      RankActivity activity{.rank = rank,
                            .lane = static_cast<Lane>(lane),
                            .state = log.state(rank, static_cast<Lane>(lane))};
      if (activity.state.is_active && activity.state.now.action) {
        activity.longest = log.longest(activity.state.now.action->kind);
      }
      activities.push_back(activity);
    }
  }
  return activities;
}

Seconds StallDetector::limit(std::span<const RankActivity> world) const {
  Seconds of_working(0.0);
  Seconds of_all(0.0);
  for (const RankActivity& activity : world) {
    if (activity.state.is_active) {
      const Seconds deadline = deadline_of(rule_, activity.state.now, activity.longest);
      of_all = std::max(of_all, deadline);
      if (activity.state.is_working()) {
        of_working = std::max(of_working, deadline);
      }
    }
  }
  if (of_working > Seconds(0.0)) {
    return of_working;
  }
  return of_all > Seconds(0.0) ? of_all : time_of_phase(rule_);
}

void StallDetector::note_progress(std::int64_t now) {
  last_look_ = now;
  last_progress_ = now;
}

std::optional<RunFault> StallDetector::look(std::int64_t now, std::span<const RankActivity> world) {
  std::int64_t events = 0;
  for (const RankActivity& activity : world) {
    events += activity.state.events;
  }
  const std::int64_t pause = now - last_look_;
  if (events != events_ || last_look_ == 0) {
    events_ = events;
    note_progress(now);
  } else if (pause > kLongestPause) {
    last_progress_ += pause;
  }
  last_look_ = now;
  const Seconds limit = this->limit(world);
  if (!rule_.is_on || now - last_progress_ <= nanoseconds(limit)) {
    return std::nullopt;
  }
  const RankActivity* culprit = nullptr;
  for (const RankActivity& activity : world) {
    const LaneState& state = activity.state;
    if (!state.is_active) {
      continue;
    }
    const bool is_better = culprit == nullptr || (state.is_working() != culprit->state.is_working()
                                                      ? state.is_working()
                                                      : begin_of(state) < begin_of(culprit->state));
    culprit = is_better ? &activity : culprit;
  }
  if (culprit == nullptr) {
    return RunFault{.what = fmt::format("no rank did anything for {:.1f} s", limit.value())};
  }
  const LaneState& state = culprit->state;
  const double since = 1e-9 * static_cast<double>(now - begin_of(state));
  RunFault fault{.rank = culprit->rank, .place = place_of(state.now)};
  if (state.is_working()) {
    fault.what = fmt::format("has not ended for {:.1f} s, expected at most {:.1f} s (--deadline)",
                             since, limit.value());
  } else {
    fault.what = fmt::format(
        "all ranks wait for one another, this one first, for {:.1f} s; expected at most {:.1f} s "
        "(--deadline)",
        since, limit.value());
  }
  return fault;
}

Watchdog::Watchdog(const ActionLog& log, WatchdogOptions options)
    : log_(log),
      options_(std::move(options)),
      stalls_(options_.deadlines),
      thread_(named_thread("watchdog", [this] { watch(); })) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void Watchdog::add(Communicator& world) {
  const std::lock_guard lock(mutex_);
  worlds_.push_back(&world);
  if (is_stopping()) {
    world.abort(status());
  }
}

void Watchdog::remove(Communicator& world) {
  const std::lock_guard lock(mutex_);
  std::erase(worlds_, &world);
}

void Watchdog::report(RunFault fault) {
  stop(std::move(fault), 0, 0);
}

std::optional<RunFault> Watchdog::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

int Watchdog::interrupt() const {
  const std::lock_guard lock(mutex_);
  return signal_;
}

void Watchdog::stop(std::optional<RunFault> fault, int signal, std::int64_t grace) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping()) {
      return;
    }
    fault_ = fault;
    signal_ = signal;
    give_up_at_ = grace == 0 ? 0 : now_ns() + grace;
    is_stopping_ = true;
  }
  // Other processes hear of the fault before the world is aborted: news of its end would say less.
  if (options_.spread && !(fault && fault->is_told_elsewhere)) {
    options_.spread(fault.value_or(RunFault{.rank = log_.first_rank(),
                                            .what = fmt::format("ended by signal {}", signal),
                                            .signal = signal}));
  }
  const std::lock_guard lock(mutex_);
  for (Communicator* world : worlds_) {
    world->abort(status());
  }
}

/// Returns the exit status of the job. There must be a fault or a signal.
ExitStatus Watchdog::status() const {
  const int signal = fault_ ? fault_->signal : signal_;
  return signal != 0 ? static_cast<ExitStatus>(128 + signal) : fault_->status;
}

/// Looks once. Returns false when that failed for lack of memory; the watchdog goes on.
bool Watchdog::try_to_look() {
  try {
    look(now_ns());
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void Watchdog::watch() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, kInterval, [this] { return is_ended_; })) {
    lock.unlock();
    const bool has_looked = try_to_look();
    lock.lock();
    if (!has_looked && give_up_at_ == INT64_MAX) {
      give_up_at_ = 1;  // giving up failed: try again
    }
  }
}

void Watchdog::look(std::int64_t now) {
  if (is_stopping()) {
    return look_after(now);
  }
  if (options_.remote_fault) {
    if (std::optional<RunFault> fault = options_.remote_fault()) {
      return stop(std::move(fault), 0, kGrace);
    }
  }
  if (options_.interrupt != nullptr && *options_.interrupt != 0) {
    interrupted_at_ = interrupted_at_ == 0 ? now : interrupted_at_;
    if (!options_.remote_fault || now - interrupted_at_ >= kHearing) {
      stop(std::nullopt, *options_.interrupt, kGrace);
    }
    return;
  }
  std::int64_t events = 0;
  for (int rank = log_.first_rank(); rank < log_.first_rank() + log_.num_ranks(); ++rank) {
    events += log_.events(rank);
  }
  if (std::exchange(events_, events) != events) {
    return stalls_.note_progress(now);
  }
  std::vector<RankActivity> world = activities_of(log_);
  if (options_.remote_activities) {
    const std::vector<RankActivity> others = options_.remote_activities();
    world.insert(world.end(), others.begin(), others.end());
  }
  if (std::optional<RunFault> fault = stalls_.look(now, world)) {
    stop(std::move(fault), 0, kGrace);
  }
}

/// Looks while the run is ending, and gives up on ranks that do not end in time.
void Watchdog::look_after(std::int64_t now) {
  bool is_over = false;
  {
    const std::lock_guard lock(mutex_);
    if (give_up_at_ == 0) {
      // A rank threw. The others end with the action that they are in.
      give_up_at_ = now + std::max(kGrace, nanoseconds(stalls_.limit(activities_of(log_))));
    }
    is_over = now > give_up_at_;
    give_up_at_ = is_over ? INT64_MAX : give_up_at_;
  }
  if (is_over && options_.give_up) {
    options_.give_up();
  }
}

}  // namespace ptdp
