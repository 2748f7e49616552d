#include "cost_model/schedule/text/order_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <optional>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

constexpr std::array<std::string_view, kNumActionKinds> kActionSpellings = {
    "F",      "B",      "I",      "W",           "R",       "SEND_F", "RECV_F", "SEND_B",
    "RECV_B", "COPY_F", "COPY_B", "REDUCE_GRAD", "UNSHARD", "TIED",   "NORM",   "OPTIMIZER"};
constexpr std::string_view kOverlap = "OVERLAP_F_B";
constexpr std::string_view kWholeBackward = "BW";
constexpr std::string_view kReshard = "RESHARD";
constexpr std::string_view kSpaces = " \t\r";
constexpr std::string_view kDigits = "0123456789";
constexpr int kLargestStage = 65535;
constexpr int kLargestMicrobatch = (1 << 24) - 1;

std::optional<ActionKind> kind_of(std::string_view spelling) {
  if (spelling == kWholeBackward) {
    return ActionKind::kBackward;
  }
  const auto* const found = std::find(kActionSpellings.begin(), kActionSpellings.end(), spelling);
  return found == kActionSpellings.end() ? std::nullopt
                                         : std::optional(static_cast<ActionKind>(
                                               std::distance(kActionSpellings.begin(), found)));
}

/// Whether an action of this kind may lack its number: torch writes no bucket.
bool may_lack_number(ActionKind kind) {
  return kind >= ActionKind::kReduceGradients;
}

/// Returns `digits` as a number from 0 to `largest`, or nullopt if they are not one.
std::optional<int> parse_index(std::string_view digits, int largest) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool is_index =
      error == std::errc() && end == digits.data() + digits.size() && value <= largest;
  return is_index ? std::optional(value) : std::nullopt;
}

/// The text of an action such as "2F0" in its three parts.
struct Token {
  std::string_view stage;
  std::string_view kind;
  std::string_view number;
};

Token parts_of(std::string_view text) {
  const std::size_t kind = std::min(text.find_first_not_of(kDigits), text.size());
  const std::size_t number = std::min(text.find_first_of(kDigits, kind), text.size());
  return {text.substr(0, kind), text.substr(kind, number - kind), text.substr(number)};
}

std::optional<Action> parse_action(const Token& token) {
  const auto kind = kind_of(token.kind);
  const auto stage = parse_index(token.stage, kLargestStage);
  if (!kind || !stage) {
    return std::nullopt;
  }
  if (token.number.empty() && may_lack_number(*kind)) {
    return Action{*kind, *stage};
  }
  const auto number = parse_index(token.number, kLargestMicrobatch);
  return number ? std::optional(Action{*kind, *stage, *number}) : std::nullopt;
}

/// Whether a token is a RESHARD of a stage, such as "2RESHARD".
bool is_reshard(const Token& token) {
  return token.kind == kReshard && parse_index(token.stage, kLargestStage).has_value() &&
         token.number.empty();
}

/// Returns both parts of a pair such as "(0F3;3B5)", with OVERLAP_F_B behind it or without; nullopt
/// for any other text.
std::optional<std::pair<Token, Token>> pair_of(std::string_view text) {
  if (text.ends_with(kOverlap)) {
    text.remove_suffix(kOverlap.size());
  }
  const std::size_t semicolon = text.find(';');
  if (!text.starts_with('(') || !text.ends_with(')') || semicolon == std::string_view::npos) {
    return std::nullopt;
  }
  return std::pair(parts_of(text.substr(1, semicolon - 1)),
                   parts_of(text.substr(semicolon + 1, text.size() - semicolon - 2)));
}

/// Appends the action of a token; returns false when the token is no action.
bool append(ParsedOrder& order, const Token& token, bool overlaps_next) {
  auto action = parse_action(token);
  if (!action) {
    return false;
  }
  if (token.kind == kWholeBackward) {
    order.whole_backwards.push_back(order.actions.size());
  }
  action->overlaps_next = overlaps_next;
  order.actions.push_back(*action);
  return true;
}

}  // namespace

std::string_view spelling_of(ActionKind kind) {
  return kActionSpellings[static_cast<std::size_t>(kind)];
}

std::string to_string(const Action& action) {
  return std::to_string(action.stage) + std::string(spelling_of(action.kind)) +
         std::to_string(action.microbatch);
}

std::string joined(std::span<const Action> order, char separator) {
  std::string text;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0) {
      text += separator;
    }
    if (order[i].overlaps_next && i + 1 < order.size()) {
      text += '(' + to_string(order[i]) + ';' + to_string(order[i + 1]) + ')';
      text += kOverlap;
      ++i;
    } else {
      text += to_string(order[i]);
    }
  }
  return text;
}

std::string to_string(std::span<const Action> order) {
  return joined(order, ' ');
}

void append_parsed(ParsedOrder& order, std::string_view token, const std::string& place) {
  const Token single = parts_of(token);
  if (append(order, single, /*overlaps_next=*/false) || is_reshard(single)) {
    return;
  }
  if (const auto pair = pair_of(token)) {
    if (append(order, pair->first, /*overlaps_next=*/true) &&
        append(order, pair->second, /*overlaps_next=*/false)) {
      return;
    }
  }
  throw Error(place + ": expected an action such as 2F0, 2SEND_F0 or (0F3;3B5)" +
              std::string(kOverlap) +
              " with F, B, I, W or the name of another kind, stages below 65536 and microbatches "
              "below 16777216, got " +
              in_quotes(token));
}

std::vector<Action> parse_order(std::string_view text, const std::string& place) {
  ParsedOrder order;
  std::size_t begin = text.find_first_not_of(kSpaces);
  while (begin != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kSpaces, begin), text.size());
    append_parsed(order, text.substr(begin, end - begin), place);
    begin = text.find_first_not_of(kSpaces, end);
  }
  return std::move(order.actions);
}

}  // namespace ptdp
