// Tells which launcher started this process, with which rank and size.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cost_model/units.h"

namespace ptdp {

/// Environment variables by name.
using Environment = std::map<std::string, std::string>;
/// Returns a copy of this process's environment.
[[nodiscard]] Environment environment_of_this_process();

/// Variable with the name of the program that sets those of torch.distributed, where it is not
/// torchrun.
inline constexpr const char* kStarterVariable = "PTDP_STARTER";

/// Kinds of launchers, by how the processes can find each other.
enum class LauncherKind : std::uint8_t {
  kNone,
  kMpi,  ///< Started by mpirun, mpiexec or srun with a PMI: MPI knows the other processes.
  /// Started by a step of srun that showed no PMI; MPI may know the other processes all the same.
  kSlurm,
  /// Started by torchrun, or by something else that sets the variables of torch.distributed.
  kTorchrun,
};

/// What the environment tells of the launcher of this process.
struct Launcher {
  LauncherKind kind = LauncherKind::kNone;
  /// Name in messages: "mpirun", "srun", "torchrun", "ptdp-run"; empty without a launcher.
  std::string name;
  int rank = 0;
  int size = 1;  ///< Number of processes; 0 when the environment does not tell.
  /// Rank among the processes of its host; −1 when the environment does not tell.
  int local_rank = -1;
  bool has_meeting = false;  ///< Whether the environment tells the host of rank 0.
};

/// Detects the launcher by the first variables found, in this order: Open MPI, PMI (MPICH, Intel
/// MPI, srun --mpi=pmi2), PMIx, torch.distributed, Slurm. Slurm's variables count only inside a
/// step of srun. A batch script and an interactive allocation have SLURM_PROCID and SLURM_NTASKS
/// too, but run the program once.
///
/// Throws Error, naming the variable, for a value that is no number and a rank that is not below
/// the size. Throws Error also when ranks count nodes whose processes nobody started (Alibaba
/// PAI-DLC: NPROC_PER_NODE without LOCAL_RANK).
[[nodiscard]] Launcher detect_launcher(const Environment& environment);

/// Where the processes of a launcher meet over TCP, and how they recognize each other.
struct MeetingPlace {
  std::string address;  ///< Address of the host of rank 0.
  std::uint16_t port = 0;
  /// Name of the job, equal for all its processes and if possible different from other jobs'.
  std::string job;
  std::string secret;              ///< Value of PTDP_JOB_SECRET; empty without it.
  std::optional<Seconds> timeout;  ///< Value of PTDP_MEETING_TIMEOUT; nullopt when it is not set.
};

/// Finds where processes meet over TCP. Throws Error naming the variable that is missing or makes
/// no sense. Each part comes from the first source that exists:
///
///   address  MASTER_ADDR; under srun, the first host of the step.
///   port     PTDP_MEETING_PORT; MASTER_PORT, or MASTER_PORT + 100 when torchrun's agent listens at
///            MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE=True); under srun, a port of 20000 to 29999
///            computed from the numbers of job and step.
///   timeout  PTDP_MEETING_TIMEOUT.
///   secret   PTDP_JOB_SECRET.
[[nodiscard]] MeetingPlace find_meeting_place(const Environment& environment,
                                              const Launcher& launcher);

}  // namespace ptdp
