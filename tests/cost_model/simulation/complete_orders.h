// Complete schedules written as text, for tests of the simulator.
#pragma once

#include <string>
#include <vector>

#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// "0F0 0SEND_F0": stage, spelling, microbatch or bucket, blank between actions; "(" before the
/// first action of an overlapped pair.
[[nodiscard]] inline std::vector<Action> complete_order(const std::string& text) {
  std::vector<Action> order;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const bool is_pair = text[at] == '(';
    const std::size_t begin = at + (is_pair ? 1 : 0);
    const std::string token = text.substr(begin, end - begin);
    const std::size_t kind_at = token.find_first_not_of("0123456789");
    const std::size_t kind_end = token.find_last_not_of("0123456789") + 1;
    const std::string kind = token.substr(kind_at, kind_end - kind_at);
    for (int i = 0; i < kNumActionKinds; ++i) {
      if (spelling_of(static_cast<ActionKind>(i)) == kind) {
        order.push_back({static_cast<ActionKind>(i), std::stoi(token.substr(0, kind_at)),
                         std::stoi(token.substr(kind_end)), is_pair});
      }
    }
    at = end + 1;
  }
  return order;
}

/// A rank per text, on one stage each unless the placement is another.
[[nodiscard]] inline Schedule complete_schedule(
    const std::vector<std::string>& orders, int num_microbatches, int vpp = 1,
    StagePlacement placement = StagePlacement::kLooped) {
  Schedule schedule{.name = "written",
                    .pp = static_cast<int>(orders.size()),
                    .vpp = vpp,
                    .num_microbatches = num_microbatches,
                    .placement = placement};
  for (const std::string& order : orders) {
    schedule.orders.push_back(complete_order(order));
  }
  return schedule;
}

}  // namespace ptdp
