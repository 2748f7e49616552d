// A clock for things that go on at rates which change.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "cost_model/simulation/engine/event_queue.h"
#include "cost_model/simulation/engine/fair_share.h"

namespace ptdp {

/// A clock for a fixed number of activities, each with an id and one next event: its end, a stop
/// before that, or an alarm. Times are in seconds; a duration is what an activity takes at rate 1.
class ActivityClock {
 public:
  ActivityClock(int num_activities, int num_links)
      : activities_(num_activities), events_(num_activities), shares_(num_activities, num_links) {}

  /// Returns the time of the last event [s].
  [[nodiscard]] double now() const { return now_; }

  /// Goes on to the next event and returns its activity; nullopt if there will be none. That
  /// activity must be started again, given another stop or put to rest before the next call.
  std::optional<int> next();

  /// Starts an activity; its next event is its end.
  void start(int id, double duration, double rate = 1.0) {
    activities_[id] = {
        .duration = duration, .left = duration, .stop = 0.0, .updated = now_, .rate = rate};
    plan(id);
  }
  /// Starts a transfer over two links. It gets its share of them once all events of this moment
  /// have been dealt with.
  void start_flow(int id, double duration, std::array<int, 2> links) {
    start(id, duration, 0.0);
    shares_.start(id, links);
  }
  /// Takes a transfer off its links.
  void stop_flow(int id) { shares_.stop(id); }

  /// Changes the rate of an activity that goes on.
  void set_rate(int id, double rate) {
    Activity& activity = activities_[id];
    if (activity.rate != rate) {
      activity.left -= (now_ - activity.updated) * activity.rate;
      activity.updated = now_;
      activity.rate = rate;
      plan(id);
    }
  }
  /// Makes the next event of an activity come when `left` of its duration is left.
  void stop_at(int id, double left) {
    activities_[id].stop = left;
    plan(id);
  }
  /// Returns what is left of an activity at its stop. To be called at the stop, which is then
  /// exactly where the activity is.
  double reach_stop(int id) {
    Activity& activity = activities_[id];
    activity.left = activity.stop;
    activity.updated = now_;
    return activity.left;
  }
  /// Returns the duration with which an activity was started [s].
  [[nodiscard]] double duration(int id) const { return activities_[id].duration; }

  /// Sets the next event of an activity to `time`, whatever goes on; EventQueue::kNever for none.
  void set_alarm(int id, double time) { events_.set(id, time); }
  /// Leaves an activity without a next event.
  void rest(int id) { events_.set(id, EventQueue::kNever); }

 private:
  struct Activity {
    double duration = 0.0;
    double left = 0.0;  ///< Duration that was left at `updated` [s].
    double stop = 0.0;  ///< Duration that is left at the next event [s].
    double updated = 0.0;
    double rate = 1.0;
  };

  void plan(int id) {
    const Activity& activity = activities_[id];
    const double rest = activity.left - activity.stop;
    // What rounding leaves of an activity must not wait for ever if its rate has just become 0.
    if (rest <= kRounding * activity.duration) {
      events_.set(id, now_);
    } else {
      events_.set(
          id, activity.rate > 0.0 ? activity.updated + rest / activity.rate : EventQueue::kNever);
    }
  }

  static constexpr double kRounding = 1e-12;

  double now_ = 0.0;
  std::vector<Activity> activities_;
  EventQueue events_;
  FairShare shares_;
};

inline std::optional<int> ActivityClock::next() {
  if (events_.next_time() != now_) {
    for (const int id : shares_.update()) {
      set_rate(id, shares_.rate(id));
    }
    if (events_.next_time() == EventQueue::kNever) {
      return std::nullopt;
    }
    now_ = events_.next_time();
  }
  return events_.next();
}

}  // namespace ptdp
