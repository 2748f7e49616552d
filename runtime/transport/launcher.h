// Which launcher started this process, and as which of how many.
#pragma once

#include <cstdint>
#include <map>
#include <string>

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
  int size = 1;  ///< Processes; 0 where the environment does not tell.
};

/// The first that is there of: Open MPI's variables, those of PMI (MPICH, Intel MPI, srun
/// --mpi=pmi2), PMIx, torch.distributed, Slurm. Slurm's count inside a step of srun alone: a batch
/// script and an interactive allocation have SLURM_PROCID and SLURM_NTASKS too, but nobody else
/// runs the program there. Throws Error naming the variable whose value is no number, or a rank
/// that is not below the size.
[[nodiscard]] Launcher detect_launcher(const Environment& environment);

}  // namespace ptdp
