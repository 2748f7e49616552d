// Runs a complete schedule in the plainest way, as the reference for the engines. After every event
// it looks at every lane, searches the lists for what an action needs, and computes all rates anew.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "cost_model/schedule/lane.h"
#include "cost_model/simulation/engine/action_durations.h"
#include "cost_model/simulation/timeline.h"

namespace ptdp {

class ReferenceSimulator {
 public:
  ReferenceSimulator(const Schedule& schedule, const StepTimes& times)
      : schedule_(schedule), times_(times), durations_(schedule, times) {
    lanes_.resize(schedule.orders.size());
    for (int rank = 0; rank < schedule.pp; ++rank) {
      const std::vector<Action>& order = schedule.orders[rank];
      spans_.emplace_back(order.size());
      for (std::size_t i = 0; i < order.size(); ++i) {
        const bool is_second = i > 0 && order[i - 1].overlaps_next;
        if (!is_second && occupies_lane(order[i].kind)) {
          lane(rank, i).push_back(i);
        }
      }
      for (std::vector<std::size_t>& queue : lanes_[rank]) {
        std::reverse(queue.begin(), queue.end());  // the next at the back
      }
    }
  }

  /// Returns the spans of all actions, by rank. Ends early if the schedule deadlocks.
  std::vector<std::vector<Span>> run() {
    while (true) {
      while (start_one()) {
      }
      if (running_.empty()) {
        return spans_;
      }
      set_rates();
      pass_time();
    }
  }

 private:
  struct Place {
    int rank = 0;
    std::size_t position = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct Running {
    /// The actions that run as one: one, both of a pair or message, or all of the norm.
    std::vector<Place> places;
    double start = 0.0;
    double latency = 0.0;  ///< Latency that is left [s].
    double left = 0.0;     ///< Time left after the latency, at rate 1 [s].
    double whole = 0.0;
    double rate = 1.0;
    std::vector<int> links;  ///< Links that it loads after the latency.
  };

  [[nodiscard]] const Action& at(Place place) const {
    return schedule_.orders[place.rank][place.position];
  }
  std::vector<std::size_t>& lane(int rank, std::size_t position) {
    const ActionKind kind = schedule_.orders[rank][position].kind;
    return lanes_[rank][static_cast<std::size_t>(lane_of(kind, times_.messages, times_.data))];
  }

  [[nodiscard]] bool is_head(Place place) {
    const std::vector<std::size_t>& queue = lane(place.rank, place.position);
    return !queue.empty() && queue.back() == place.position && !is_running(place);
  }
  [[nodiscard]] bool is_running(Place place) const {
    return std::any_of(running_.begin(), running_.end(), [&](const Running& other) {
      return std::count(other.places.begin(), other.places.end(), place) > 0;
    });
  }
  [[nodiscard]] bool has_run(int rank, ActionKind kind, int stage, int microbatch) const {
    return done_.contains({rank, kind, stage, microbatch});
  }
  [[nodiscard]] bool has_input_gradient(int rank, int stage, int microbatch) const {
    return has_run(rank, ActionKind::kBackward, stage, microbatch) ||
           has_run(rank, ActionKind::kInputGradient, stage, microbatch);
  }

  /// Whether every action of the rank's data lane before a position has run.
  [[nodiscard]] bool is_drained(Place place) const {
    const auto& queue = lanes_[place.rank][static_cast<std::size_t>(Lane::kData)];
    return queue.empty() || queue.back() > place.position;
  }

