#include "tools/run/launched_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <memory>
#include <string_view>

#include "cost_model/error.h"
#include "runtime/phase_limit.h"
#include "runtime/transport/processes/mpi_world.h"
#include "runtime/transport/processes/tcp/socket.h"
#include "runtime/transport/processes/tcp/tcp_job.h"
#include "tools/run/exit_guard.h"
#include "tools/run/prepare_together.h"
#include "tools/run/run_progress.h"
#include "tools/run/stopped_ranks.h"
#include "tools/shared/command_line.h"

namespace ptdp {
namespace {

constexpr const char* kHowToGetMpi =
    "install libopenmpi-dev (tools/install-dependencies) and build again with -DPTDP_MPI=ON";

/// Throws Error unless MPI found the processes that the launcher started.
void check_size(const Launcher& launcher, const JobProcess& process) {
  if (launcher.size > 1 && process.size() != launcher.size) {
    throw Error(fmt::format("{} started {} processes, but MPI sees {}: {}", launcher.name,
                            launcher.size, process.size(),
                            launcher.name == "srun"
                                ? "srun --mpi=list shows the ways to tell it (--mpi=pmix)"
                                : "expected the mpirun of the MPI that this was built with"));
  }
}

/// Runs a command as run_command() does, but says nothing unless `speaks`, because another process
/// then reports.
int run_quietly(const std::string& program, bool speaks, const std::function<int()>& command) {
  if (speaks) {
    return run_command(program, command);
  }
  try {
    return command();
  } catch (...) {
    return status_of(std::current_exception());
  }
}

/// Prints a message and ends the process with status kRuntimeFault, for when only this thread still
/// runs.
[[noreturn]] void leave(const std::string& program, const std::string& what) {
  tell(fmt::format("{}: {}\n", program, what));
  ::_exit(static_cast<int>(ExitStatus::kRuntimeFault));
}

std::unique_ptr<JobProcess> join_over_mpi(const std::string& program, const Launcher& launcher,
                                          std::optional<Seconds> limit) {
  const PhaseLimit limited(own_limit(limit, launcher.rank), [&] {
    const std::optional<StoppedRank> stopped = find_stopped_rank();
    const std::string place =
        stopped ? fmt::format("rank {}: its start", stopped->rank) : "the start";
    const std::string what =
        stopped ? fmt::format("in MPI_Init for its process {}, which is stopped", stopped->process)
                : "in MPI_Init for the others, of which one is stopped or did not start";
    leave(program, waited(place, launcher.rank, own_host_name(), what, *limit));
  });
  std::unique_ptr<JobProcess> process = join_mpi_job();
  check_size(launcher, *process);
  return process;
}

/// Returns how long processes may take to meet: PTDP_MEETING_TIMEOUT or the fixed deadline of a
/// phase, whichever is less. Without either it is 120 s; nullopt means no limit.
std::optional<Seconds> meeting_timeout(const MeetingPlace& place, const DeadlineRule& rule) {
  constexpr Seconds usual(120.0);
  if (rule.fixed) {
    const Seconds limit = *phase_deadline(rule);
    return std::min(limit, place.timeout.value_or(limit));
  }
  return place.timeout || !rule.is_on ? place.timeout : usual;
}

std::unique_ptr<JobProcess> join_over_tcp(const std::string& program, const Launcher& launcher,
                                          const DeadlineRule& rule) {
  if (launcher.size == 0) {
    throw Error(fmt::format("--transport tcp: {} does not tell how many processes it started",
                            launcher.name));
  }
  TcpJobOptions options{.rank = launcher.rank, .size = launcher.size};
  if (launcher.size > 1) {
    const MeetingPlace place = find_meeting_place(environment_of_this_process(), launcher);
    options.address = place.address;
    options.port = place.port;
    options.job = place.job;
    options.secret = place.secret;
    options.timeout = meeting_timeout(place, rule);
    options.notice = [&program](const std::string& text) {
      tell(fmt::format("{}: {}\n", program, text));
    };
  }
  // The meeting ends by itself, unless a name server does not answer.
  constexpr Seconds margin(4.0);
  const PhaseLimit limited(
      options.timeout ? std::optional(2.0 * *options.timeout + margin) : std::nullopt, [&] {
        leave(program, waited("the start", launcher.rank, own_host_name(),
                              "for " + options.address + " to be resolved", *options.timeout));
      });
  return join_tcp_job(options);
}

/// The process of a job that this process joined, or null with the exit status if joining failed.
struct Joined {
  std::unique_ptr<JobProcess> process;
  int status = 0;
};
/// Joins a job. With MPI only rank 0 reports a failure, since all ranks meet the same one. Over TCP
/// a rank reports it unless it hears that rank 0 does.
Joined join(const std::string& program, const Launcher& launcher, Transport transport,
            const DeadlineRule& rule) {
  Joined joined;
  const bool is_mpi = transport == Transport::kMpi;
  joined.status = run_quietly(program, !is_mpi || launcher.rank == 0, [&] {
    try {
      joined.process = is_mpi ? join_over_mpi(program, launcher, phase_deadline(rule))
                              : join_over_tcp(program, launcher, rule);
    } catch (const Aborted&) {
      return static_cast<int>(ExitStatus::kRuntimeFault);
    }
    return 0;
  });
  return joined;
}

/// Waits for the end of all processes and returns the exit status, or ends this process after the
/// limit. A guard process ends one that is stopped after its last message, because launchers wait
/// for all.
int finish(const std::string& program, JobProcess& process, std::optional<Seconds> limit,
           int status) {
  constexpr Seconds margin(1.0);
  const std::optional<Seconds> own = own_limit(limit, process.rank());
  const auto text = [&](int awaited, const std::string& what) {
    return waited(fmt::format("rank {}: its end", awaited), process.rank(), process.host(), what,
                  *limit);
  };
  std::optional<PhaseLimit> limited;
  if (limit) {
    guard_exit(*own + margin, fmt::format("{}: {}\n", program, text(process.rank(), "to exit")));
    try {
      limited.emplace(own,
                      [&] { leave(program, text(process.awaited_at_end(), "for its last call")); });
    } catch (const Error&) {  // No thread could be started: goes on without the limit.
    }
  }
  const int ended = process.finish(status);
  if (const std::string loss = process.loss(); status == 0 && ended != 0 && !loss.empty()) {
    // no other caller is left to throw it to
    tell(fmt::format("{}: the end: {}\n", program, loss));
  }
  return ended;
}

int run_in_job(const std::string& program, const Launcher& launcher, Transport transport,
               const DeadlineRule& rule, const std::function<int(JobProcess*)>& command) {
  const Joined joined = join(program, launcher, transport, rule);
  if (!joined.process) {
    return joined.status;
  }
  const int status = run_command(program, [&] {
    try {
      return command(&*joined.process);
    } catch (const SpokenElsewhere& fault) {
      return fault.status;
    } catch (const Aborted&) {
      return static_cast<int>(ExitStatus::kRuntimeFault);
    }
  });
  return finish(program, *joined.process, phase_deadline(rule), status);
}

/// Returns the value of the first such flag among the arguments; empty without one.
std::string_view value_of_flag(int argc, const char* const* argv, std::string_view flag) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == flag && i + 1 < argc) {
      return argv[i + 1];
    }
    if (word.starts_with(flag) && word.substr(flag.size()).starts_with('=')) {
      return word.substr(flag.size() + 1);
    }
  }
  return {};
}

}  // namespace

