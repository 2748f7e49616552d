#include "cost_model/simulation/analysis/critical_path.h"

#include <algorithm>
#include <optional>

#include "cost_model/simulation/analysis/action_index.h"
#include "cost_model/simulation/engine/action_durations.h"

namespace ptdp {
namespace {

constexpr double kPathRounding = 1e-9;

/// Something that an action needs, and when it was there.
struct Need {
  Place place;
  Seconds there;
};

PathTerm term_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return PathTerm::kForward;
    case ActionKind::kBackward:
      return PathTerm::kBackward;
    case ActionKind::kInputGradient:
      return PathTerm::kInputGradient;
    case ActionKind::kWeightGradient:
      return PathTerm::kWeightGradient;
    case ActionKind::kRecompute:
      return PathTerm::kRecompute;
    case ActionKind::kSendForward:
    case ActionKind::kReceiveForward:
    case ActionKind::kSendBackward:
    case ActionKind::kReceiveBackward:
    case ActionKind::kCopyForward:
    case ActionKind::kCopyBackward:
      return PathTerm::kMessageTransfer;
    case ActionKind::kReduceGradients:
      return PathTerm::kReductions;
    case ActionKind::kGatherParameters:
      return PathTerm::kGathers;
    case ActionKind::kReduceTied:
      return PathTerm::kTied;
    case ActionKind::kReduceNorm:
      return PathTerm::kNorm;
    case ActionKind::kOptimizer:
      return PathTerm::kOptimizer;
  }
  return PathTerm::kWaiting;
}

class PathWalk {
 public:
  PathWalk(const Schedule& schedule, const StepTimes& times, const Timeline& timeline)
      : schedule_(schedule),
        timeline_(timeline),
        layout_(schedule),
        durations_(schedule, times),
        index_(schedule, layout_, times.messages, times.data),
        is_implied_(implies_messages(schedule)),
        overlap_slowdown_(times.overlap_slowdown) {
    path_.compute.resize(schedule.orders.size());
  }

  CriticalPath run() {
    std::optional<Need> next = last_action();
    while (next) {
      const Place place = next->place;
      const Seconds start = start_of(place);
      take(place, {start, next->there});
      next = latest_need(place);
      add(PathTerm::kWaiting, next ? start - next->there : start);
      if (next && is_implied_message(place, *next)) {
        // What the action waited for was the message; the action that made it ended earlier.
        const Seconds made = span(next->place).end;
        add_message(next->place.rank, place.rank, next->there - made);
        next->there = made;
      }
    }
    std::reverse(path_.steps.begin(), path_.steps.end());
    return std::move(path_);
  }

 private:
  [[nodiscard]] const Action& at(Place place) const {
    return schedule_.orders[place.rank][place.position];
  }
  [[nodiscard]] const Span& span(Place place) const {
    return timeline_.spans[place.rank][place.position];
  }

