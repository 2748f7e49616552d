#include "tools/run/run_faults.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "cost_model/error.h"
#include "cost_model/memory/memory.h"
#include "cost_model/schedule/lane.h"
#include "cost_model/text/in_quotes.h"
#include "planner/formatting.h"
#include "planner/plan/plan_simulation.h"

namespace ptdp {
namespace {

constexpr Seconds kLongestUsualStep{15.0};  // of a step on a GPU, if it is not predicted

std::atomic<int> interrupt_signal = 0;
std::atomic<bool> stop_requested = false;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void interrupt(int signal) {
  interrupt_signal = signal;
  // The second signal, SIGINT or SIGTERM, ends the process at once.
  std::signal(SIGINT, end_by_signal);
  std::signal(SIGTERM, end_by_signal);
}

void stop_after_step(int /*signal*/) {
  stop_requested = true;
}

Bytes bytes_of_count(std::int64_t count) {
  return Bytes(static_cast<double>(count));
}

/// Returns what a rank that ran out of memory had allocated, by category. "The rest" comes and goes
/// within a step. Empty if the rank had not yet allocated weights.
std::string actual_by_category(const EarlyEnd& end) {
  const KeptMemory& kept = end.out_of_memory_kept;
  if (kept.weights == 0) {
    return "";
  }
  return fmt::format(": weights {}, gradients {}, optimizer {}, the rest {}",
                     bytes(bytes_of_count(kept.weights)), bytes(bytes_of_count(kept.gradients)),
                     bytes(bytes_of_count(kept.optimizer)),
                     bytes(bytes_of_count(end.out_of_memory_peak - kept.weights - kept.gradients -
                                          kept.optimizer)));
}

bool has_action(const Schedule& schedule, const InjectedFault& fault, int pipeline_rank) {
  const auto& order = schedule.orders[static_cast<std::size_t>(pipeline_rank)];
  return std::any_of(order.begin(), order.end(), [&](Action action) {
    action.overlaps_next = false;
    return fault.kind.value_or(action.kind) == action.kind &&
           fault.action.value_or(action) == action;
  });
}

}  // namespace

RunSignals catch_signals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGINT, interrupt);
  std::signal(SIGTERM, interrupt);
  std::signal(SIGUSR1, stop_after_step);
  return {.interrupt = &interrupt_signal, .stop = &stop_requested};
}

DeadlineRule parse_deadline(const CommandLine& line) {
  const std::string text = line.text("deadline").value_or("auto");
  if (const std::optional<DeadlineRule> rule = parse_deadline_rule(text)) {
    return *rule;
  }
  throw Error("--deadline: expected auto, off or seconds, got " + in_quotes(text));
}

void add_predicted(DeadlineRule& rule, const PreparedRun& run) {
  if (rule.fixed || !rule.is_on) {
    return;
  }
  if (run.device.is_gpu()) {
    rule.prepares_in_first = true;
    // Within one action a rank launches a whole step and then waits for all of it.
    const Seconds step =
        run.is_predicted ? run.executed.predicted.iteration_time.value : kLongestUsualStep;
    rule.least = std::max(rule.least, 20.0 * step);
  }
  if (!run.is_predicted) {
    return;
  }
  const PlanSimulation simulation = simulate_plan(run.executed, {});
  for (std::size_t rank = 0; rank < simulation.schedule.orders.size(); ++rank) {
    const std::vector<Action>& order = simulation.schedule.orders[rank];
    for (std::size_t i = 0; i < order.size(); ++i) {
      const Span& span = simulation.timeline.spans[rank][i];
      Seconds& longest = rule.predicted[{order[i].kind, order[i].stage}];
      longest = std::max(longest, span.length());
    }
  }
}

