// The report of a plan's run: what it measured beside what was predicted (`ptdp.run/1`, described
// in FORMATS.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "planner/answer_format.h"
#include "planner/plan/plan.h"
#include "planner/runs/measured.h"

namespace ptdp {

inline constexpr const char* kRunSchema = "ptdp.run/1";

/// A rank that computes longer than it should, as a slow processor does.
struct RunStraggler {
  int rank = -1;        ///< The slow rank; −1 if there is none.
  double factor = 1.0;  ///< How many times as long as the others it computes.
  Seconds lost;         ///< Upper bound of the time that the slow rank costs a step.
};

/// How a plan was run.
struct RunExecution {
  std::string transport = "threads";  ///< How ranks exchange data: "threads", "mpi", "tcp", "nccl".
  /// Most multiprocessors that NCCL takes for a collective, and for a message; 0 without NCCL.
  int collective_blocks = 0;
  int message_blocks = 0;
  std::vector<std::string> hosts;  ///< Hosts of ranks that are processes, each once.
  std::int64_t ranks = 1;          ///< Number of ranks.
  std::string device = "cpu";      ///< What ran: "cpu", or "cuda: " and the GPUs' names.
  Precision precision = Precision::kFp32;
  std::int64_t first_step = 0;       ///< First step in the training: above 0 if it was resumed.
  std::int64_t requested_steps = 0;  ///< Steps asked for: more than `steps` if it ended early.
  std::int64_t steps = 0;            ///< Steps that ran.
  std::int64_t warm_up = 0;          ///< Steps among `steps` that are not measured.
  std::uint64_t seed = 0;
  std::string data;  ///< What it trained on: a file, or "synthetic".
  /// What the prediction rests on, or why nothing is predicted of this run.
  std::string basis;
  DropoutRates dropout;
  bool is_reproducible = false;
  bool is_shrunk = false;  ///< Whether `model` is smaller than the plan's.
  RunStraggler straggler;
  int terms_rank = 0;                  ///< Pipeline rank whose terms are reported.
  TransformerConfig model;             ///< The model that ran.
  std::int64_t global_batch_size = 0;  ///< The batch that ran, in sequences.
  int dp = 1;                          ///< The number of replicas that ran.
};

/// A part of an iteration (run_terms.h) on the ranks that compute longest, those at
/// RunExecution::terms_rank. A time that was not predicted or not measured is 0.
struct TermComparison {
  std::string name;
  Measured<Seconds> time;
  Seconds low;   ///< Lower end of the 90 % interval of measured times; 0 if there is none.
  Seconds high;  ///< Upper end of that interval (term_intervals.h).
};
/// The median time of an action of a virtual stage.
struct ActionComparison {
  std::string kind;        ///< Kind of the action as orders spell it.
  int stage = 0;           ///< The virtual stage.
  std::int64_t count = 0;  ///< Number of such actions in a step of one pipeline.
  Measured<Seconds> time;  ///< Time of one action.
};
/// The memory of the heaviest rank at one place of the pipeline.
struct MemoryComparison {
  Measured<Bytes> size;
  Measured<int> activations;  ///< Virtual stages of a microbatch held at the worst moment.
  /// What the stack reserves, and what the driver, NCCL and others took after the first step; 0 on
  /// a host.
  Measured<Bytes> beside = {};
};
/// The bytes that all ranks together send in a step, for one group and collective.
struct TrafficComparison {
  /// The group: "tensor", "pipeline_forward", "pipeline_backward", "data" (with the loss), "tied",
  /// "model" (the norm).
  std::string group;
  std::string collective;  ///< The collective: "all-reduce", "send" ...
  Measured<std::int64_t> bytes;
};

/// The largest call of a group and collective: its time by this model, by the transport's own
/// model, and as measured, which includes waiting for other ranks.
struct CallComparison {
  std::string group;       ///< The group, as TrafficComparison names it.
  std::string collective;  ///< The collective, as TrafficComparison names it.
  Bytes size;              ///< Size of the whole buffer or the message.
  Seconds predicted;       ///< Time by the cost model; 0 if not predicted.
  Seconds estimated;       ///< Time by the transport's own model.
  Seconds measured;        ///< Median time, waiting for other ranks included.
};

/// The report of a run.
struct RunReport {
  std::string tool_version = PTDP_VERSION;
  Plan plan;
  RunExecution execution;
  Estimate<Seconds> predicted_time;  ///< Predicted time of an iteration; 0 if not predicted.
  Seconds measured_time;             ///< Median time of the measured steps.
  Seconds fastest;                   ///< Shortest time of a measured step.
  Seconds slowest;                   ///< Longest time of a measured step.
  Flops hardware_flops;              ///< FLOPs of an iteration as run, recomputation included.
  std::vector<TermComparison> terms;
  std::vector<ActionComparison> actions;
  std::vector<MemoryComparison> memory;  ///< Memory by pipeline rank.
  std::vector<TrafficComparison> traffic;
  std::vector<CallComparison> calls;   ///< Calls over NCCL, which has a model of its own.
  std::vector<double> losses;          ///< Loss of every step, warm-up included.
  std::vector<double> gradient_norms;  ///< Norm of the gradients at every step, warm-up included.
  std::int64_t skipped_steps = 0;      ///< Steps skipped because fp16 overflowed.
  /// How bytes or memory differ from what the plan's strategy means. A run with differences ended.
  std::vector<std::string> differences;
  std::vector<std::string> warnings;  ///< Warnings that were given while it ran.
};

/// Returns the report as JSON, `ptdp.run/1`.
[[nodiscard]] std::string to_json(const RunReport& report);
/// Reads a report from JSON. Throws Error with the place of the fault.
[[nodiscard]] RunReport parse_run(std::string_view text, const std::string& place);
/// Reads a report from a file. Throws Error with the place of the fault.
[[nodiscard]] RunReport read_run(const std::filesystem::path& path);

/// Returns the report as text: predicted, measured and error of the iteration, of every term and
/// action, then memory by pipeline rank and traffic.
[[nodiscard]] std::string to_text(const RunReport& report);
/// Returns the report in a format, JSON or text.
[[nodiscard]] std::string in_format(AnswerFormat format, const RunReport& report);

}  // namespace ptdp
