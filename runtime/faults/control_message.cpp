#include "runtime/faults/control_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "runtime/transport/processes/tcp/words.h"

namespace ptdp {
namespace {

constexpr std::string_view kBeat = "beat";
constexpr std::string_view kFault = "fault";
constexpr std::size_t kLongestText = 2000;

/// Returns the text on one line, cut to kLongestText bytes.
std::string plain(std::string_view text) {
  std::string result(text.substr(0, kLongestText));
  std::replace_if(
      result.begin(), result.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, ' ');
  return result;
}

constexpr int kMostRank = 1 << 24;
constexpr int kMostSignal = 64;
constexpr std::int64_t kMost = INT64_MAX / 4;

/// Appends an activity to a beat, with its times relative to `now`.
void append(std::string& text, const RankActivity& activity, std::int64_t now) {
  const LaneState& state = activity.state;
  const Activity& in = state.now;
  const Action action = in.action.value_or(Action{});
  fmt::format_to(std::back_inserter(text), " {} {} {} {} {} {} {} {} {} {} {} {}", activity.rank,
                 static_cast<int>(activity.lane), state.events, state.is_active ? 1 : 0,
                 in.action ? static_cast<int>(action.kind) : -1, static_cast<int>(in.phase),
                 action.stage, action.microbatch, in.step,
                 std::max<std::int64_t>(now - in.start, 0),
                 state.waits_since == 0 ? -1 : std::max<std::int64_t>(now - state.waits_since, 0),
                 static_cast<std::int64_t>(activity.longest.value() * 1e9));
}

/// Reads an activity of a beat, with its times relative to `now`.
RankActivity parse_activity(Words& words, std::int64_t now) {
  RankActivity activity{.rank = words.number(0, kMostRank),
                        .lane = static_cast<Lane>(words.number(0, kNumLanes - 1))};
  LaneState& state = activity.state;
  state.events = words.number<std::int64_t>(0, kMost);
  state.is_active = words.number(0, 1) == 1;
  const int kind = words.number(-1, kNumActionKinds - 1);
  state.now.phase = static_cast<Phase>(words.number(0, static_cast<int>(Phase::kDone)));
  const int stage = words.number(0, kMostRank);
  const int microbatch = words.number(0, INT32_MAX);
  if (kind >= 0) {
    state.now.action =
        Action{.kind = static_cast<ActionKind>(kind), .stage = stage, .microbatch = microbatch};
  }
  state.now.step = words.number<std::int64_t>(0, kMost);
  state.now.start = now - words.number<std::int64_t>(0, kMost);
  const auto waits = words.number<std::int64_t>(-1, kMost);
  state.waits_since = waits < 0 ? 0 : now - waits;
  activity.longest = Seconds(1e-9 * static_cast<double>(words.number<std::int64_t>(0, kMost)));
  return activity;
}

}  // namespace

std::string beat_text(std::span<const RankActivity> activities, std::int64_t now) {
  std::string text(kBeat);
  for (const RankActivity& activity : activities) {
    if (activity.state.events > 0) {
      append(text, activity, now);
    }
  }
  return text;
}

std::optional<std::vector<RankActivity>> parse_beat(std::string_view text, std::int64_t now) {
  Words words(text);
  words.expect(kBeat);
  std::vector<RankActivity> activities;
  while (words.is_good() && !words.is_over()) {
    activities.push_back(parse_activity(words, now));
  }
  return words.is_good() ? std::optional(std::move(activities)) : std::nullopt;
}

std::string fault_text(const RunFault& fault) {
  return fmt::format("{} {} {}\t{}\t{}", kFault, fault.rank, fault.signal, plain(fault.place),
                     plain(fault.what));
}

std::optional<RunFault> parse_fault(std::string_view text) {
  const std::size_t first = text.find('\t');
  const std::size_t second = first == std::string_view::npos ? first : text.find('\t', first + 1);
  if (second == std::string_view::npos) {
    return std::nullopt;
  }
  Words words(text.substr(0, first));
  words.expect(kFault);
  const int rank = words.number(-1, kMostRank);
  RunFault fault{.rank = rank,
                 .place = std::string(text.substr(first + 1, second - first - 1)),
                 .what = std::string(text.substr(second + 1)),
                 .signal = words.number(0, kMostSignal)};
  return words.is_good() && words.is_over() ? std::optional(fault) : std::nullopt;
}

}  // namespace ptdp
