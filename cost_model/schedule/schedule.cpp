#include "cost_model/schedule/schedule.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/files.h"
#include "cost_model/spec/in_quotes.h"

namespace ptdp {
namespace {

constexpr std::array<std::string_view, kNumActionKinds> kSpellings = {
    "F",      "B",      "I",      "W",           "R",       "SEND_F", "RECV_F", "SEND_B",
    "RECV_B", "COPY_F", "COPY_B", "REDUCE_GRAD", "UNSHARD", "TIED",   "NORM",   "OPTIMIZER"};
constexpr std::string_view kOverlap = "OVERLAP_F_B";
constexpr std::string_view kSpaces = " \t\r";
constexpr int kLargestStage = 65535;
constexpr std::size_t kMostRanks = 65536;
constexpr int kLargestMicrobatch = (1 << 24) - 1;
constexpr std::size_t kLargestCsv = std::size_t{256} * 1024 * 1024;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kSpaces);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

std::optional<ActionKind> kind_of(char letter) {
  switch (letter) {
    case 'F':
      return ActionKind::kForward;
    case 'B':
      return ActionKind::kBackward;
    case 'I':
      return ActionKind::kInputGradient;
    case 'W':
      return ActionKind::kWeightGradient;
    default:
      return std::nullopt;
  }
}

/// The whole of `text` as a number from 0 to `largest`: digits alone.
std::optional<int> parse_index(std::string_view text, int largest) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_index = error == std::errc() && end == text.data() + text.size() && value >= 0 &&
                        value <= largest && text.front() != '-';
  return is_index ? std::optional(value) : std::nullopt;
}

/// "2F0".
std::optional<Action> parse_action(std::string_view text) {
  const std::size_t letter = text.find_first_of("FBIW");
  if (letter == std::string_view::npos || letter == 0 || letter + 1 == text.size()) {
    return std::nullopt;
  }
  const auto kind = kind_of(text[letter]);
  const auto stage = parse_index(text.substr(0, letter), kLargestStage);
  const auto microbatch = parse_index(text.substr(letter + 1), kLargestMicrobatch);
  if (!kind || !stage || !microbatch) {
    return std::nullopt;
  }
  return Action{*kind, *stage, *microbatch};
}

/// "(0F3;3B5)", with OVERLAP_F_B behind it or without.
std::optional<std::pair<Action, Action>> parse_pair(std::string_view text) {
  if (text.ends_with(kOverlap)) {
    text.remove_suffix(kOverlap.size());
  }
  const std::size_t semicolon = text.find(';');
  if (!text.starts_with('(') || !text.ends_with(')') || semicolon == std::string_view::npos) {
    return std::nullopt;
  }
  auto first = parse_action(text.substr(1, semicolon - 1));
  const auto second = parse_action(text.substr(semicolon + 1, text.size() - semicolon - 2));
  if (!first || !second) {
    return std::nullopt;
  }
  first->overlaps_next = true;
  return std::pair(*first, *second);
}

/// Appends the action or the pair that `text` spells. Throws Error at `place`.
void append_parsed(std::vector<Action>& order, std::string_view text, const std::string& place) {
  if (const auto action = parse_action(text)) {
    order.push_back(*action);
  } else if (const auto pair = parse_pair(text)) {
    order.push_back(pair->first);
    order.push_back(pair->second);
  } else {
    throw Error(place + ": expected an action such as 2F0 or (0F3;3B5)" + std::string(kOverlap) +
                " with F, B, I or W, stages below 65536 and microbatches below 16777216, got " +
                in_quotes(text));
  }
}

/// Calls `visit` for every token of an order, with the text of an overlapped pair in one piece.
template <class Visit>
void for_each_token(std::span<const Action> order, const Visit& visit) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i].overlaps_next && i + 1 < order.size()) {
      visit('(' + to_string(order[i]) + ';' + to_string(order[i + 1]) + ')' +
            std::string(kOverlap));
      ++i;
    } else {
      visit(to_string(order[i]));
    }
  }
}

std::string joined(std::span<const Action> order, char separator) {
  std::string text;
  for_each_token(order, [&](const std::string& token) {
    if (!text.empty()) {
      text += separator;
    }
    text += token;
  });
  return text;
}

/// Writes I where a file without any I has weight gradients apart.
void read_backward_as_input_gradient(Schedule& schedule) {
  std::array<bool, kNumActionKinds> has = {};
  for (const std::vector<Action>& order : schedule.orders) {
    for (const Action& action : order) {
      has[static_cast<std::size_t>(action.kind)] = true;
    }
  }
  if (!has[static_cast<std::size_t>(ActionKind::kWeightGradient)] ||
      has[static_cast<std::size_t>(ActionKind::kInputGradient)]) {
    return;
  }
  for (std::vector<Action>& order : schedule.orders) {
    for (Action& action : order) {
      if (action.kind == ActionKind::kBackward) {
        action.kind = ActionKind::kInputGradient;
      }
    }
  }
}