  /// Returns the number of parameter buckets of an action's stage.
  [[nodiscard]] int num_gathers(Place place) const {
    const std::vector<Action>& order = schedule_.orders[place.rank];
    return static_cast<int>(std::count_if(order.begin(), order.end(), [&](const Action& other) {
      return other.kind == ActionKind::kGatherParameters && other.stage == at(place).stage;
    }));
  }
  /// Returns how many parameter buckets of an action's stage have been gathered.
  [[nodiscard]] int num_gathered(Place place) const {
    int count = 0;
    for (int bucket = 0; bucket < num_gathers(place); ++bucket) {
      count += has_run(place.rank, ActionKind::kGatherParameters, at(place).stage, bucket) ? 1 : 0;
    }
    return count;
  }
  /// Whether a forward pass has come to a part of itself whose parameters are not there yet.
  [[nodiscard]] bool is_stalled(const Running& running) const {
    const Place place = running.places.front();
    const int all = num_gathers(place);
    if (at(place).kind != ActionKind::kForward || all == 0) {
      return false;
    }
    const double done = running.whole > 0.0 ? 1.0 - running.left / running.whole : 1.0;
    return num_gathered(place) < std::min(static_cast<int>(all * done + 1e-9) + 1, all);
  }

  [[nodiscard]] bool has_inputs(Place place) const {
    const Action& action = at(place);
    const int rank = place.rank;
    const int last = num_stages(schedule_) - 1;
    const std::vector<Action>& order = schedule_.orders[rank];
    switch (action.kind) {
      case ActionKind::kForward: {
        const bool is_second = place.position > 0 && order[place.position - 1].overlaps_next;
        const int needed = action.overlaps_next || is_second ? num_gathers(place) : 1;
        if (num_gathered(place) < std::min(needed, num_gathers(place))) {
          return false;
        }
        return action.stage == 0 ||
               has_run(rank, ActionKind::kReceiveForward, action.stage, action.microbatch) ||
               has_run(rank, ActionKind::kCopyForward, action.stage, action.microbatch);
      }
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
        return action.stage == last
                   ? has_run(rank, ActionKind::kForward, last, action.microbatch)
                   : has_run(rank, ActionKind::kReceiveBackward, action.stage, action.microbatch) ||
                         has_run(rank, ActionKind::kCopyBackward, action.stage, action.microbatch);
      case ActionKind::kSendForward:
        return has_run(rank, ActionKind::kForward, action.stage, action.microbatch);
      case ActionKind::kCopyForward:
        return has_run(rank, ActionKind::kForward, action.stage - 1, action.microbatch);
      case ActionKind::kSendBackward:
        return has_input_gradient(rank, action.stage, action.microbatch);
      case ActionKind::kCopyBackward:
        return has_input_gradient(rank, action.stage + 1, action.microbatch);
      case ActionKind::kReduceGradients:
        return share_of_last_weight_gradient(rank, action.stage) >=
               static_cast<double>(action.microbatch + 1) / num_buckets(rank, action.stage) - 1e-12;
      case ActionKind::kReduceTied:
      case ActionKind::kReduceNorm:
      case ActionKind::kOptimizer:
        return is_drained(place);
      default:
        return true;
    }
  }

  [[nodiscard]] int num_buckets(int rank, int stage) const {
    const std::vector<Action>& order = schedule_.orders[rank];
    return static_cast<int>(std::count_if(order.begin(), order.end(), [&](const Action& action) {
      return action.kind == ActionKind::kReduceGradients && action.stage == stage;
    }));
  }

