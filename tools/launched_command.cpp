#include "tools/launched_command.h"

#include <fmt/format.h>

#include <charconv>
#include <exception>
#include <string_view>

#include "cost_model/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "runtime/transport/gathering.h"
#include "tools/command_line.h"

namespace ptdp {
namespace {

constexpr const char* kHowToGetMpi =
    "install libopenmpi-dev (tools/install-dependencies) and build again with -DPTDP_MPI=ON";

/// Another process speaks of the fault.
struct SpokenElsewhere {
  int status = 0;
};

/// How a process's preparation ended, and what all must agree on.
struct Outcome {
  int status = 0;
  std::string host;
  std::vector<std::uint64_t> digests;
};

/// FNV-1a, 64 bits: tells files apart that differ by accident.
std::uint64_t digest(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  }
  return hash;
}

std::string to_text(const Outcome& outcome) {
  std::string text = std::to_string(outcome.status);
  for (const std::uint64_t digest : outcome.digests) {
    text += ' ' + std::to_string(digest);
  }
  return text + '\n' + outcome.host;
}

template <class Number>
Number take_number(std::string_view& text) {
  Number number{};
  const auto end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);  // and what follows it
  return number;
}

Outcome parse_outcome(const std::string& text) {
  const std::size_t end = text.find('\n');
  std::string_view numbers = std::string_view(text).substr(0, end + 1);
  Outcome outcome{.status = take_number<int>(numbers), .host = text.substr(end + 1)};
  while (!numbers.empty()) {
    outcome.digests.push_back(take_number<std::uint64_t>(numbers));
  }
  return outcome;
}

/// What rank 0 makes of all outcomes: which rank speaks of a fault, and the status of all.
struct Verdict {
  int status = 0;
  int speaker = 0;
  std::string mismatch;  ///< What rank 0 is to say, unless it failed itself.
};

Verdict judge(const std::vector<Outcome>& outcomes, const std::vector<SharedInput>& inputs) {
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].status != 0) {
      return {.status = outcomes[rank].status, .speaker = static_cast<int>(rank)};
    }
  }
  for (std::size_t rank = 1; rank < outcomes.size(); ++rank) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (outcomes[rank].digests.at(i) != outcomes[0].digests[i]) {
        return {
            .status = static_cast<int>(ExitStatus::kBadInput),
            .mismatch = fmt::format("rank {} on host {}: expected {} to be that of rank 0 on "
                                    "host {}, got another",
                                    rank, outcomes[rank].host, inputs[i].name, outcomes[0].host)};
      }
    }
  }
  return {};
}

/// Throws what this rank is to say of its own fault.
[[noreturn]] void speak(const MpiProcess& process, const std::exception_ptr& failure) {
  if (process.rank() == 0) {
    std::rethrow_exception(failure);
  }
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    throw Error(fmt::format("rank {} on host {}: {}", process.rank(), process.host(), error.what()),
                error.status());
  }
}

int status_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return static_cast<int>(error.status());
  } catch (const std::bad_alloc&) {
    return static_cast<int>(ExitStatus::kRuntimeFault);
  } catch (...) {
    return static_cast<int>(ExitStatus::kBug);
  }
}

Verdict agree(MpiProcess& process, const Outcome& own, const std::vector<SharedInput>& inputs) {
  CpuBackend backend;
  MpiWorld world(process, process.size(), CollectiveAlgorithm::kRing);
  const std::unique_ptr<Communicator> all = world.communicator(backend);
  std::vector<Outcome> outcomes;
  for (const std::string& text : gather_bytes(*all, backend, to_text(own))) {
    outcomes.push_back(parse_outcome(text));
  }
  const Verdict verdict = process.rank() == 0 ? judge(outcomes, inputs) : Verdict{};
  const std::string told =
      broadcast_bytes(*all, backend, fmt::format("{} {}\n", verdict.status, verdict.speaker));
  std::string_view numbers = told;
  const int status = take_number<int>(numbers);
  return {.status = status, .speaker = take_number<int>(numbers), .mismatch = verdict.mismatch};
}

