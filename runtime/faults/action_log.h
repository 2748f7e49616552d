// What every rank does and did last: written by its threads, read by any thread at any time.
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

/// What a rank does outside the actions of its schedule.
enum class Phase : std::uint8_t { kStarting, kRestoring, kSaving, kBetweenSteps, kDone };

/// An action or a phase. Times [ns] are of the steady clock.
struct Activity {
  std::optional<Action> action;
  Phase phase = Phase::kStarting;  ///< Where there is no action.
  std::int64_t step = 0;           ///< Of the training, from 0.
  std::int64_t start = 0;
  std::int64_t end = 0;     ///< 0 while it lasts.
  std::int64_t waited = 0;  ///< [ns] of it for other ranks, by the end.
};

/// "2F0 of step 4" (steps are told from 1), "the checkpoint of step 4".
[[nodiscard]] std::string place_of(const Activity& activity);

/// Writes "rank 3: 2F0 of step 4: " of what the calling thread began last, as far as it fits, and
/// returns its length; 0 outside. Takes no lock and no memory: a handler of signals may call it.
[[nodiscard]] std::size_t write_place_of_thread(std::span<char> to);

/// What a lane of a rank is in.
struct LaneState {
  std::int64_t events = 0;  ///< Grows whenever something begins or ends.
  bool is_active = false;   ///< It is in `now`.
  Activity now;
  std::int64_t waits_since = 0;  ///< [ns] for other ranks; 0 where it works.

  [[nodiscard]] bool is_working() const { return is_active && waits_since == 0; }
};

/// Of the ranks of this process. A rank's lanes are written by a thread each and share nothing, so
/// that an action costs two looks at the clock and some stores.
class ActionLog {
 public:
  /// Activities that a lane keeps.
  static constexpr std::int64_t kKept = 32;

  ActionLog(int first_rank, int num_ranks);

  [[nodiscard]] int first_rank() const { return first_rank_; }
  [[nodiscard]] int num_ranks() const { return num_ranks_; }

  // --- by the thread of the lane; `rank` is one of the world's ---

  void begin(int rank, Lane lane, std::int64_t step, const Action& action);
  void end(int rank, Lane lane);
  /// On the lane that computes; ends the phase before it.
  void enter(int rank, Phase phase, std::int64_t step);
  /// The calling thread waits for other ranks or lanes, or no longer: on the lane whose action or
  /// phase it began last.
  void wait_begins();
  void wait_ends();
  /// Waits as long as it lives. A wait that an exception ends stays in the log.
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
    int exceptions_;  ///< Under way when it began.
  };

  // --- by any thread ---

  [[nodiscard]] LaneState state(int rank, Lane lane) const;
  /// Sum of the events of all lanes of a rank.
  [[nodiscard]] std::int64_t events(int rank) const;
  /// The last of what ended, oldest first.
  [[nodiscard]] std::vector<Activity> last(int rank, Lane lane) const;
  /// The longest that an action of this kind took so far, without its waits; 0 where none ended.
  [[nodiscard]] Seconds longest(ActionKind kind) const;

 private:
  struct Entry {
    std::atomic<std::uint64_t> what = 0;
    std::atomic<std::int64_t> step = 0;
    std::atomic<std::int64_t> start = 0;
    std::atomic<std::int64_t> end = 0;
    std::atomic<std::int64_t> waited = 0;
  };
  /// Written by one thread. `events` is odd while it is written to.
  struct alignas(64) LaneLog {
    std::atomic<std::int64_t> events = 0;
    Entry now;  ///< `what` is 0 where the lane is in nothing.
    std::atomic<std::int64_t> waits_since = 0;
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
  std::deque<LaneLog> lanes_;  ///< [rank][lane]; they do not move.
};

/// A line per rank (and lane that is in something): what it is in and since when, and the last that
/// ended. Those that work come first, then those that wait longest; at most `most_lines`, and how
/// many are left out. `most_ended`: of each lane.
[[nodiscard]] std::string describe_actions(const ActionLog& log, std::size_t most_lines,
                                           std::size_t most_ended);

}  // namespace ptdp
