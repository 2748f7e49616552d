// A log of what every rank does and did last. The rank's threads write it; any thread may read it
// at any time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost_model/schedule/lane.h"
#include "cost_model/units.h"

namespace ptdp {

/// Phases of a rank outside the actions of its schedule.
enum class Phase : std::uint8_t {
  kStarting,
  kRestoring,
  kSaving,
  kBetweenSteps,
  kExporting,
  kDone
};

/// An action or a phase of a rank. Times [ns] are of the steady clock.
struct Activity {
  std::optional<Action> action;
  Phase phase = Phase::kStarting;  ///< The phase, when there is no action.
  std::int64_t step = 0;           ///< Step of the training, from 0.
  std::int64_t start = 0;
  std::int64_t end = 0;  ///< End [ns]; 0 while the activity lasts.
  /// Time [ns] within the activity that was spent waiting for other ranks.
  std::int64_t waited = 0;
};

/// Returns the place of an activity for people: "2F0 of step 4", with steps counted from 1, or "the
/// checkpoint before step 4".
[[nodiscard]] std::string place_of(const Activity& activity);

/// Writes what the calling thread began last, as "rank 3: 2F0 of step 4: ", as far as it fits.
/// Returns the length written; 0 outside any activity. Takes no lock and no memory, so a signal
/// handler may call it.
[[nodiscard]] std::size_t write_place_of_thread(std::span<char> to);

/// What a lane of a rank is in at one moment.
struct LaneState {
  std::int64_t events = 0;  ///< Counter that grows whenever something begins or ends.
  bool is_active = false;   ///< Whether the lane is in an activity, namely `now`.
  Activity now;
  /// Time [ns] since which the lane waits for other ranks; 0 when it works.
  std::int64_t waits_since = 0;

  /// Returns whether the lane is in an activity and does not wait.
  [[nodiscard]] bool is_working() const { return is_active && waits_since == 0; }
};

/// A log of the activities of this process's ranks. Each lane of a rank is written by one thread
/// and shares nothing with other lanes. So an action costs two looks at the clock and some stores.
class ActionLog {
 public:
  /// Number of ended activities that a lane keeps.
  static constexpr std::int64_t kKept = 32;

  /// Makes a log for ranks first_rank … first_rank + num_ranks − 1 of the world.
  ActionLog(int first_rank, int num_ranks);

  [[nodiscard]] int first_rank() const { return first_rank_; }
  [[nodiscard]] int num_ranks() const { return num_ranks_; }

  // Called by the thread of the lane. `rank` is a rank of the world.

  /// Notes that an action begins on a lane. It ends the phase before.
  void begin(int rank, Lane lane, std::int64_t step, const Action& action);
  /// Notes that the action of the lane ended.
  void end(int rank, Lane lane);
  /// Notes that a rank enters a phase, on its compute lane. It ends the phase before.
  void enter(int rank, Phase phase, std::int64_t step);
  /// Notes that the calling thread begins to wait for other ranks or lanes. The wait counts for the
  /// lane whose action or phase the thread began last.
  void wait_begins();
  /// Notes that the calling thread no longer waits.
  void wait_ends();
  /// A wait for other ranks or lanes that lasts as long as this object. A wait that an exception
  /// ends stays in the log.
  class Wait {
   public:
    explicit Wait(ActionLog& log);
    Wait(const Wait&) = delete;
    Wait& operator=(const Wait&) = delete;
    Wait(Wait&&) = delete;
    Wait& operator=(Wait&&) = delete;
    ~Wait();

   private:
    ActionLog& log_;
    int exceptions_;  ///< Exceptions in flight when the wait began.
  };

  // Called by any thread.

  /// Returns what a lane is in.
  [[nodiscard]] LaneState state(int rank, Lane lane) const;
  /// Returns the sum of the event counters of all lanes of a rank.
  [[nodiscard]] std::int64_t events(int rank) const;
  /// Returns the last activities that ended on a lane, oldest first; kKept at most.
  [[nodiscard]] std::vector<Activity> last(int rank, Lane lane) const;
  /// Returns the longest time that an action of this kind took so far, without its waits; 0 when
  /// none ended.
  [[nodiscard]] Seconds longest(ActionKind kind) const;

 private:
  /// An activity in atomics, so that other threads may read it while it is written.
  struct Entry {
    std::atomic<std::uint64_t> what = 0;
    std::atomic<std::int64_t> step = 0;
    std::atomic<std::int64_t> start = 0;
    std::atomic<std::int64_t> end = 0;
    std::atomic<std::int64_t> waited = 0;
  };
  /// The log of one lane, written by one thread. `events` is odd while the thread writes.
  struct alignas(64) LaneLog {
    std::atomic<std::int64_t> events = 0;
    Entry now;  ///< The activity of the lane; `what` is 0 when it is in none.
    std::atomic<std::int64_t> waits_since = 0;
    int waits = 0;  ///< Waits that lie within one another; only the writing thread knows.
    std::atomic<std::int64_t> num_ended = 0;
    std::array<Entry, kKept> ended;
    std::array<std::atomic<std::int64_t>, kNumActionKinds> longest = {};

    void begin(std::uint64_t what, std::int64_t step);
    void end();
    void wait_begins();
    void wait_ends();
    template <class Read>
    void read_whole(const Read& read) const;
  };

  [[nodiscard]] LaneLog& lane_log(int rank, Lane lane);
  [[nodiscard]] const LaneLog& lane_log(int rank, Lane lane) const;
  [[nodiscard]] static Activity activity_of_entry(const Entry& entry);

  int first_rank_;
  int num_ranks_;
  std::deque<LaneLog> lanes_;  ///< Logs of lanes, [rank][lane]. They never move.
};

/// Returns a line for each lane that is in something or has ended something: what it is in, since
/// when, and the last `most_ended` that ended. Lanes that work come first, then those that wait
/// longest. Lists at most `most_lines` lines, and says how many are left out.
[[nodiscard]] std::string describe_actions(const ActionLog& log, std::size_t most_lines,
                                           std::size_t most_ended);

}  // namespace ptdp
