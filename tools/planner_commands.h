// The commands that plan, simulate and compare: parts of one program, which need neither BLAS nor
// MPI.
#pragma once

namespace ptdp {

/// Runs ptdp-plan: finds how to train a model on N GPUs. Returns the exit status.
int plan_command(int argc, const char* const* argv);
/// Runs ptdp-sim: simulates a plan's step or a schedule. Returns the exit status.
int sim_command(int argc, const char* const* argv);
/// Runs ptdp-validate: holds predictions against measured runs. Returns the exit status.
int validate_command(int argc, const char* const* argv);
/// Runs ptdp-calibrate: corrects predictions by runs. Returns the exit status.
int calibrate_command(int argc, const char* const* argv);

}  // namespace ptdp
