// Ends a run of which a rank hangs, fails or is interrupted.
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

/// How long an action may take. A machine that is busy otherwise, or a processor that throttles,
/// must not end a run: a deadline is far beyond what is predicted.
struct DeadlineRule {
  bool is_on = true;
  std::optional<Seconds> fixed;  ///< Of every action; else by the terms below.
  Seconds least{10.0};
  double factor = 20.0;    ///< Times the longest of what is predicted and what was seen.
  Seconds unknown{300.0};  ///< Where neither is known, and of phases unless there is a fixed one,
  /// of which they have so much at least: a launcher starts processes one after the other.
  Seconds least_of_phase{8.0};
  /// Whether the first action of a kind has at least as long as an unknown one: a device's
  /// libraries are loaded and tried out in it.
  bool prepares_in_first = false;
  std::map<std::pair<ActionKind, int>, Seconds> predicted = {};  ///< By kind and stage.
};
/// The rule that "auto", "off" or a number of seconds stands for; none for any other text.
[[nodiscard]] std::optional<DeadlineRule> parse_deadline_rule(std::string_view text);
/// How long a phase may take: start, meeting, checkpoint, end. None: for ever.
[[nodiscard]] std::optional<Seconds> phase_deadline(const DeadlineRule& rule);
/// `longest`: that an action of the kind took so far, 0 where none ended.
[[nodiscard]] Seconds deadline_of(const DeadlineRule& rule, const Activity& activity,
                                  Seconds longest);

/// What a lane of some rank of the world is in.
struct RankActivity {
  int rank = 0;
  Lane lane = Lane::kCompute;
  LaneState state;
  Seconds longest;  ///< Of the kind that it is in.
};

/// What ended a run.
struct RunFault {
  int rank = -1;      ///< −1: of no rank.
  std::string place;  ///< "2F0 of step 4".
  std::string what;
  ExitStatus status = ExitStatus::kRuntimeFault;
  int signal = 0;                  ///< That ended the process of the rank, or 0.
  bool is_told_elsewhere = false;  ///< Another process found it, and says so.
};
/// "rank 3: 2F0 of step 4: what".
[[nodiscard]] std::string to_string(const RunFault& fault);

/// Tells a world that stands still from one that is slow: nothing began or ended on any rank for
/// longer than the deadline of the longest of what is under way.
class StallDetector {
 public:
  explicit StallDetector(DeadlineRule rule) : rule_(std::move(rule)) {}

  /// The rank that the others wait for, if the world stands still: one that works rather than
  /// waits, the one that does so longest. `now` [ns], on the clock of the states. Time in which
  /// nobody looked does not count: this process was stopped itself then.
  [[nodiscard]] std::optional<RunFault> look(std::int64_t now, std::span<const RankActivity> world);
  /// Something began or ended.
  void note_progress(std::int64_t now);
  /// Longest deadline of what is under way.
  [[nodiscard]] Seconds limit(std::span<const RankActivity> world) const;

 private:
  DeadlineRule rule_;
  std::int64_t last_look_ = 0;
  std::int64_t last_progress_ = 0;
  std::int64_t events_ = -1;
};

/// Of this process.
[[nodiscard]] std::vector<RankActivity> activities_of(const ActionLog& log);

/// What the watchdog asks and calls, all from its own thread.
struct WatchdogOptions {
  DeadlineRule deadlines;
  /// A signal to end at once, or 0; a fault of other processes comes before it.
  const std::atomic<int>* interrupt = nullptr;
  /// What other processes tell: a fault of theirs, if there is one; and what their ranks are in.
  std::function<std::optional<RunFault>()> remote_fault;
  std::function<std::vector<RankActivity>()> remote_activities;
  /// Tells other processes of a fault that was found here; of any thread.
  std::function<void(const RunFault&)> spread;
  /// Ranks do not end within the grace after a fault or a signal.
  std::function<void()> give_up;
};

/// A thread that looks every 20 ms. Once there is a fault or a signal every rank is to end: waits
/// are ended, and is_stopping() is true.
class Watchdog {
 public:
  /// `log` must outlive it.
  Watchdog(const ActionLog& log, WatchdogOptions options);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  Watchdog(Watchdog&&) = delete;
  Watchdog& operator=(Watchdog&&) = delete;
  ~Watchdog();

  /// A communicator whose waits are ended when the run is to end, from here to remove().
  void add(Communicator& world);
  void remove(Communicator& world);
  /// Of a rank's thread: ends the run, unless it ends already.
  void report(RunFault fault);
  [[nodiscard]] bool is_stopping() const noexcept {
    return is_stopping_.load(std::memory_order_relaxed);
  }
  /// The first one. None where a signal came first.
  [[nodiscard]] std::optional<RunFault> fault() const;
  /// The signal that ended the run, or 0.
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
  std::int64_t events_ = -1;         ///< At the last look.
  std::int64_t interrupted_at_ = 0;  ///< [ns] of the steady clock; 0: not interrupted.

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;
  std::vector<Communicator*> worlds_;
  std::optional<RunFault> fault_;
  int signal_ = 0;
  std::int64_t give_up_at_ = 0;  ///< [ns] of the steady clock; 0: not yet known.

  std::thread thread_;
};

}  // namespace ptdp
