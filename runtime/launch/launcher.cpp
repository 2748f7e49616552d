#include "runtime/launch/launcher.h"

#include <unistd.h>

#include <charconv>
#include <optional>
#include <string_view>

#include "cost_model/error.h"
#include "cost_model/text/as_typed.h"
#include "runtime/launch/slurm_hosts.h"

namespace ptdp {
namespace {

constexpr int kMostProcesses = 100'000'000;
constexpr int kMostPort = 65535;
constexpr int kMostSeconds = 86400;

/// Distance from MASTER_PORT to the port used when torchrun's agent listens at MASTER_PORT. It is
/// not 1: the agent of another job may listen at the next port.
constexpr int kBehindAgent = 100;

/// Number from which steps are Slurm's own: the batch script (…fb), an interactive shell (…fa),
/// extern.
constexpr std::int64_t kFirstSpecialStep = 0xFFFFFFF0;

/// Access to environment variables, with checks of their values.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(&environment) {}

  [[nodiscard]] bool has(const std::string& name) const {
    return environment_->find(name) != environment_->end();
  }
  /// Returns the variable's value; empty without the variable.
  [[nodiscard]] std::string text(const std::string& name) const {
    const auto found = environment_->find(name);
    return found == environment_->end() ? "" : found->second;
  }
  /// Returns the variable's value. Throws Error when it is no number in [least, most].
  [[nodiscard]] std::int64_t number(const std::string& name, std::int64_t most = kMostProcesses,
                                    const char* what = "a number of processes",
                                    std::int64_t least = 0) const {
    const std::string& text = environment_->at(name);
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
      throw Error("environment: " + name + ": expected " + what + ", got \"" + text + "\"");
    }
    return value;
  }
  [[nodiscard]] int count(const std::string& name) const { return static_cast<int>(number(name)); }
  /// Returns the variable's value; 0 without the variable.
  [[nodiscard]] int count_or_none(const std::string& name) const {
    return has(name) ? count(name) : 0;
  }

 private:
  const Environment* environment_;
};

/// Returns a launcher with rank and size from variables of these names; nullopt without the rank.
/// Throws Error when the rank is not below the size.
std::optional<Launcher> with_variables(const Variables& variables, LauncherKind kind,
                                       const char* name, const std::string& rank,
                                       const std::string& size) {
  if (!variables.has(rank)) {
    return std::nullopt;
  }
  Launcher launcher{.kind = kind,
                    .name = name,
                    .rank = variables.count(rank),
                    .size = variables.count_or_none(size)};
  if (variables.has(size) && launcher.rank >= launcher.size) {
    throw Error("environment: " + rank + ": expected less than the " +
                std::to_string(launcher.size) + " of " + size + ", got " +
                std::to_string(launcher.rank));
  }
  return launcher;
}

/// Returns whether this process belongs to a step of srun.
bool is_in_slurm_step(const Variables& variables) {
  return variables.has("SLURM_PROCID") && variables.has("SLURM_STEP_ID") &&
         variables.number("SLURM_STEP_ID", INT64_MAX) < kFirstSpecialStep;
}

/// Returns the variable with the number of tasks of the step. SLURM_NTASKS may count those of the
/// allocation.
const char* slurm_size(const Variables& variables) {
  return variables.has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS";
}

/// Returns the rank among the processes of the host, by the first variable that is there; −1
/// without one.
int local_rank(const Variables& variables, LauncherKind kind) {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    if (kind != LauncherKind::kTorchrun && variables.has(name)) {
      return variables.count(name);
    }
  }
  return kind == LauncherKind::kTorchrun && variables.has("LOCAL_RANK")
             ? variables.count("LOCAL_RANK")
             : -1;
}

/// Returns the list of hosts of the step. The job may have more.
std::string slurm_hosts(const Variables& variables) {
  const std::string of_step = variables.text("SLURM_STEP_NODELIST");
  return of_step.empty() ? variables.text("SLURM_JOB_NODELIST") : of_step;
}

/// Throws Error when RANK counts nodes, as on Alibaba PAI-DLC: several processes of a node would
/// have one rank.
void check_ranks_of_processes(const Variables& variables) {
  if (!variables.has("LOCAL_RANK") && variables.count_or_none("NPROC_PER_NODE") > 1) {
    throw Error(
        "environment: NPROC_PER_NODE is " + variables.text("NPROC_PER_NODE") +
        " without a LOCAL_RANK, so that RANK and WORLD_SIZE count nodes: expected every process to "
        "have a rank, as by torchrun --nnodes=$WORLD_SIZE --node-rank=$RANK "
        "--nproc-per-node=$NPROC_PER_NODE --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT " +
        as_typed("--no-python ptdp-run plan.json"));
  }
}

