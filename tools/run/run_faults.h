// What ptdp-run does when something goes wrong: deadlines, signals, the end before the last step.
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

/// What signals ask of a run. SIGINT and SIGTERM end it at once, the second one the process too;
/// SIGUSR1 ends it after its step.
struct RunSignals {
  const std::atomic<int>* interrupt = nullptr;  ///< The first of SIGINT and SIGTERM, or 0.
  const std::atomic<bool>* stop = nullptr;      ///< SIGUSR1 came.
};
/// From here on; also ignores SIGPIPE, so that a closed pipe is an error of a write.
[[nodiscard]] RunSignals catch_signals();

/// --deadline SECONDS, auto or off. Throws Error for anything else.
[[nodiscard]] DeadlineRule parse_deadline(const CommandLine& line);
/// What is predicted of actions, where something is.
void add_predicted(DeadlineRule& rule, const PreparedRun& run);

/// All --inject. Throws Error for what is no fault of an action that the run has.
[[nodiscard]] std::vector<InjectedFault> parse_faults(const CommandLine& line,
                                                      const PreparedRun& run);

/// Of a rank whose memory did not suffice: what was predicted of it by category, and what to do. A
/// line or more; empty where no memory lacked.
[[nodiscard]] std::string memory_advice(const EarlyEnd& end, const PreparedRun& run);

/// Guards a directory of checkpoints against a second run that saves into it, as long as it lives;
/// the lock of a process that is gone is none. Throws Error(kOutputFailed) where another holds it.
class SavingLock {
 public:
  explicit SavingLock(const std::filesystem::path& directory);

 private:
  Descriptor file_;
};

/// Refuses to save steps of a run that begins at `first_step` below later ones of another run,
/// which a later --resume would take instead. `resumed`: the directory that it goes on from, if
/// any.
void check_saved_steps(const std::filesystem::path& directory, std::int64_t first_step,
                       const std::filesystem::path& resumed);

}  // namespace ptdp
