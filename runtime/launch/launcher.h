// Which launcher started this process, and as which of how many.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "cost_model/units.h"

namespace ptdp {

/// Values by name.
using Environment = std::map<std::string, std::string>;
[[nodiscard]] Environment environment_of_this_process();

enum class LauncherKind : std::uint8_t {
  kNone,
  kMpi,       ///< mpirun, mpiexec or srun with a PMI: MPI knows the other processes.
  kSlurm,     ///< A step of srun that showed no PMI; MPI may know the others all the same.
  kTorchrun,  ///< torchrun, or what sets the variables of torch.distributed.
};

struct Launcher {
  LauncherKind kind = LauncherKind::kNone;
  std::string name;  ///< For messages: "mpirun", "srun", "torchrun"; empty without one.
  int rank = 0;
  int size = 1;              ///< Processes; 0 where the environment does not tell.
  int local_rank = -1;       ///< Among those of its host; −1 where the environment does not tell.
  bool has_meeting = false;  ///< The environment tells the host of rank 0.
};

/// The first that is there of: Open MPI's variables, those of PMI (MPICH, Intel MPI, srun
/// --mpi=pmi2), PMIx, torch.distributed, Slurm. Slurm's count inside a step of srun alone: a batch
/// script and an interactive allocation have SLURM_PROCID and SLURM_NTASKS too, but nobody else
/// runs the program there. Throws Error naming the variable whose value is no number, or a rank
/// that is not below the size, and where ranks are of nodes whose processes nobody started (Alibaba
/// PAI-DLC: NPROC_PER_NODE without LOCAL_RANK).
[[nodiscard]] Launcher detect_launcher(const Environment& environment);

/// Where and as what the processes of a launcher meet over TCP.
struct MeetingPlace {
  std::string address;  ///< Of the host of rank 0.
  std::uint16_t port = 0;
  std::string job;  ///< Equal for all processes of the job, and unequal to other jobs' if possible.
  std::string secret;              ///< Of PTDP_JOB_SECRET; empty without it.
  std::optional<Seconds> timeout;  ///< Of PTDP_MEETING_TIMEOUT; none where it is not set.
};

/// The address is MASTER_ADDR, else under srun the first host of the step. The port is
/// PTDP_MEETING_PORT, else MASTER_PORT, or the hundredth behind it where torchrun's agent listens
/// at that itself (TORCHELASTIC_USE_AGENT_STORE=True), else under srun one of 20000 to 29999 that
/// the numbers of job and step make. The timeout is PTDP_MEETING_TIMEOUT, the secret
/// PTDP_JOB_SECRET. Throws Error naming the variable that is missing or makes no sense.
[[nodiscard]] MeetingPlace find_meeting_place(const Environment& environment,
                                              const Launcher& launcher);

}  // namespace ptdp
