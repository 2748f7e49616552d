// Reads and writes schedules as CSV files of torch.distributed.pipelining.
#include <algorithm>
#include <array>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/schedule/passes/communication.h"
#include "cost_model/schedule/schedule.h"
#include "cost_model/schedule/text/order_text.h"
#include "cost_model/text/files.h"

namespace ptdp {
namespace {

constexpr std::string_view kBlanks = " \t\r";
constexpr std::size_t kMostRanks = 65536;
constexpr std::size_t kLargestCsv = std::size_t{256} * 1024 * 1024;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  return first == std::string_view::npos
             ? std::string_view()
             : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// Counts of the actions of each kind in a file.
class KindCounts {
 public:
  explicit KindCounts(const std::vector<ParsedOrder>& orders) {
    for (const ParsedOrder& order : orders) {
      for (const Action& action : order.actions) {
        ++count_[static_cast<std::size_t>(action.kind)];
      }
    }
  }

  [[nodiscard]] std::size_t count(ActionKind kind) const {
    return count_[static_cast<std::size_t>(kind)];
  }

 private:
  std::array<std::size_t, kNumActionKinds> count_ = {};
};

/// Turns B into I in a file that has W but no I; BW stays whole. Throws Error at `place` when every
/// backward pass of such a file is BW.
void read_backward_as_input_gradient(std::vector<ParsedOrder>& orders, const std::string& place) {
  const KindCounts kinds(orders);
  if (kinds.count(ActionKind::kWeightGradient) == 0 ||
      kinds.count(ActionKind::kInputGradient) > 0) {
    return;
  }
  std::size_t whole = 0;
  for (const ParsedOrder& order : orders) {
    whole += order.whole_backwards.size();
  }
  if (whole > 0 && whole == kinds.count(ActionKind::kBackward)) {
    throw Error(place + ": BW is a whole backward pass; expected B or I beside W, got none");
  }
  for (ParsedOrder& order : orders) {
    auto next_whole = order.whole_backwards.begin();
    for (std::size_t i = 0; i < order.actions.size(); ++i) {
      if (next_whole != order.whole_backwards.end() && *next_whole == i) {
        ++next_whole;
      } else if (order.actions[i].kind == ActionKind::kBackward) {
        order.actions[i].kind = ActionKind::kInputGradient;
      }
    }
  }
}

/// Returns how many compute actions are on a rank that does not hold their stage.
std::int64_t num_misplaced(const Schedule& schedule) {
  std::int64_t count = 0;
  for (std::size_t rank = 0; rank < schedule.orders.size(); ++rank) {
    for (const Action& action : schedule.orders[rank]) {
      const bool is_here =
          !is_compute(action.kind) ||
          (action.stage < num_stages(schedule) &&
           rank_of(schedule, action.stage, action.microbatch) == static_cast<int>(rank));
      count += is_here ? 0 : 1;
    }
  }
  return count;
}

/// Returns the schedule with the sizes that its actions need, under the placement that fits them
/// best.
Schedule with_sizes(Schedule schedule) {
  int last_stage = 0;
  int last_microbatch = 0;
  for (const std::vector<Action>& order : schedule.orders) {
    for (const Action& action : order) {
      if (is_compute(action.kind)) {
        last_stage = std::max(last_stage, action.stage);
        last_microbatch = std::max(last_microbatch, action.microbatch);
      }
    }
  }
  schedule.pp = static_cast<int>(schedule.orders.size());
  schedule.num_microbatches = last_microbatch + 1;
  schedule.vpp = last_stage / schedule.pp + 1;
  std::int64_t least = num_misplaced(schedule);
  const auto consider = [&](int vpp, StagePlacement placement) {
    const int looped_vpp = std::exchange(schedule.vpp, vpp);
    const StagePlacement looped = std::exchange(schedule.placement, placement);
    if (const std::int64_t misplaced = num_misplaced(schedule); misplaced < least) {
      least = misplaced;
    } else {
      schedule.vpp = looped_vpp;
      schedule.placement = looped;
    }
  };
  if (least > 0) {
    consider(2, StagePlacement::kV);
    consider(1, StagePlacement::kBidirectional);
  }
  return schedule;
}

/// Whether a file has messages but no copies. torch writes messages between ranks alone: on a rank
/// it hands a result over where it is made.
bool lacks_copies(const KindCounts& kinds) {
  return kinds.count(ActionKind::kSendForward) + kinds.count(ActionKind::kSendBackward) > 0 &&
         kinds.count(ActionKind::kCopyForward) + kinds.count(ActionKind::kCopyBackward) == 0;
}

std::vector<ParsedOrder> parse_lines(std::string_view text, const std::string& place) {
  std::vector<ParsedOrder> orders;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (orders.size() == kMostRanks) {
      throw Error(place + ": expected a line of actions for each of at most 65536 ranks, got more");
    }
    ParsedOrder& order = orders.emplace_back();
    const std::string line_place = place + ": line " + std::to_string(orders.size());
    for (int cell = 1; !line.empty(); ++cell) {
      const std::size_t comma = std::min(line.find(','), line.size());
      const std::string_view token = trimmed(line.substr(0, comma));
      line.remove_prefix(std::min(comma + 1, line.size()));
      if (!token.empty()) {
        append_parsed(order, token, line_place + ": cell " + std::to_string(cell));
      }
    }
  }
  // Every rank holds a stage, so empty lines behind the last action stand for no rank.
  while (!orders.empty() && orders.back().actions.empty()) {
    orders.pop_back();
  }
  return orders;
}

}  // namespace

std::string to_csv(const Schedule& schedule) {
  std::string text;
  for (const std::vector<Action>& order : schedule.orders) {
    text += joined(order, ',') + '\n';
  }
  return text;
}

Schedule parse_schedule_csv(std::string_view text, const std::string& place) {
  std::vector<ParsedOrder> orders =
      parse_lines(text.substr(0, text.find_last_not_of(" \t\r\n,") + 1), place);
  read_backward_as_input_gradient(orders, place);
  const bool needs_copies = lacks_copies(KindCounts(orders));
  Schedule schedule{.name = "imported"};
  for (ParsedOrder& order : orders) {
    schedule.orders.push_back(std::move(order.actions));
  }
  if (schedule.orders.empty()) {
    throw Error(place + ": expected a line of actions per rank, got none");
  }
  schedule = with_sizes(std::move(schedule));
  return needs_copies ? insert_copies(schedule) : schedule;
}

Schedule read_schedule_csv(const std::filesystem::path& path) {
  return parse_schedule_csv(read_file(path, kLargestCsv), path.string());
}

}  // namespace ptdp
