// The report of a plan's rehearsal: what it measured and what follows for the cluster, beside what
// was predicted (`ptdp.rehearsal/1`, described in FORMATS.md).
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
  std::string device = "cpu";  ///< What ran: "cpu", or "cuda: " and the GPU's name.
  Precision precision = Precision::kFp32;
  std::int64_t steps = 0;    ///< Steps that each rank ran.
  std::int64_t warm_up = 0;  ///< Steps among `steps` that were not measured.
  std::uint64_t seed = 0;
  DropoutRates dropout;
  bool uses_graphs = false;  ///< Whether passes were CUDA graphs; reports that lack it say no.
  /// Other memory that was used while a rank waited for a message, as ranks do that take turns with
  /// it on a core; 0 if the rank has a core to itself.
  Bytes memory_of_others;
};

/// What the times and memory of a rehearsal are based on.
struct RehearsalBasis {
  std::string stack;      ///< The stack whose predictions and messages are used.
  std::string predicted;  ///< What predictions rest on.
  std::string rates;      ///< What ran, and what the plan is for.
  /// Whether a difference is an error of the prediction. That is so when the plan is for this
  /// device and its prediction is of this runtime.
  bool is_like_for_like = false;
  std::vector<std::string> notes;  ///< Remarks for the reader, one line each.
};

/// A part of an iteration (run_terms.h) on the ranks that compute longest.
struct RehearsedTerm {
  std::string name;
  Seconds predicted;
  Seconds composed;
};

/// An action of a virtual stage, alone on the device.
struct RehearsedAction {
  std::string kind;        ///< Kind of the action as orders spell it.
  int stage = 0;           ///< The virtual stage.
  std::int64_t count = 0;  ///< Number of such actions in an iteration of the plan.
  Measured<Seconds> time;  ///< Time of one without collectives, measured as the median.
  Seconds collectives;     ///< Modeled time of the tensor-parallel collectives within one.
  Seconds composed;        ///< Time of one as it is simulated, collectives included.
};

/// A category of memory: "weights", "gradients", "optimizer", "the rest", "peak".
struct RehearsedMemory {
  std::string category;
  Measured<Bytes> size;
};

/// What the rehearsal of one rank measured.
struct RehearsedRank {
  int pipeline_rank = 0;          ///< Place in the pipeline, 0 … pp−1.
  std::int64_t rank = 0;          ///< Rank in the world of all GPUs.
  std::int64_t microbatches = 0;  ///< Microbatches run in a step.
  Measured<int> activations;      ///< Virtual stages of a microbatch held at the worst moment.
  Measured<Seconds> compute;      ///< All passes, norm and optimizer of an iteration of the plan.
  std::vector<RehearsedAction> actions;
  std::vector<RehearsedMemory> memory;
};

/// The report of a rehearsal.
struct RehearsalReport {
  std::string tool_version = PTDP_VERSION;
  Plan plan;  ///< The plan as it was given.
  RehearsalExecution execution;
  RehearsalBasis basis;
  Seconds planned_time;              ///< The plan's own prediction of an iteration.
  Estimate<Seconds> predicted_time;  ///< Prediction of an iteration with the stack of `basis`.
  /// Simulated iteration with the stack of `basis`. The composed time differs from it only by what
  /// was measured alone.
  Seconds simulated_time;
  Seconds composed_time;    ///< Iteration composed from the rehearsed ranks.
  Seconds core_contention;  ///< Part of composed_time in which ranks wait for a core of their host.
  Flops model_flops;        ///< FLOPs of an iteration without recomputation.
  Flops hardware_flops;     ///< FLOPs of an iteration, recomputation included.
  FlopsPerSecond peak;      ///< Peak rate of all devices of the plan together.
  int terms_rank = 0;       ///< Pipeline rank of the `terms`: the one that computes longest.
  std::vector<RehearsedTerm> terms;
  std::vector<RehearsedRank> ranks;
  std::vector<int> sources;           ///< By pipeline rank, the rehearsed rank whose times it has.
  std::vector<std::string> modelled;  ///< What was modeled, not measured, one line each.
};

/// Returns the report as JSON, `ptdp.rehearsal/1`.
[[nodiscard]] std::string to_json(const RehearsalReport& report);
/// Reads a report from JSON. Throws Error with the place of the fault.
[[nodiscard]] RehearsalReport parse_rehearsal(std::string_view text, const std::string& place);

/// Returns the report as text: the iteration and its terms, predicted, composed and their
/// difference, then actions and memory of every rehearsed rank.
[[nodiscard]] std::string to_text(const RehearsalReport& report);
/// Returns the report in a format, JSON or text.
[[nodiscard]] std::string in_format(AnswerFormat format, const RehearsalReport& report);

}  // namespace ptdp
