// Ends a run when a rank hangs, fails or is interrupted.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cost_model/error.h"
#include "runtime/faults/action_log.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// How long an action or phase may take. Deadlines are far beyond predictions: a machine that is
/// busy otherwise, or a processor that throttles, must not end a run.
struct DeadlineRule {
  bool is_on = true;  ///< Whether there are deadlines at all.
  /// Deadline of every action. Without it, the deadline follows from `least`, `factor` and
  /// `unknown`.
  std::optional<Seconds> fixed;
  /// Shortest deadline of an action, unless it is fixed.
  Seconds least{10.0};
  double factor = 20.0;  ///< Deadline as a multiple of the longest time predicted or seen.
  /// Deadline of an action without a known time. It is also the deadline of phases, unless `fixed`
  /// is set.
  Seconds unknown{300.0};
  /// Shortest deadline of a phase when `fixed` is set. Launchers start processes one after the
  /// other.
  Seconds least_of_phase{8.0};
  /// Whether the first action of a kind has at least the deadline of an unknown one. A device's
  /// libraries are loaded and tried out in it.
  bool prepares_in_first = false;
  /// Predicted times by kind and virtual stage.
  std::map<std::pair<ActionKind, int>, Seconds> predicted = {};
};
/// Parses a rule: "auto", "off" or a number of seconds. Returns nullopt for other text.
[[nodiscard]] std::optional<DeadlineRule> parse_deadline_rule(std::string_view text);
/// Returns how long a phase may take: start, meeting, checkpoint, end. Returns nullopt for no
/// limit.
[[nodiscard]] std::optional<Seconds> phase_deadline(const DeadlineRule& rule);
/// Returns the deadline of an activity. `longest` is the longest time that an action of its kind
/// took so far, 0 when none ended.
[[nodiscard]] Seconds deadline_of(const DeadlineRule& rule, const Activity& activity,
                                  Seconds longest);

/// What a lane of some rank of the world is in.
struct RankActivity {
  int rank = 0;
  Lane lane = Lane::kCompute;
  LaneState state;
  Seconds longest;  ///< Longest time that an action of the current kind took so far.
};

/// The cause that ended a run.
struct RunFault {
  int rank = -1;      ///< The rank at fault; −1 for none.
  std::string place;  ///< Place in the schedule, as "2F0 of step 4".
  /// What happened, for people.
  std::string what;
  ExitStatus status = ExitStatus::kRuntimeFault;
  int signal = 0;                  ///< Signal that ended the rank's process, or 0.
  bool is_told_elsewhere = false;  ///< Whether another process found the fault, and reports it.
};
/// Returns the fault for people, as "rank 3: 2F0 of step 4: what".
[[nodiscard]] std::string to_string(const RunFault& fault);

/// Tells a world that stands still from one that is slow. A world stands still when nothing began
/// or ended on any rank for longer than limit().
class StallDetector {
 public:
  explicit StallDetector(DeadlineRule rule) : rule_(std::move(rule)) {}

  /// Returns the fault of the rank that the others wait for, if the world stands still. A rank that
  /// works is preferred to one that waits, then the one that does so longest. `now` [ns] is on the
  /// clock of the states. Time in which nobody looked does not count, since then this process
  /// itself was stopped.
  [[nodiscard]] std::optional<RunFault> look(std::int64_t now, std::span<const RankActivity> world);
  /// Notes that something began or ended at time `now` [ns].
  void note_progress(std::int64_t now);
  /// Returns the longest deadline of the activities under way: of those that work, if any does,
  /// else of those that wait.
  [[nodiscard]] Seconds limit(std::span<const RankActivity> world) const;

 private:
  DeadlineRule rule_;
  std::int64_t last_look_ = 0;
  std::int64_t last_progress_ = 0;
  std::int64_t events_ = -1;
};

/// Returns what the lanes of this process's ranks are in.
[[nodiscard]] std::vector<RankActivity> activities_of(const ActionLog& log);

/// What the watchdog asks and calls. Its own thread makes all calls but those of `spread`.
struct WatchdogOptions {
  DeadlineRule deadlines;
  /// A signal that asks to end at once, or 0. A fault of another process takes precedence.
  const std::atomic<int>* interrupt = nullptr;
  /// Returns a fault that another process told of, if there is one.
  std::function<std::optional<RunFault>()> remote_fault;
  /// Returns what the ranks of other processes are in.
  std::function<std::vector<RankActivity>()> remote_activities;
  /// Tells other processes of a fault found here. The thread that reports the fault calls it.
  std::function<void(const RunFault&)> spread;
  /// Called when ranks do not end within the grace after a fault or a signal.
  std::function<void()> give_up;
};

/// A thread that looks at the log every 20 ms and ends the run on a fault or a signal. Then every
/// rank must end: waits are aborted, and is_stopping() is true.
class Watchdog {
 public:
  /// Starts the thread. `log` must outlive the watchdog.
  Watchdog(const ActionLog& log, WatchdogOptions options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  Watchdog(Watchdog&&) = delete;
  Watchdog& operator=(Watchdog&&) = delete;
  ~Watchdog();

  /// Adds a communicator whose waits are aborted when the run must end, until remove().
  void add(Communicator& world);
  /// Removes a communicator that add() added.
  void remove(Communicator& world);
  /// Ends the run because of a fault, unless it ends already. A rank's thread calls it.
  void report(RunFault fault);
  /// Returns whether the run must end.
  [[nodiscard]] bool is_stopping() const noexcept {
    return is_stopping_.load(std::memory_order_relaxed);
  }
  /// Returns the first fault; nullopt without one or when a signal came first.
  [[nodiscard]] std::optional<RunFault> fault() const;
  /// Returns the signal that ended the run, or 0.
  [[nodiscard]] int interrupt() const;

 private:
  void watch();
  [[nodiscard]] bool try_to_look();
  void look(std::int64_t now);
  void look_after(std::int64_t now);
  void stop(std::optional<RunFault> fault, int signal, std::int64_t grace);
  [[nodiscard]] ExitStatus status() const;

  const ActionLog& log_;
  WatchdogOptions options_;
  StallDetector stalls_;
  std::atomic<bool> is_stopping_ = false;
  std::int64_t events_ = -1;  ///< Events of this process's ranks at the last look.
  /// Time of the interrupt [ns] on the steady clock; 0 without one.
  std::int64_t interrupted_at_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;
  std::vector<Communicator*> worlds_;
  std::optional<RunFault> fault_;
  int signal_ = 0;
  /// Time [ns] on the steady clock to leave without ranks that do not end; 0 when not yet set.
  std::int64_t give_up_at_ = 0;

  std::thread thread_;
};

}  // namespace ptdp