  /// Returns the share that has run of the stage's last weight gradient on a rank, from 0 to 1.
  [[nodiscard]] double share_of_last_weight_gradient(int rank, int stage) const {
    const std::vector<Action>& order = schedule_.orders[rank];
    std::size_t last = order.size();
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i].stage == stage && (order[i].kind == ActionKind::kBackward ||
                                      order[i].kind == ActionKind::kWeightGradient)) {
        last = i;
      }
    }
    const Action& action = order[last];
    if (has_run(rank, action.kind, stage, action.microbatch)) {
      return 1.0;
    }
    for (const Running& other : running_) {
      const Place first = other.places.front();
      const bool is_it =
          first.rank == rank &&
          (first.position == last || (at(first).overlaps_next && first.position + 1 == last));
      if (is_it) {
        return other.whole > 0.0 ? 1.0 - other.left / other.whole : 0.0;
      }
    }
    return 0.0;
  }

  /// Starts the first action that can start; returns false if none can.
  bool start_one() {
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      for (const std::vector<std::size_t>& queue : lanes_[rank]) {
        if (!queue.empty() && start({rank, queue.back()})) {
          return true;
        }
      }
    }
    return false;
  }

  bool start(Place place) {
    const Action& action = at(place);
    if (!is_head(place) || !has_inputs(place)) {
      return false;
    }
    Running running{.places = {place}, .start = now_};
    switch (action.kind) {
      case ActionKind::kSendForward:
      case ActionKind::kSendBackward:
        return start_message(place, running);
      case ActionKind::kReceiveForward:
      case ActionKind::kReceiveBackward:
        return false;  // with its send
      case ActionKind::kReduceGradients:
      case ActionKind::kGatherParameters: {
        const TransferTime& time =
            (action.kind == ActionKind::kReduceGradients ? times_.reductions : times_.gathers)[0];
        running.latency = time.latency.value();
        running.left = time.transfer.value();
        running.links = {link(place.rank, times_.data_is_across_nodes, 0),
                         link(place.rank, times_.data_is_across_nodes, 1)};
        break;
      }
      case ActionKind::kReduceTied:
        running.left = (times_.tied.latency + times_.tied.transfer).value();
        return start_together(running, ActionKind::kReduceTied);
      case ActionKind::kReduceNorm:
        running.left = times_.norm.value();
        return start_together(running, ActionKind::kReduceNorm);
      case ActionKind::kOptimizer:
        running.left = times_.optimizer[0].value();
        break;
      case ActionKind::kCopyForward:
      case ActionKind::kCopyBackward:
        break;
      default:
        running.left = durations_.compute(action, place.rank, place.position).value();
        if (action.overlaps_next) {
          const Place second{place.rank, place.position + 1};
          if (!has_inputs(second)) {
            return false;
          }
          running.places.push_back(second);
          running.left += durations_.compute(at(second), second.rank, second.position).value();
        }
    }
    add(running);
    return true;
  }

  void add(Running running) {
    running.whole = running.left;
    running_.push_back(running);
  }

  [[nodiscard]] static int link(int rank, bool is_across, int way) {
    return 4 * rank + (is_across ? 2 : 0) + way;
  }

  bool start_message(Place send, Running running) {
    const bool is_forward = at(send).kind == ActionKind::kSendForward;
    const int to = at(send).stage + (is_forward ? 1 : -1);
    const Action receive{is_forward ? ActionKind::kReceiveForward : ActionKind::kReceiveBackward,
                         to, at(send).microbatch};
    const int receiver = rank_of(schedule_, to, receive.microbatch);
    const std::vector<Action>& order = schedule_.orders[receiver];
    const auto found = std::find(order.begin(), order.end(), receive);
    const Place other{receiver, static_cast<std::size_t>(found - order.begin())};
    if (found == order.end()) {
      return false;
    }
    const bool is_across =
        !times_.node_of.empty() && times_.node_of[send.rank] != times_.node_of[receiver];
    const TransferTime& time = is_across ? times_.across_nodes : times_.within_node;
    running.places.push_back(other);
    running.latency = time.latency.value();
    running.left = time.transfer.value();
    running.links = {link(send.rank, is_across, 0), link(receiver, is_across, 1)};
    add(running);
    return true;
  }

  bool start_together(Running running, ActionKind kind) {
    running.places.clear();
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      const std::vector<Action>& order = schedule_.orders[rank];
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (order[i].kind == kind) {
          if (!is_head({rank, i}) || !is_drained({rank, i})) {
            return false;
          }
          running.places.push_back({rank, i});
        }
      }
    }
    add(running);
    return true;
  }

  /// Sets all rates. The rates of transfers rise together, and those on a full link stop rising.
  void set_rates() {
    std::map<int, double> load;
    std::set<Running*> rising;
    for (Running& running : running_) {
      running.rate = 1.0;
      if (is_compute(at(running.places.front()).kind)) {
        const int rank = running.places.front().rank;
        const bool is_slowed =
            std::any_of(running_.begin(), running_.end(), [&](const Running& other) {
              return other.places.front().rank == rank &&
                     lane_of(at(other.places.front()).kind, times_.messages, times_.data) ==
                         Lane::kData;
            });
        running.rate = is_stalled(running) ? 0.0 : is_slowed ? 1.0 - times_.overlap_slowdown : 1.0;
      } else if (times_.shares_links && running.latency <= 0.0 && !running.links.empty()) {
        running.rate = 0.0;
        rising.insert(&running);
      }
    }
    while (!rising.empty()) {
      std::map<int, int> count;
      for (const Running* running : rising) {
        for (const int link : running->links) {
          ++count[link];
        }
      }
      double step = 1.0;
      for (const auto& [link, flows] : count) {
        step = std::min(step, (1.0 - load[link]) / flows);
      }
      for (Running* running : rising) {
        running->rate += step;
      }
      for (const auto& [link, flows] : count) {
        load[link] += step * flows;
      }
      std::erase_if(rising, [&](const Running* running) {
        return std::any_of(running->links.begin(), running->links.end(),
                           [&](int link) { return load[link] > 1.0 - 1e-12; });
      });
    }
  }

  /// Whether compute is done although a collective slows it to rate 0.
  bool has_nothing_left(const Running& running) const {
    return is_compute(at(running.places.front()).kind) && !is_stalled(running) &&
           running.left <= 1e-12 * running.whole;
  }

  /// Advances the time to the next end of an action or latency. A share of a weight gradient at
  /// which a bucket is ready also counts.
  void pass_time() {
    double step = std::numeric_limits<double>::infinity();
    for (const Running& running : running_) {
      if (running.latency > 0.0) {
        step = std::min(step, running.latency);
        continue;
      }
      if (running.rate == 0.0) {
        step = has_nothing_left(running) ? 0.0 : step;
        continue;
      }
      for (int part = 0; part < kParts; ++part) {
        const double rest = running.left - running.whole * part / kParts;
        if (rest > 1e-12 * running.whole || part == 0) {
          step = std::min(step, std::max(rest, 0.0) / running.rate);
        }
      }
    }
    now_ += step;
    for (Running& running : running_) {
      if (running.latency > 0.0) {
        running.latency = running.latency <= step * (1.0 + 1e-12) ? 0.0 : running.latency - step;
      } else {
        running.left -= step * running.rate;
      }
    }
    std::vector<Running> ended;
    std::erase_if(running_, [&](const Running& running) {
      const bool has_ended =
          running.latency <= 0.0 &&
          (running.rate > 0.0 ? running.left <= 1e-12 * running.whole : has_nothing_left(running));
      if (has_ended) {
        ended.push_back(running);
      }
      return has_ended;
    });
    for (const Running& running : ended) {
      end(running);
    }
  }

  void end(const Running& running) {
    for (const Place place : running.places) {
      spans_[place.rank][place.position] = {Seconds(running.start), Seconds(now_)};
      const Action& action = at(place);
      done_.insert({place.rank, action.kind, action.stage, action.microbatch});
      std::vector<std::size_t>& queue = lane(place.rank, place.position);
      if (!queue.empty() && queue.back() == place.position) {
        queue.pop_back();
      }
    }
  }

  /// Steps of a weight gradient: a multiple of every number of buckets up to 4.
  static constexpr int kParts = 12;

  const Schedule& schedule_;
  const StepTimes& times_;
  ActionDurations durations_;
  double now_ = 0.0;
  std::vector<std::array<std::vector<std::size_t>, kNumLanes>> lanes_;
  std::vector<std::vector<Span>> spans_;
  std::vector<Running> running_;
  std::set<std::tuple<int, ActionKind, int, int>> done_;
};

}  // namespace ptdp
