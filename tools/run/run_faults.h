// What ptdp-run does when something goes wrong: deadlines, signals, and the end before the last
// step.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "cost_model/text/descriptor.h"
#include "runtime/faults/fault_injection.h"
#include "runtime/run/training_run.h"
#include "tools/run/run_plan.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// The signals that a run has received. The first SIGINT or SIGTERM ends the run at once, a second
/// one ends the process. SIGUSR1 ends the run after its current step.
struct RunSignals {
  /// Number of the first SIGINT or SIGTERM received, or 0.
  const std::atomic<int>* interrupt = nullptr;
  const std::atomic<bool>* stop = nullptr;  ///< Whether SIGUSR1 was received.
};
/// Catches SIGINT, SIGTERM and SIGUSR1 from the call on. Also ignores SIGPIPE, so that a closed
/// pipe becomes a write error.
[[nodiscard]] RunSignals catch_signals();

/// Returns the rule of --deadline, which is auto, off or a number of seconds. Throws Error for any
/// other value.
[[nodiscard]] DeadlineRule parse_deadline(const CommandLine& line);
/// Adds the predicted time of each action to an automatic rule. On GPUs also raises the least limit
/// to 20 times the step. Changes nothing for a fixed limit or none.
void add_predicted(DeadlineRule& rule, const PreparedRun& run);

/// Returns the faults that all --inject flags describe. Throws Error for a fault that cannot be
/// read or whose rank or action the run does not have.
[[nodiscard]] std::vector<InjectedFault> parse_faults(const CommandLine& line,
                                                      const PreparedRun& run);

/// Returns a message for a rank that ran out of memory: what it had allocated and what was
/// predicted, by category, and what to do. One or more lines; empty when no rank ran out of memory.
[[nodiscard]] std::string memory_advice(const EarlyEnd& end, const PreparedRun& run);

/// Locks a directory of checkpoints, for its lifetime, against a second run that saves into it. A
/// lock held by a dead process does not count. The constructor throws Error(kOutputFailed) when
/// another process holds the lock.
class SavingLock {
 public:
  explicit SavingLock(const std::filesystem::path& directory);

 private:
  Descriptor file_;
};

/// Throws Error if a run that begins at `first_step` would save below later steps of another run,
/// which a later --resume would pick instead. `resumed` is the directory that the run goes on from,
/// if any.
void check_saved_steps(const std::filesystem::path& directory, std::int64_t first_step,
                       const std::filesystem::path& resumed);

}  // namespace ptdp
