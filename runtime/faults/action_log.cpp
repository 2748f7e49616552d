#include "runtime/faults/action_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <exception>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "runtime/steady_clock.h"

namespace ptdp {
namespace {

// An activity in one word. 0 is no activity; others have a kind or phase, a stage and a microbatch.
constexpr std::uint64_t kPhaseBit = std::uint64_t{1} << 62;
constexpr std::uint64_t kActionBit = std::uint64_t{1} << 63;
constexpr int kKindShift = 52;
constexpr int kStageShift = 26;
constexpr std::uint64_t kNumberMask = (std::uint64_t{1} << 26) - 1;
constexpr std::uint64_t kKindMask = 0xFF;

/// Returns the word of an action.
std::uint64_t word_of(const Action& action) {
  return kActionBit | (static_cast<std::uint64_t>(action.kind) << kKindShift) |
         ((static_cast<std::uint64_t>(action.stage) & kNumberMask) << kStageShift) |
         (static_cast<std::uint64_t>(action.microbatch) & kNumberMask);
}

/// Returns the word of a phase.
std::uint64_t word_of(Phase phase) {
  return kPhaseBit | (static_cast<std::uint64_t>(phase) << kKindShift);
}

/// The log, rank and lane that the calling thread is in, and its activity. The log may be gone: it
/// is compared, never dereferenced.
struct Place {
  const ActionLog* log = nullptr;
  int rank = 0;
  Lane lane = Lane::kCompute;
  std::uint64_t what = 0;
  std::int64_t step = 0;
};
thread_local Place place_of_thread;
/// Place of the thread before it began its current action. On a device one thread issues the work
/// of all lanes.
thread_local Place place_before;

/// Returns a duration for people, as "12 us", "3.4 ms" or "5.6 s".
std::string duration_text(std::int64_t nanoseconds) {
  const double seconds = 1e-9 * static_cast<double>(nanoseconds);
  if (seconds < 1e-3) {
    return fmt::format("{:.0f} us", 1e6 * seconds);
  }
  return seconds < 1.0 ? fmt::format("{:.1f} ms", 1e3 * seconds) : fmt::format("{:.1f} s", seconds);
}

/// Returns the activity that a word stands for.
Activity activity_of(std::uint64_t what, std::int64_t step) {
  Activity activity{.step = step};
  const auto kind = (what >> kKindShift) & kKindMask;
  if ((what & kActionBit) != 0) {
    activity.action = Action{.kind = static_cast<ActionKind>(kind),
                             .stage = static_cast<int>((what >> kStageShift) & kNumberMask),
                             .microbatch = static_cast<int>(what & kNumberMask)};
  } else {
    activity.phase = static_cast<Phase>(kind);
  }
  return activity;
}

/// Returns the name of a phase as it stands in a sentence. When it ends in a space, the number of a
/// step must follow.
std::string_view text_of(Phase phase) {
  switch (phase) {
    case Phase::kStarting:
      return "its start";
    case Phase::kRestoring:
      return "reading weights or a checkpoint";
    case Phase::kSaving:
      return "the checkpoint before step ";
    case Phase::kBetweenSteps:
      return "the time before step ";
    case Phase::kExporting:
      return "the export";
    case Phase::kDone:
      return "its end";
  }
  return "";
}

/// Calls `write` with a format and its arguments that spell the place of an activity.
template <class Write>
void tell_place(const Activity& activity, const Write& write) {
  const std::int64_t step = activity.step + 1;
  if (activity.action) {
    const Action& action = *activity.action;
    write("{}{}{} of step {}", action.stage, spelling_of(action.kind), action.microbatch, step);
  } else if (const std::string_view phase = text_of(activity.phase); phase.ends_with(' ')) {
    write("{}{}", phase, step);
  } else {
    write("{}", phase);
  }
}

}  // namespace

std::string place_of(const Activity& activity) {
  std::string text;
  tell_place(activity, [&](std::string_view format, const auto&... values) {
    text = fmt::format(fmt::runtime(format), values...);
  });
  return text;
}

std::size_t write_place_of_thread(std::span<char> to) {
  const Place place = place_of_thread;
  if (place.what == 0) {
    return 0;
  }
  std::size_t length = 0;
  const auto append = [&](std::string_view format, const auto&... values) {
    const std::size_t room = to.size() - length;
    const auto result = fmt::format_to_n(to.data() + length, room, fmt::runtime(format), values...);
    length += std::min(result.size, room);
  };
  append("rank {}: ", place.rank);
  tell_place(activity_of(place.what, place.step), append);
  append(": ");
  return length;
}

// Stores release: a reader that sees a field of a later writing (acquire) also sees the changed
// `events`.
void ActionLog::LaneLog::begin(std::uint64_t what, std::int64_t step) {
  const std::int64_t before = events.load(std::memory_order_relaxed);
  events.store(before + 1, std::memory_order_relaxed);
  now.what.store(what, std::memory_order_release);
  now.step.store(step, std::memory_order_release);
  now.start.store(now_ns(), std::memory_order_release);
  now.waited.store(0, std::memory_order_release);
  waits_since.store(0, std::memory_order_release);
  events.store(before + 2, std::memory_order_release);
  waits = 0;
}

void ActionLog::LaneLog::end() {
  const std::uint64_t what = now.what.load(std::memory_order_relaxed);
  if (what == 0) {
    return;
  }
  const std::int64_t before = events.load(std::memory_order_relaxed);
  const std::int64_t number = num_ended.load(std::memory_order_relaxed);
  const std::int64_t start = now.start.load(std::memory_order_relaxed);
  const std::int64_t waited = now.waited.load(std::memory_order_relaxed);
  const std::int64_t end = now_ns();
  Entry& entry = ended[static_cast<std::size_t>(number % kKept)];
  events.store(before + 1, std::memory_order_relaxed);
  entry.what.store(what, std::memory_order_release);
  entry.step.store(now.step.load(std::memory_order_relaxed), std::memory_order_release);
  entry.start.store(start, std::memory_order_release);
  entry.end.store(end, std::memory_order_release);
  entry.waited.store(waited, std::memory_order_release);
  now.what.store(0, std::memory_order_release);
  waits_since.store(0, std::memory_order_release);
  num_ended.store(number + 1, std::memory_order_release);
  events.store(before + 2, std::memory_order_release);
  waits = 0;
  if ((what & kActionBit) != 0) {
    auto& longest_of_kind = longest[(what >> kKindShift) & kKindMask];
    if (end - start - waited > longest_of_kind.load(std::memory_order_relaxed)) {
      longest_of_kind.store(end - start - waited, std::memory_order_relaxed);
    }
  }
}

void ActionLog::LaneLog::wait_begins() {
  if (waits++ > 0) {
    return;
  }
  const std::int64_t before = events.load(std::memory_order_relaxed);
  events.store(before + 1, std::memory_order_relaxed);
  waits_since.store(now_ns(), std::memory_order_release);
  events.store(before + 2, std::memory_order_release);
}

void ActionLog::LaneLog::wait_ends() {
  if (waits == 0 || --waits > 0) {
    return;
  }
  const std::int64_t since = waits_since.load(std::memory_order_relaxed);
  const std::int64_t before = events.load(std::memory_order_relaxed);
  const std::int64_t waited = now.waited.load(std::memory_order_relaxed) + now_ns() - since;
  events.store(before + 1, std::memory_order_relaxed);
  now.waited.store(waited, std::memory_order_release);
  waits_since.store(0, std::memory_order_release);
  events.store(before + 2, std::memory_order_release);
}

/// Calls `read` with the count of events, until nothing was written during the call. Gives up on a
/// writer that never pauses; what was read then mixes two moments.
template <class Read>
void ActionLog::LaneLog::read_whole(const Read& read) const {
  constexpr int most_tries = 1000;
  for (int i = 0; i < most_tries; ++i) {
    const std::int64_t before = events.load(std::memory_order_acquire);
    read(before);
    if (before % 2 == 0 && events.load(std::memory_order_relaxed) == before) {
      return;
    }
    std::this_thread::yield();
  }
}

ActionLog::ActionLog(int first_rank, int num_ranks)
    : first_rank_(first_rank),
      num_ranks_(num_ranks),
      lanes_(static_cast<std::size_t>(num_ranks) * kNumLanes) {}

ActionLog::LaneLog& ActionLog::lane_log(int rank, Lane lane) {
  assert(rank >= first_rank_ && rank < first_rank_ + num_ranks_);
  return lanes_[static_cast<std::size_t>(rank - first_rank_) * kNumLanes +
                static_cast<std::size_t>(lane)];
}

const ActionLog::LaneLog& ActionLog::lane_log(int rank, Lane lane) const {
  assert(rank >= first_rank_ && rank < first_rank_ + num_ranks_);
  return lanes_[static_cast<std::size_t>(rank - first_rank_) * kNumLanes +
                static_cast<std::size_t>(lane)];
}

void ActionLog::begin(int rank, Lane lane, std::int64_t step, const Action& action) {
  LaneLog& here = lane_log(rank, lane);
  here.end();  // ends the phase before the action
  const std::uint64_t what = word_of(action);
  place_before = std::exchange(
      place_of_thread, {.log = this, .rank = rank, .lane = lane, .what = what, .step = step});
  here.begin(what, step);
}

void ActionLog::end(int rank, Lane lane) {
  lane_log(rank, lane).end();
  place_of_thread = place_before;
}

void ActionLog::enter(int rank, Phase phase, std::int64_t step) {
  LaneLog& here = lane_log(rank, Lane::kCompute);
  here.end();
  const std::uint64_t what = word_of(phase);
  place_of_thread = {.log = this, .rank = rank, .lane = Lane::kCompute, .what = what, .step = step};
  here.begin(what, step);
}

void ActionLog::wait_begins() {
  if (place_of_thread.log == this) {
    lane_log(place_of_thread.rank, place_of_thread.lane).wait_begins();
  }
}

void ActionLog::wait_ends() {
  if (place_of_thread.log == this) {
    lane_log(place_of_thread.rank, place_of_thread.lane).wait_ends();
  }
}

ActionLog::Wait::Wait(ActionLog& log) : log_(log), exceptions_(std::uncaught_exceptions()) {
  log_.wait_begins();
}

ActionLog::Wait::~Wait() {
  if (std::uncaught_exceptions() == exceptions_) {
    log_.wait_ends();
  }
}

Activity ActionLog::activity_of_entry(const Entry& entry) {
  Activity activity = activity_of(entry.what.load(std::memory_order_acquire),
                                  entry.step.load(std::memory_order_acquire));
  activity.start = entry.start.load(std::memory_order_acquire);
  activity.end = entry.end.load(std::memory_order_acquire);
  activity.waited = entry.waited.load(std::memory_order_acquire);
  return activity;
}

LaneState ActionLog::state(int rank, Lane lane) const {
  const LaneLog& log = lane_log(rank, lane);
  LaneState state;
  log.read_whole([&](std::int64_t events) {
    state.events = events;
    state.is_active = log.now.what.load(std::memory_order_acquire) != 0;
    state.now = activity_of_entry(log.now);
    state.now.end = 0;
    state.waits_since = log.waits_since.load(std::memory_order_acquire);
  });
  return state;
}

std::int64_t ActionLog::events(int rank) const {
  std::int64_t sum = 0;
  for (int lane = 0; lane < kNumLanes; ++lane) {
    sum += lane_log(rank, static_cast<Lane>(lane)).events.load(std::memory_order_relaxed);
  }
  return sum;
}

std::vector<Activity> ActionLog::last(int rank, Lane lane) const {
  const LaneLog& log = lane_log(rank, lane);
  std::vector<Activity> activities;
  log.read_whole([&](std::int64_t /*events*/) {
    activities.clear();
    const std::int64_t count = log.num_ended.load(std::memory_order_acquire);
    for (std::int64_t i = std::max<std::int64_t>(0, count - kKept); i < count; ++i) {
      activities.push_back(activity_of_entry(log.ended[static_cast<std::size_t>(i % kKept)]));
    }
  });
  return activities;
}

Seconds ActionLog::longest(ActionKind kind) const {
  std::int64_t longest = 0;
  for (const LaneLog& lane : lanes_) {
    longest = std::max(
        longest, lane.longest[static_cast<std::size_t>(kind)].load(std::memory_order_relaxed));
  }
  return Seconds(1e-9 * static_cast<double>(longest));
}

namespace {

/// A line about a lane: its activity, and the activities that ended last.
struct LaneLine {
  bool is_working = false;
  std::int64_t since = 0;
  std::string text;
};

/// Describes what a lane is in; nullopt for a lane on which nothing ever ran.
std::optional<LaneLine> describe_lane(const ActionLog& log, int rank, Lane lane, std::int64_t now,
                                      std::size_t most_ended) {
  const LaneState state = log.state(rank, lane);
  const std::vector<Activity> ended = log.last(rank, lane);
  if (!state.is_active && ended.empty()) {
    return std::nullopt;
  }
  LaneLine line{.is_working = state.is_working(),
                .since = state.waits_since != 0 ? state.waits_since : state.now.start};
  const std::string_view name = kLaneNames[static_cast<std::size_t>(lane)];
  line.text =
      fmt::format("rank {}{} ", rank, lane == Lane::kCompute ? "" : fmt::format(" ({})", name));
  if (!state.is_active) {
    line.since = now;
    line.text += "is idle";
  } else {
    line.text += fmt::format("{} {} for {}", line.is_working ? "has worked in" : "has waited in",
                             place_of(state.now), duration_text(now - line.since));
  }
  line.text += ended.empty() || most_ended == 0 ? "" : "; before that:";
  for (std::size_t i = ended.size() - std::min(ended.size(), most_ended); i < ended.size(); ++i) {
    const Activity& activity = ended[i];
    line.text += i + std::min(ended.size(), most_ended) == ended.size() ? " " : ", ";
    line.text +=
        fmt::format("{} {}", activity.action ? to_string(*activity.action) : place_of(activity),
                    duration_text(activity.end - activity.start));
  }
  return line;
}

}  // namespace

std::string describe_actions(const ActionLog& log, std::size_t most_lines, std::size_t most_ended) {
  std::vector<LaneLine> lines;
  const std::int64_t now = now_ns();
  for (int rank = log.first_rank(); rank < log.first_rank() + log.num_ranks(); ++rank) {
    for (int lane = 0; lane < kNumLanes; ++lane) {
      if (auto line = describe_lane(log, rank, static_cast<Lane>(lane), now, most_ended)) {
        lines.push_back(std::move(*line));
      }
    }
  }
  std::stable_sort(lines.begin(), lines.end(), [](const LaneLine& a, const LaneLine& b) {
    return a.is_working != b.is_working ? a.is_working : a.since < b.since;
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(lines.size(), most_lines); ++i) {
    text += lines[i].text + '\n';
  }
  if (lines.size() > most_lines) {
    text += fmt::format("and {} more\n", lines.size() - most_lines);
  }
  return text;
}

}  // namespace ptdp