std::int64_t num_misplaced(const Schedule& schedule) {
  std::int64_t count = 0;
  for (std::size_t rank = 0; rank < schedule.orders.size(); ++rank) {
    for (const Action& action : schedule.orders[rank]) {
      const bool is_here =
          action.stage < num_stages(schedule) &&
          rank_of(schedule, action.stage, action.microbatch) == static_cast<int>(rank);
      count += is_here ? 0 : 1;
    }
  }
  return count;
}

/// The sizes that the actions need, under the placement that fits them best.
Schedule with_sizes(Schedule schedule) {
  int last_stage = 0;
  int last_microbatch = 0;
  for (const std::vector<Action>& order : schedule.orders) {
    for (const Action& action : order) {
      last_stage = std::max(last_stage, action.stage);
      last_microbatch = std::max(last_microbatch, action.microbatch);
    }
  }
  schedule.pp = static_cast<int>(schedule.orders.size());
  schedule.num_microbatches = last_microbatch + 1;
  schedule.vpp = last_stage / schedule.pp + 1;
  std::int64_t least = num_misplaced(schedule);
  const auto consider = [&](int vpp, StagePlacement placement) {
    Schedule other = schedule;
    other.vpp = vpp;
    other.placement = placement;
    if (const std::int64_t misplaced = num_misplaced(other); misplaced < least) {
      least = misplaced;
      schedule = std::move(other);
    }
  };
  if (least > 0) {
    consider(2, StagePlacement::kV);
    consider(1, StagePlacement::kBidirectional);
  }
  return schedule;
}

}  // namespace

int num_stages(const Schedule& schedule) {
  return schedule.pp * schedule.vpp;
}

int rank_of(const Schedule& schedule, int stage, int microbatch) {
  const int pp = schedule.pp;
  switch (schedule.placement) {
    case StagePlacement::kLooped:
      return stage % pp;
    case StagePlacement::kV:
      return stage < pp ? stage : 2 * pp - 1 - stage;
    case StagePlacement::kBidirectional:
      return 2 * std::int64_t{microbatch} < schedule.num_microbatches ? stage : pp - 1 - stage;
  }
  return 0;
}

std::int64_t num_actions(const Schedule& schedule) {
  std::int64_t count = 0;
  for (const std::vector<Action>& order : schedule.orders) {
    count += static_cast<std::int64_t>(order.size());
  }
  return count;
}

std::string_view spelling_of(ActionKind kind) {
  return kSpellings[static_cast<std::size_t>(kind)];
}

std::string to_string(const Action& action) {
  return std::to_string(action.stage) + std::string(spelling_of(action.kind)) +
         std::to_string(action.microbatch);
}

std::string to_string(std::span<const Action> order) {
  return joined(order, ' ');
}

std::vector<Action> parse_order(std::string_view text, const std::string& place) {
  std::vector<Action> order;
  std::size_t begin = text.find_first_not_of(kSpaces);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kSpaces, begin), text.size());
    append_parsed(order, text.substr(begin, end - begin), place);
    begin = text.find_first_not_of(kSpaces, end);
  }
  return order;
}

std::string to_csv(const Schedule& schedule) {
  std::string text;
  for (const std::vector<Action>& order : schedule.orders) {
    text += joined(order, ',') + '\n';
  }
  return text;
}

Schedule parse_schedule_csv(std::string_view text, const std::string& place) {
  Schedule schedule{.name = "imported"};
  text = text.substr(0, text.find_last_not_of(" \t\r\n,") + 1);  // every rank holds a stage
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (schedule.orders.size() == kMostRanks) {
      throw Error(place + ": expected a line of actions for each of at most 65536 ranks, got more");
    }
    std::vector<Action>& order = schedule.orders.emplace_back();
    const std::string line_place = place + ": line " + std::to_string(schedule.orders.size());
    for (int cell = 1; !line.empty(); ++cell) {
      const std::size_t comma = std::min(line.find(','), line.size());
      const std::string_view token = trimmed(line.substr(0, comma));
      line.remove_prefix(std::min(comma + 1, line.size()));
      if (!token.empty()) {
        append_parsed(order, token, line_place + ": cell " + std::to_string(cell));
      }
    }
  }
  if (schedule.orders.empty() || num_actions(schedule) == 0) {
    throw Error(place + ": expected a line of actions per rank, got none");
  }
  read_backward_as_input_gradient(schedule);
  return with_sizes(std::move(schedule));
}

Schedule read_schedule_csv(const std::filesystem::path& path) {
  return parse_schedule_csv(read_file(path, kLargestCsv), path.string());
}

}  // namespace ptdp