/// Returns the launcher by the first variables that are there, without its local rank.
Launcher find_launcher(const Variables& variables) {
  if (variables.has(kStarterVariable)) {  // Whatever started that program itself.
    const std::string starter = variables.text(kStarterVariable);
    if (const auto found = with_variables(variables, LauncherKind::kTorchrun, starter.c_str(),
                                          "RANK", "WORLD_SIZE")) {
      return *found;
    }
  }
  if (const auto found = with_variables(variables, LauncherKind::kMpi, "mpirun",
                                        "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")) {
    return *found;
  }
  const bool is_step = is_in_slurm_step(variables);
  const char* const starter = is_step ? "srun" : "mpiexec";
  if (const auto found =
          with_variables(variables, LauncherKind::kMpi, starter, "PMI_RANK", "PMI_SIZE")) {
    return *found;
  }
  if (const auto found = with_variables(variables, LauncherKind::kMpi, starter, "PMIX_RANK",
                                        is_step ? slurm_size(variables) : "")) {
    return *found;
  }
  if (variables.has("MASTER_ADDR") && variables.has("WORLD_SIZE")) {
    if (const auto found =
            with_variables(variables, LauncherKind::kTorchrun, "torchrun", "RANK", "WORLD_SIZE")) {
      check_ranks_of_processes(variables);
      return *found;
    }
  }
  if (is_step) {
    return *with_variables(variables, LauncherKind::kSlurm, "srun", "SLURM_PROCID",
                           slurm_size(variables));
  }
  return {};
}

/// Returns the port in a variable. Throws Error when it is no port from 1 to 65535.
std::uint16_t port_in(const Variables& variables, const char* name) {
  return static_cast<std::uint16_t>(variables.number(name, kMostPort, "a port", 1));
}

/// Returns the port at which a step of Slurm meets. Steps on one node rarely get the same port, and
/// the system gives none of these ports to connections.
std::uint16_t port_of_step(const Variables& variables) {
  constexpr std::int64_t first = 20000;
  constexpr std::int64_t num_ports = 10000;
  const std::int64_t job =
      variables.has("SLURM_JOB_ID") ? variables.number("SLURM_JOB_ID", UINT32_MAX, "a number") : 0;
  const std::int64_t step = variables.number("SLURM_STEP_ID", UINT32_MAX, "a number");
  return static_cast<std::uint16_t>(first + (job * 7 + step) % num_ports);
}

/// Returns the port at which the processes meet. Throws Error when the environment does not tell.
std::uint16_t meeting_port(const Variables& variables) {
  if (variables.has("PTDP_MEETING_PORT")) {
    return port_in(variables, "PTDP_MEETING_PORT");
  }
  if (variables.has("MASTER_PORT")) {
    const int port = port_in(variables, "MASTER_PORT");
    if (variables.text("TORCHELASTIC_USE_AGENT_STORE") != "True") {
      return static_cast<std::uint16_t>(port);
    }
    return static_cast<std::uint16_t>(port + kBehindAgent <= kMostPort ? port + kBehindAgent
                                                                       : port - kBehindAgent);
  }
  if (is_in_slurm_step(variables)) {
    return port_of_step(variables);
  }
  throw Error("environment: expected MASTER_PORT, the port at which the processes meet");
}

}  // namespace

Environment environment_of_this_process() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return environment;
}

Launcher detect_launcher(const Environment& environment) {
  const Variables variables(environment);
  Launcher launcher = find_launcher(variables);
  if (launcher.kind != LauncherKind::kNone) {
    launcher.local_rank = local_rank(variables, launcher.kind);
    launcher.has_meeting = variables.has("MASTER_ADDR") ||
                           (is_in_slurm_step(variables) && !slurm_hosts(variables).empty());
  }
  return launcher;
}

MeetingPlace find_meeting_place(const Environment& environment, const Launcher& launcher) {
  const Variables variables(environment);
  MeetingPlace place{.address = variables.text("MASTER_ADDR")};
  const bool is_step = is_in_slurm_step(variables);
  if (place.address.empty() && is_step) {
    place.address = first_slurm_host(slurm_hosts(variables));
  }
  if (place.address.empty()) {
    throw Error("environment: expected MASTER_ADDR, the host of rank 0");
  }
  place.port = meeting_port(variables);
  if (launcher.kind == LauncherKind::kTorchrun) {
    place.job = variables.text("TORCHELASTIC_RUN_ID");
  } else if (is_step) {
    place.job = variables.text("SLURM_JOB_ID") + "." + variables.text("SLURM_STEP_ID");
  }
  place.secret = variables.text("PTDP_JOB_SECRET");
  if (variables.has("PTDP_JOB_SECRET") && place.secret.empty()) {
    throw Error("environment: PTDP_JOB_SECRET: expected a secret, got nothing");
  }
  if (variables.has("PTDP_MEETING_TIMEOUT")) {
    place.timeout = Seconds(static_cast<double>(
        variables.number("PTDP_MEETING_TIMEOUT", kMostSeconds, "seconds from 1 to 86400", 1)));
  }
  return place;
}

}  // namespace ptdp