std::vector<InjectedFault> parse_faults(const CommandLine& line, const PreparedRun& run) {
  std::vector<InjectedFault> faults;
  const ParallelConfig& config = run.settings.config;
  for (const std::string& text : line.texts("inject")) {
    InjectedFault fault = parse_injected_fault(text, "--inject");
    if (fault.rank >= config.world_size()) {
      throw Error(fmt::format("--inject: expected a rank from 0 to {}, got {}",
                              config.world_size() - 1, fault.rank));
    }
    // Ranks are numbered tensor first, then data, then pipeline.
    if (!has_action(run.settings.schedule, fault, fault.rank / (config.tp * config.dp))) {
      throw Error(fmt::format("--inject: expected an action of rank {}, got {}", fault.rank,
                              in_quotes(text)));
    }
    faults.push_back(fault);
  }
  return faults;
}

std::string memory_advice(const EarlyEnd& end, const PreparedRun& run) {
  if (end.out_of_memory_rank < 0) {
    return "";
  }
  const ParallelConfig& config = run.settings.config;
  const int stage = end.out_of_memory_rank / (config.tp * config.dp);
  std::string text =
      fmt::format("rank {} had allocated {} at most{}", end.out_of_memory_rank,
                  bytes(bytes_of_count(end.out_of_memory_peak)), actual_by_category(end));
  if (run.is_predicted) {
    const MemoryBreakdown predicted = memory_by_rank(
        {run.executed.scenario, run.executed.config})[static_cast<std::size_t>(stage)];
    text += fmt::format("; predicted {}:", bytes(predicted.total() - predicted.reserve));
    for (const MemoryTerm& term : kMemoryTerms) {
      if (term.size != &MemoryBreakdown::reserve) {
        text += fmt::format(" {} {},", term.name, bytes(predicted.*term.size));
      }
    }
    text.pop_back();
  }
  if (run.device.is_gpu()) {
    text += fmt::format("; the ranks here share {} of {}", bytes(run.device.memory()),
                        run.device.name());
  }
  return text +
         "\nless is needed by a plan with --recompute full, a smaller --micro-batch-size or more "
         "stages; --memory-headroom keeps some free\n";
}

SavingLock::SavingLock(const std::filesystem::path& directory) {
  const std::string path = (directory / ".lock").string();
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): open(2) is what it is
  file_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!file_.is_open()) {
    throw Error(path + ": cannot create: " + std::strerror(errno), ExitStatus::kOutputFailed);
  }
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0) {
    const std::string owner = std::to_string(::getpid()) + '\n';
    if (::ftruncate(file_.get(), 0) != 0 ||
        ::pwrite(file_.get(), owner.data(), owner.size(), 0) < 0) {
      // The owner is written only for people to read, so a failure does not matter.
    }
    return;
  }
  const int cause = errno;
  std::array<char, 32> owner{};
  const ssize_t length = ::pread(file_.get(), owner.data(), owner.size() - 1, 0);
  file_.close();
  if (cause != EWOULDBLOCK) {
    return;  // a file system without locks
  }
  std::string process(owner.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  process.erase(std::find_if(process.begin(), process.end(),
                             [](unsigned char c) { return c < '0' || c > '9'; }),
                process.end());
  throw Error(
      fmt::format("--save: another run saves into {}{}; expected a directory of its own",
                  in_quotes(directory.string()), process.empty() ? "" : ": process " + process),
      ExitStatus::kOutputFailed);
}

void check_saved_steps(const std::filesystem::path& directory, std::int64_t first_step,
                       const std::filesystem::path& resumed) {
  const std::optional<std::int64_t> newest = Checkpoint::newest_step(directory);
  std::error_code error;
  if (!newest || *newest <= first_step || std::filesystem::equivalent(directory, resumed, error)) {
    return;
  }
  throw Error(
      fmt::format("--save: {} has a checkpoint of step {}, and this run begins at step {}; "
                  "--resume it, or save to another directory",
                  in_quotes(directory.string()), *newest, first_step));
}

}  // namespace ptdp
