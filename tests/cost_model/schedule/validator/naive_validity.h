// Decides by names, sets and repeated sweeps whether a schedule is valid, to check the validator by
// other means.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/schedule/lane.h"
#include "cost_model/schedule/schedule.h"
#include "tests/cost_model/schedule/in_order_run.h"

namespace ptdp {

class NaiveValidity {
 public:
  explicit NaiveValidity(const Schedule& schedule) : schedule_(schedule) {}

  [[nodiscard]] bool holds() {
    return pairs_hold() && everything_is_there_once() && rules_hold() && is_fifo('F') &&
           is_fifo('B') && ends_hold() && runs();
  }

 private:
  using Names = std::vector<std::string>;

  static std::string name(int stage, const std::string& kind, int number) {
    return std::to_string(stage) + kind + std::to_string(number);
  }
  [[nodiscard]] int last_stage() const { return schedule_.pp * schedule_.vpp - 1; }
  [[nodiscard]] int holder(int stage, int microbatch) const {
    return ptdp::rank_of(schedule_, Action{ActionKind::kForward, stage, microbatch});
  }
  /// Returns the stages that a rank holds for any microbatch.
  [[nodiscard]] std::set<int> stages_of(int rank) const {
    std::set<int> stages;
    for (int stage = 0; stage <= last_stage(); ++stage) {
      for (const int microbatch : {0, schedule_.num_microbatches - 1}) {
        if (holder(stage, microbatch) == rank) {
          stages.insert(stage);
        }
      }
    }
    return stages;
  }

  [[nodiscard]] bool has_kind(const std::string& spelling) const {
    for (const auto& order : schedule_.orders) {
      for (const Action& action : order) {
        if (spelling_of(action.kind) == spelling) {
          return true;
        }
      }
    }
    return false;
  }

  [[nodiscard]] bool is_lowered() const {
    for (const auto& order : schedule_.orders) {
      for (const Action& action : order) {
        if (static_cast<int>(action.kind) > 4) {
          return true;
        }
      }
    }
    return false;
  }

  [[nodiscard]] bool pairs_hold() const {
    for (const auto& order : schedule_.orders) {
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (order[i].overlaps_next &&
            (i + 1 == order.size() || order[i + 1].overlaps_next ||
             static_cast<int>(order[i].kind) > 4 || static_cast<int>(order[i + 1].kind) > 4)) {
          return false;
        }
      }
    }
    return true;
  }