Transport choose_transport(const Launcher& launcher, std::optional<Transport> asked,
                           bool is_built_with_mpi) {
  const bool is_alone = launcher.size == 1;
  if (asked == Transport::kThreads && !is_alone) {
    throw Error(
        fmt::format("--transport threads: expected one process, since all ranks are its "
                    "threads; {} started {}",
                    launcher.name, launcher.size));
  }
  if (asked == Transport::kMpi && !is_built_with_mpi) {
    throw Error(
        fmt::format("--transport mpi: this program was built without MPI; {}", kHowToGetMpi));
  }
  if (asked) {
    return *asked;
  }
  if (launcher.kind == LauncherKind::kMpi && is_built_with_mpi) {
    return Transport::kMpi;
  }
  if (is_alone) {
    return Transport::kThreads;
  }
  if (!launcher.has_meeting) {
    throw Error(
        fmt::format("{} started several processes: this program was built without MPI, and without "
                    "MASTER_ADDR and MASTER_PORT they cannot meet over TCP either; {}",
                    launcher.name, kHowToGetMpi));
  }
  return Transport::kTcp;
}

std::optional<Transport> transport_flag(int argc, const char* const* argv) {
  const std::string_view value = value_of_flag(argc, argv, "--transport");
  if (value == "threads") {
    return Transport::kThreads;
  }
  if (value == "mpi") {
    return Transport::kMpi;
  }
  return value == "tcp" ? std::optional(Transport::kTcp) : std::nullopt;
}

DeadlineRule deadline_flag(int argc, const char* const* argv) {
  return parse_deadline_rule(value_of_flag(argc, argv, "--deadline")).value_or(DeadlineRule{});
}

int run_launched_command(const std::string& program, int argc, const char* const* argv,
                         const std::function<int(JobProcess* process)>& command) {
  Launcher launcher;
  Transport transport = Transport::kThreads;
  const auto choose = [&] {
    launcher = detect_launcher(environment_of_this_process());
    return 0;
  };
  if (const int status = run_command(program, choose); status != 0) {
    return status;
  }
  const int status = run_quietly(program, launcher.rank == 0, [&] {
    transport = choose_transport(launcher, transport_flag(argc, argv), has_mpi());
    return 0;
  });
  if (status != 0) {
    return status;
  }
  if (transport != Transport::kThreads) {
    leave_signals_to_launcher();
    return run_in_job(program, launcher, transport, deadline_flag(argc, argv), command);
  }
  return run_command(program, [&] { return command(nullptr); });
}

}  // namespace ptdp