  [[nodiscard]] std::optional<Need> last_action() const {
    std::optional<Need> last;
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      for (std::size_t i = 0; i < timeline_.spans[rank].size(); ++i) {
        const Seconds end = timeline_.spans[rank][i].end;
        const bool has_turn = occupies_lane(schedule_.orders[rank][i].kind);
        if (has_turn && (!last || end > last->there)) {
          last = {index_.first_of_pair({rank, i}), end};
        }
      }
    }
    return last;
  }

  void add(PathTerm term, Seconds time) { path_.terms[static_cast<std::size_t>(term)] += time; }

  void add_message(int from, int to, Seconds time) {
    const Seconds latency = std::min(durations_.message(from, to).latency, time);
    add(PathTerm::kMessageLatency, latency);
    add(PathTerm::kMessageTransfer, time - latency);
  }

  /// Puts a part of an action on the path.
  void take(Place place, Span part) {
    const Action& action = at(place);
    const Seconds time = part.end - part.start;
    path_.steps.push_back({place.rank, place.position, part.start, part.end});
    if (is_message(action.kind)) {
      const std::optional<Place> other = index_.other_side(place);
      add_message(place.rank, other ? other->rank : place.rank, time);
      return;
    }
    double share = 1.0;
    if (action.overlaps_next) {
      const Place second{place.rank, place.position + 1};
      const Seconds own = durations_.compute(action, place.rank, place.position);
      const Seconds both = own + durations_.compute(at(second), second.rank, second.position);
      share = both > Seconds(0.0) ? own / both : 1.0;
      add(term_of(at(second).kind), time * (1.0 - share));
    }
    add(term_of(action.kind), time * share);
    if (is_compute(action.kind)) {
      path_.compute[place.rank] += time;
    }
  }

  [[nodiscard]] bool is_implied_message(Place place, const Need& need) const {
    return is_implied_ && need.place.rank != place.rank && is_compute(at(place).kind);
  }

  /// Returns from when on nothing held an action up. A forward pass may have waited for parameters
  /// on its way.
  [[nodiscard]] Seconds start_of(Place place) const {
    const Seconds start = span(place).start;
    const bool may_wait = at(place).kind == ActionKind::kForward && !at(place).overlaps_next;
    const std::optional<Place> gather = may_wait ? index_.last_gather(place) : std::nullopt;
    if (!gather || span(*gather).end <= start) {
      return start;
    }
    // A forward pass that does not wait takes no longer than one that collectives slow down all the
    // way.
    const Seconds unhindered = durations_.compute(at(place), place.rank, place.position);
    const Seconds length = (span(place).end - start) * (1.0 - overlap_slowdown_);
    const bool has_waited = length > unhindered * (1.0 + kPathRounding);
    return has_waited ? std::min(span(*gather).end, span(place).end) : start;
  }

  /// Keeps the need that was there last, and of equals the first.
  static void consider(std::optional<Need>& latest, std::optional<Need> need) {
    if (need && (!latest || need->there > latest->there)) {
      latest = need;
    }
  }
  [[nodiscard]] std::optional<Need> end_of(std::optional<Place> place) const {
    return place ? std::optional(Need{*place, span(*place).end}) : std::nullopt;
  }

  [[nodiscard]] std::optional<Need> latest_need(Place place) const {
    const Action& action = at(place);
    std::optional<Need> latest = end_of(index_.before_on_lane(place));
    switch (action.kind) {
      case ActionKind::kForward:
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
      case ActionKind::kWeightGradient:
      case ActionKind::kRecompute:
        consider(latest, latest_input(place));
        if (action.overlaps_next) {
          consider(latest, latest_input({place.rank, place.position + 1}));
        }
        break;
      case ActionKind::kSendForward:
      case ActionKind::kSendBackward:
      case ActionKind::kCopyForward:
      case ActionKind::kCopyBackward:
        consider(latest, end_of(index_.input(place)));
        break;
      case ActionKind::kReduceGradients:
        // Whatever its lane does not explain, the weight gradient does: it had run as far as was
        // needed at that very moment, at whatever rate.
        if (!latest || latest->there < span(place).start) {
          if (const std::optional<Place> gradient = index_.last_weight_gradient(place)) {
            latest = {*gradient, std::min(span(place).start, span(*gradient).end)};
          }
        }
        break;
      case ActionKind::kReduceTied:
      case ActionKind::kReduceNorm:
        consider_meeting(latest, place);
        break;
      case ActionKind::kOptimizer:
        consider(latest, end_of(index_.before_on_data_lane(place)));
        break;
      case ActionKind::kGatherParameters:
      case ActionKind::kReceiveForward:  // its send stands for it
      case ActionKind::kReceiveBackward:
        break;
    }
    return latest;
  }

  /// Returns the latest of the inputs of an action that computes; nullopt if it needs none.
  [[nodiscard]] std::optional<Need> latest_input(Place place) const {
    std::optional<Need> latest = end_of(sender_of(index_.input(place)));
    if (latest && is_implied_message(place, *latest)) {
      const TransferTime& message = durations_.message(latest->place.rank, place.rank);
      latest->there += message.total();
    }
    if (at(place).kind == ActionKind::kForward) {
      consider_gathers(latest, place);
    }
    return latest;
  }

  /// Considers the last gather that was there when nothing held the forward pass up any more.
  void consider_gathers(std::optional<Need>& latest, Place place) const {
    const Seconds start = start_of(place);
    std::optional<Place> gather = index_.last_gather(place);
    while (gather && span(*gather).end > start) {
      gather = index_.before_on_data_lane(*gather);
    }
    consider(latest, end_of(gather));
  }

  /// Returns the send of a receive, which has the same span; any other place as it is.
  [[nodiscard]] std::optional<Place> sender_of(std::optional<Place> place) const {
    return place && !occupies_lane(at(*place).kind) ? index_.other_side(*place) : place;
  }

  /// Considers what stands before the action on every rank that does it together with this one.
  void consider_meeting(std::optional<Need>& latest, Place place) const {
    const ActionKind kind = at(place).kind;
    const bool is_alone = durations_.ranks_that_meet(2) == 1;
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      if (is_alone && rank != place.rank) {
        continue;
      }
      const std::vector<Action>& order = schedule_.orders[rank];
      for (std::size_t i = order.size(); i-- > 0;) {
        if (order[i].kind == kind) {
          consider(latest, end_of(index_.before_on_lane({rank, i})));
          consider(latest, end_of(index_.before_on_data_lane({rank, i})));
          break;
        }
      }
    }
  }

  const Schedule& schedule_;
  const Timeline& timeline_;
  StepLayout layout_;
  ActionDurations durations_;
  ActionIndex index_;
  bool is_implied_;
  double overlap_slowdown_;
  CriticalPath path_;
};

}  // namespace

CriticalPath critical_path(const Schedule& schedule, const StepTimes& times,
                           const Timeline& timeline) {
  return PathWalk(schedule, times, timeline).run();
}

std::vector<double> slowdown_elasticities(const CriticalPath& path) {
  Seconds makespan;
  for (const Seconds term : path.terms) {
    makespan += term;
  }
  std::vector<double> shares;
  shares.reserve(path.compute.size());
  for (const Seconds compute : path.compute) {
    shares.push_back(makespan > Seconds(0.0) ? compute / makespan : 0.0);
  }
  return shares;
}

}  // namespace ptdp