  /// Fills `turn_`: for each rank, the number of the single action or pair to which a name belongs.
  [[nodiscard]] bool everything_is_there_once() {
    turn_.assign(schedule_.pp, {});
    int turn = 0;
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      for (const Action& action : schedule_.orders[rank]) {
        if (!turn_[rank].emplace(to_string(action), turn).second) {
          return false;
        }
        turn += action.overlaps_next ? 0 : 1;
      }
    }
    std::vector<std::set<std::string>> expected(schedule_.pp);
    for (int stage = 0; stage <= last_stage(); ++stage) {
      for (int mb = 0; mb < schedule_.num_microbatches; ++mb) {
        const int rank = holder(stage, mb);
        const auto has = [&](const char* kind) {
          return turn_[rank].contains(name(stage, kind, mb));
        };
        if (has("B") ? has("I") || has("W") : !(has("I") && has("W"))) {
          return false;
        }
        for (const char* kind : {"B", "I", "W", "R"}) {
          if (has(kind)) {
            expected[rank].insert(name(stage, kind, mb));
          }
        }
        expected[rank].insert(name(stage, "F", mb));
        if (is_lowered() && stage > 0) {
          add_message(expected, stage - 1, stage, "F", mb);
          add_message(expected, stage, stage - 1, "B", mb);
        }
      }
    }
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      add_step(expected[rank], rank);
      if (expected[rank].size() != turn_[rank].size()) {
        return false;
      }
      for (const std::string& each : expected[rank]) {
        if (!turn_[rank].contains(each)) {
          return false;
        }
      }
    }
    return true;
  }

  void add_message(std::vector<std::set<std::string>>& expected, int from, int to,
                   const std::string& way, int mb) const {
    if (holder(from, mb) == holder(to, mb)) {
      expected[holder(to, mb)].insert(name(to, "COPY_" + way, mb));
    } else {
      expected[holder(from, mb)].insert(name(from, "SEND_" + way, mb));
      expected[holder(to, mb)].insert(name(to, "RECV_" + way, mb));
    }
  }

  void add_step(std::set<std::string>& expected, int rank) {
    for (const char* kind : {"UNSHARD", "REDUCE_GRAD"}) {
      for (const int stage : stages_of(rank)) {
        for (int bucket = 0; has_kind(kind) && bucket < most_buckets(stage); ++bucket) {
          expected.insert(name(stage, kind, bucket));
        }
      }
    }
    const int first = holder(0, 0);
    const int last = holder(last_stage(), 0);
    if (has_kind("TIED") && first != last && (rank == first || rank == last)) {
      expected.insert(name(rank == first ? 0 : last_stage(), "TIED", 0));
    }
    for (const char* kind : {"NORM", "OPTIMIZER"}) {
      if (has_kind(kind)) {
        expected.insert(name(rank, kind, 0));
      }
    }
  }

  /// Returns one more than the largest bucket number of the stage on any rank; at least 1.
  [[nodiscard]] int most_buckets(int stage) const {
    int most = 1;
    for (const auto& order : schedule_.orders) {
      for (const Action& action : order) {
        const std::string_view kind = spelling_of(action.kind);
        if (action.stage == stage && (kind == "UNSHARD" || kind == "REDUCE_GRAD")) {
          most = std::max(most, std::min(action.microbatch, 1000) + 1);
        }
      }
    }
    return most;
  }

  /// Returns false if both actions are on the rank and `first` does not come in an earlier turn.
  [[nodiscard]] bool precedes(int rank, const std::string& first, const std::string& second) const {
    const auto a = turn_[rank].find(first);
    const auto b = turn_[rank].find(second);
    return a == turn_[rank].end() || b == turn_[rank].end() || a->second < b->second;
  }

  [[nodiscard]] bool rules_hold() const {
    for (int s = 0; s <= last_stage(); ++s) {
      for (int mb = 0; mb < schedule_.num_microbatches; ++mb) {
        std::vector<std::pair<std::string, std::string>> rules;
        const auto rule = [&](int from, const char* first, int to, const char* second) {
          rules.emplace_back(name(from, first, mb), name(to, second, mb));
        };
        for (const char* taker : {"B", "I"}) {
          rule(s, "F", s, taker);
          rule(s, "R", s, taker);
          rule(s, taker, s, "W");
          rule(s, taker, s, "SEND_B");
          rule(s, taker, s - 1, "COPY_B");
          rule(s, "RECV_B", s, taker);
          rule(s, "COPY_B", s, taker);
        }
        rule(s, "F", s, "R");
        rule(s, "F", s, "SEND_F");
        rule(s, "F", s + 1, "COPY_F");
        rule(s, "RECV_F", s, "F");
        rule(s, "COPY_F", s, "F");
        for (int bucket = 0; bucket < most_buckets(s); ++bucket) {
          rules.emplace_back(name(s, "UNSHARD", bucket), name(s, "F", mb));
          rules.emplace_back(name(s, "B", mb), name(s, "REDUCE_GRAD", bucket));
          rules.emplace_back(name(s, "W", mb), name(s, "REDUCE_GRAD", bucket));
          for (const char* kind : {"UNSHARD", "REDUCE_GRAD"}) {
            rules.emplace_back(name(s, kind, bucket), name(s, kind, bucket + 1));
          }
        }
        for (int rank = 0; rank < schedule_.pp; ++rank) {
          for (const auto& [first, second] : rules) {
            if (!precedes(rank, first, second)) {
              return false;
            }
          }
        }
      }
    }
    return true;
  }

  /// Whether messages between each pair of ranks are received in the order in which they are sent.
  /// `way` selects forward or backward messages.
  [[nodiscard]] bool is_fifo(char way) const {
    std::map<std::pair<int, int>, std::pair<Names, Names>> channels;
    const int step = way == 'F' ? 1 : -1;
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      for (const Action& action : schedule_.orders[rank]) {
        std::string kind(spelling_of(action.kind));
        kind = kind == "I" ? "B" : kind;
        const bool is_implied = !is_lowered() && kind == std::string(1, way);
        for (const bool is_send : {true, false}) {
          const int other_stage = action.stage + (is_send ? step : -step);
          if (!(is_implied || kind == (is_send ? "SEND_" : "RECV_") + std::string(1, way)) ||
              other_stage < 0 || other_stage > last_stage()) {
            continue;
          }
          const int other = holder(other_stage, action.microbatch);
          const int sender_stage = is_send ? action.stage : other_stage;
          auto& channel = channels[is_send ? std::pair(rank, other) : std::pair(other, rank)];
          (is_send ? channel.first : channel.second)
              .push_back(name(sender_stage, "", action.microbatch));
        }
      }
    }
    return std::all_of(channels.begin(), channels.end(), [](const auto& each) {
      return each.first.first == each.first.second || each.second.first == each.second.second;
    });
  }

  /// Whether TIED, NORM and OPTIMIZER come in this order after everything else.
  [[nodiscard]] bool ends_hold() const {
    for (const auto& order : schedule_.orders) {
      int phase = 0;
      for (const Action& action : order) {
        const int kind = static_cast<int>(action.kind);
        const int own = kind < static_cast<int>(ActionKind::kReduceTied) ? 0 : kind;
        if (own < phase) {
          return false;
        }
        phase = own;
      }
    }
    return true;
  }

  [[nodiscard]] bool runs() const {
    if (!is_lowered()) {
      Schedule without_recomputation = schedule_;
      for (auto& order : without_recomputation.orders) {
        std::erase_if(order, [](const Action& a) { return a.kind == ActionKind::kRecompute; });
      }
      return run(without_recomputation).finished;
    }
    return runs(MessageMode::kBlocking) && runs(MessageMode::kOverlapped);
  }

  /// Runs the actions: takes the front of any lane that can go until none can. What is on the same
  /// rank is in order already, so only inputs by messages, and partners, are waited for.
  [[nodiscard]] bool runs(MessageMode messages) const {
    std::vector<std::vector<std::vector<Action>>> lanes(
        schedule_.pp, std::vector<std::vector<Action>>(kNumLanes));
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      for (const Action& action : schedule_.orders[rank]) {
        lanes[rank][static_cast<std::size_t>(lane_of(action.kind, messages))].push_back(action);
      }
    }
    std::set<std::pair<int, std::string>> done;
    const auto pop = [&](int rank, std::vector<Action>& lane) {
      done.emplace(rank, to_string(lane.front()));
      lane.erase(lane.begin());
    };
    for (bool moved = true; std::exchange(moved, false);) {
      for (int rank = 0; rank < schedule_.pp; ++rank) {
        for (std::vector<Action>& lane : lanes[rank]) {
          if (lane.empty()) {
            continue;
          }
          const Action front = lane.front();
          const std::string kind(spelling_of(front.kind));
          if (kind.starts_with("SEND") && all_before_are_done(rank, front, done)) {
            const int to = front.stage + (kind == "SEND_F" ? 1 : -1);
            const Names receive = {
                name(to, kind == "SEND_F" ? "RECV_F" : "RECV_B", front.microbatch)};
            const int other = holder(to, front.microbatch);
            for (std::vector<Action>& there : lanes[other]) {
              if (!there.empty() && to_string(there.front()) == receive.front()) {
                pop(other, there);
                pop(rank, lane);
                moved = true;
                break;
              }
            }
          } else if (!kind.starts_with("SEND") && !kind.starts_with("RECV") &&
                     all_before_are_done(rank, front, done) && all_are_at(front, lanes)) {
            const bool is_pair = front.overlaps_next;
            if (is_pair && !all_before_are_done(rank, lane[1], done)) {
              continue;
            }
            pop(rank, lane);
            if (is_pair) {
              pop(rank, lane);
            }
            moved = true;
          }
        }
      }
    }
    for (const auto& rank : lanes) {
      for (const auto& lane : rank) {
        if (!lane.empty()) {
          return false;
        }
      }
    }
    return true;
  }

  /// Whether each rank of a reduction is at it or has passed it.
  [[nodiscard]] static bool all_are_at(const Action& action,
                                       const std::vector<std::vector<std::vector<Action>>>& lanes) {
    if (action.kind != ActionKind::kReduceTied && action.kind != ActionKind::kReduceNorm) {
      return true;
    }
    for (const auto& rank : lanes) {
      const std::vector<Action>& compute = rank.front();
      for (std::size_t i = 1; i < compute.size(); ++i) {
        if (compute[i].kind == action.kind) {
          return false;
        }
      }
      const std::vector<Action>& data = rank.back();
      const bool takes_part = !compute.empty() && compute.front().kind == action.kind;
      if (takes_part && !data.empty()) {
        return false;
      }
    }
    return true;
  }

  /// Whether the other lanes of a rank have done what the action needs from them.
  [[nodiscard]] bool all_before_are_done(int rank, const Action& action,
                                         const std::set<std::pair<int, std::string>>& done) const {
    Names needed;
    const int s = action.stage;
    const int mb = action.microbatch;
    switch (action.kind) {
      case ActionKind::kForward:
        needed = {name(s, "RECV_F", mb), name(s, "COPY_F", mb)};
        for (int bucket = 0; bucket < most_buckets(s); ++bucket) {
          needed.push_back(name(s, "UNSHARD", bucket));
        }
        break;
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
        needed = {name(s, "F", mb), name(s, "RECV_B", mb), name(s, "COPY_B", mb)};
        break;
      case ActionKind::kWeightGradient:
        needed = {name(s, "I", mb)};
        break;
      case ActionKind::kSendForward:
        needed = {name(s, "F", mb)};
        break;
      case ActionKind::kSendBackward:
        needed = {name(s, "B", mb), name(s, "I", mb)};
        break;
      case ActionKind::kReduceGradients:
        for (int each = 0; each < schedule_.num_microbatches; ++each) {
          needed.push_back(name(s, "B", each));
          needed.push_back(name(s, "W", each));
        }
        break;
      default:
        break;
    }
    return std::all_of(needed.begin(), needed.end(), [&](const std::string& each) {
      return !turn_[rank].contains(each) || done.contains({rank, each});
    });
  }

  const Schedule& schedule_;
  std::vector<std::map<std::string, int>> turn_;
};

/// Whether the schedule can be executed, by the rules of validator.h.
[[nodiscard]] inline bool is_valid_naively(const Schedule& schedule) {
  return NaiveValidity(schedule).holds();
}

}  // namespace ptdp