/// Whether MPI found the processes that the launcher started.
void check_size(const Launcher& launcher, const MpiProcess& process) {
  if (launcher.size > 1 && process.size() != launcher.size) {
    throw Error(fmt::format("{} started {} processes, but MPI sees {}: {}", launcher.name,
                            launcher.size, process.size(),
                            launcher.name == "srun"
                                ? "srun --mpi=list shows the ways to tell it (--mpi=pmix)"
                                : "expected the mpirun of the MPI that this was built with"));
  }
}

/// As run_command, without a word where another process says it.
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

int run_in_job(const std::string& program, const Launcher& launcher,
               const std::function<int(MpiProcess*)>& command) {
  std::optional<MpiProcess> process;
  const auto start = [&] {
    process.emplace();
    check_size(launcher, *process);
    return 0;
  };
  int status = run_quietly(program, launcher.rank == 0, start);
  if (!process) {
    return status;
  }
  if (status == 0) {
    status = run_command(program, [&] {
      try {
        return command(&*process);
      } catch (const SpokenElsewhere& fault) {
        return fault.status;
      } catch (const Aborted&) {
        return static_cast<int>(ExitStatus::kRuntimeFault);
      }
    });
  }
  return process->finish(status);
}

}  // namespace

Transport choose_transport(const Launcher& launcher, std::optional<Transport> asked,
                           bool is_built_with_mpi) {
  const bool is_alone = launcher.size == 1;
  const bool knows_mpi =
      launcher.kind == LauncherKind::kMpi || (launcher.kind == LauncherKind::kSlurm && !is_alone);
  if (asked == Transport::kThreads && !is_alone) {
    throw Error(
        fmt::format("--transport threads: expected one process, since all ranks are its "
                    "threads; {} started {}",
                    launcher.name, launcher.size));
  }
  if (launcher.kind == LauncherKind::kTorchrun && !is_alone) {
    throw Error(fmt::format(
        "{} started {} processes: expected one, whose threads are the ranks, or ranks under mpirun "
        "or srun: mpirun -n N ptdp-run plan.json",
        launcher.name, launcher.size));
  }
  const bool uses_mpi =
      asked ? *asked == Transport::kMpi : knows_mpi && (is_built_with_mpi || !is_alone);
  if (uses_mpi && !is_built_with_mpi) {
    throw Error(fmt::format(
        "{}: this program was built without MPI, so that ranks are threads of one process; {}",
        asked ? "--transport mpi" : launcher.name + " started several processes", kHowToGetMpi));
  }
  return uses_mpi ? Transport::kMpi : Transport::kThreads;
}

std::optional<Transport> transport_flag(int argc, const char* const* argv) {
  constexpr std::string_view flag = "--transport";
  for (int i = 1; i < argc; ++i) {
    std::string_view value = argv[i];
    if (value == flag && i + 1 < argc) {
      value = argv[i + 1];
    } else if (value.substr(0, flag.size() + 1) == "--transport=") {
      value.remove_prefix(flag.size() + 1);
    } else {
      continue;
    }
    if (value == "threads") {
      return Transport::kThreads;
    }
    if (value == "mpi") {
      return Transport::kMpi;
    }
  }
  return std::nullopt;
}

int run_launched_command(const std::string& program, int argc, const char* const* argv,
                         const std::function<int(MpiProcess* process)>& command) {
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
  if (transport == Transport::kMpi) {
    return run_in_job(program, launcher, command);
  }
  return run_command(program, [&] { return command(nullptr); });
}

void prepare_together(MpiProcess* process,
                      const std::function<std::vector<SharedInput>()>& prepare) {
  if (process == nullptr) {
    static_cast<void>(prepare());
    return;
  }
  Outcome own{.host = process->host()};
  std::vector<SharedInput> inputs;
  std::exception_ptr failure;
  try {
    inputs = prepare();
    for (const SharedInput& input : inputs) {
      own.digests.push_back(digest(input.content));
    }
  } catch (...) {
    failure = std::current_exception();
    own.status = status_of(failure);
  }
  const Verdict verdict = agree(*process, own, inputs);
  if (verdict.status == 0) {
    return;
  }
  if (verdict.speaker != process->rank()) {
    throw SpokenElsewhere{verdict.status};
  }
  if (failure) {
    speak(*process, failure);
  }
  throw Error(verdict.mismatch);
}

}  // namespace ptdp
