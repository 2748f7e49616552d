// What the rehearsal of a plan measured and what follows for the cluster, beside what was
// predicted: `ptdp.rehearsal/1`, described in FORMATS.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "planner/answer_format.h"
#include "planner/plan/plan.h"
#include "planner/runs/measured.h"
#include "planner/runs/rehearsal_composition.h"

namespace ptdp {

inline constexpr const char* kRehearsalSchema = "ptdp.rehearsal/1";

/// How ranks were rehearsed.
struct RehearsalExecution {
  std::string device = "cpu";  ///< Or "cuda: " and the GPU's name.
  Precision precision = Precision::kFp32;
  std::int64_t steps = 0;    ///< Of each rank,
  std::int64_t warm_up = 0;  ///< of which so many were not measured.
  std::uint64_t seed = 0;
  DropoutRates dropout;
  bool uses_graphs = false;
  /// Other memory that was used while a rank waited for a message, as by ranks that take turns with
  /// it on a core; 0: it has one to itself.
  Bytes memory_of_others;
};

/// Whose times and memory these are.
struct RehearsalBasis {
  std::string stack;      ///< That predictions and messages are of.
  std::string predicted;  ///< What predictions rest on.
  std::string rates;      ///< What ran, and what the plan is for.
  /// Whether a difference is an error of the prediction: the plan is for this device and, as
  /// predicted, of this runtime.
  bool is_like_for_like = false;
  std::vector<std::string> notes;  ///< What else should be known.
};

/// A part of an iteration (run_terms.h) on the ranks that compute longest.
struct RehearsedTerm {
  std::string name;
  Seconds predicted;
  Seconds composed;
};

/// An action of a virtual stage: alone on the device, without collectives.
struct RehearsedAction {
  std::string kind;  ///< As orders spell it.
  int stage = 0;
  std::int64_t count = 0;  ///< In an iteration of the plan.
  Measured<Seconds> time;  ///< The median.
  Seconds collectives;     ///< Of the tensor-parallel group, within it: modelled.
  Seconds composed;        ///< As it is simulated.
};

/// A category of memory: "weights", "gradients", "optimizer", "the rest", "peak".
struct RehearsedMemory {
  std::string category;
  Measured<Bytes> size;
};

struct RehearsedRank {
  int pipeline_rank = 0;
  std::int64_t rank = 0;          ///< Of the world.
  std::int64_t microbatches = 0;  ///< Run in a step.
  Measured<int> activations;      ///< Virtual stages of a microbatch held at the worst moment.
  Measured<Seconds> compute;      ///< Of an iteration of the plan: all passes, norm and optimizer.
  std::vector<RehearsedAction> actions;
  std::vector<RehearsedMemory> memory;
};

struct RehearsalReport {
  std::string tool_version = PTDP_VERSION;
  Plan plan;  ///< As given.
  RehearsalExecution execution;
  RehearsalBasis basis;
  Seconds planned_time;              ///< The plan's own prediction.
  Estimate<Seconds> predicted_time;  ///< With the basis' stack.
  Seconds simulated_time;            ///< The same by simulation: what `composed` differs from by
                                     ///< what was measured alone.
  Seconds composed_time;
  Seconds core_sharing;  ///< Of it: ranks that wait for a core of their host.
  Flops model_flops;     ///< Of an iteration.
  Flops hardware_flops;  ///< Likewise.
  FlopsPerSecond peak;   ///< Of all devices of the plan together.
  int terms_stage = 0;
  std::vector<RehearsedTerm> terms;
  std::vector<RehearsedRank> ranks;
  std::vector<int> sources;           ///< By rank of the pipeline: whose times it has.
  std::vector<std::string> modelled;  ///< What was not measured, one line each.
};

/// As JSON, and back. Throws Error naming the place.
[[nodiscard]] std::string to_json(const RehearsalReport& report);
[[nodiscard]] RehearsalReport parse_rehearsal(std::string_view text, const std::string& place);

/// For people: predicted, composed and difference of the iteration and its terms; of every
/// rehearsed rank its actions and its memory.
[[nodiscard]] std::string rehearsal_text(const RehearsalReport& report);
[[nodiscard]] std::string in_format(AnswerFormat format, const RehearsalReport& report);

}  // namespace ptdp
