// What a run of a plan measured beside what was predicted: `ptdp.run/1`, described in
// FORMATS.md.
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
  int rank = -1;        ///< −1: none.
  double factor = 1.0;  ///< Times as long as the others.
  Seconds lost;         ///< Of a step.
};

/// How a plan was run.
struct RunExecution {
  std::string transport = "threads";  ///< Or "mpi", "tcp", "nccl".
  std::vector<std::string> hosts;     ///< Where ranks are processes: theirs, each once.
  std::int64_t ranks = 1;
  std::string device = "cpu";  ///< Or "cuda: " and the GPUs' names.
  Precision precision = Precision::kFp32;
  std::int64_t first_step = 0;       ///< Of the training: above 0 where it was resumed.
  std::int64_t requested_steps = 0;  ///< As asked for: more than `steps` where it ended early.
  std::int64_t steps = 0;            ///< Run,
  std::int64_t warm_up = 0;          ///< of which so many are not measured.
  std::uint64_t seed = 0;
  std::string data;  ///< A file, or "synthetic".
  /// What the prediction rests on, or why nothing is predicted of this run.
  std::string basis;
  DropoutRates dropout;
  bool is_reproducible = false;
  bool is_shrunk = false;  ///< The model below is not the plan's.
  RunStraggler straggler;
  int terms_stage = 0;  ///< Place in the pipeline of the ranks that the terms are of.
  TransformerConfig model;
  std::int64_t global_batch_size = 0;
  int dp = 1;
};

/// A part of an iteration (run_terms.h) on the ranks that compute longest, RunExecution's
/// terms_stage. What was not predicted or not measured is 0.
struct TermComparison {
  std::string name;
  Measured<Seconds> time;
};
/// An action of a virtual stage, in the median.
struct ActionComparison {
  std::string kind;  ///< As orders spell it.
  int stage = 0;
  std::int64_t count = 0;  ///< In a step of one pipeline.
  Measured<Seconds> time;
};
/// The ranks at one place of the pipeline: the heaviest of them.
struct MemoryComparison {
  Measured<Bytes> size;
  Measured<int> activations;  ///< Virtual stages of a microbatch, at the worst moment.
};
/// Bytes that all ranks together send in a step.
struct TrafficComparison {
  /// "tensor", "pipeline_forward", "pipeline_backward", "data" (with the loss), "tied", "model"
  /// (the norm).
  std::string group;
  std::string collective;  ///< "all-reduce", "send" ...
  Measured<std::int64_t> bytes;
};

/// One call of a group: what this model, and the transport where it says so, expect of it. What was
/// measured includes waiting for other ranks.
struct CallComparison {
  std::string group;       ///< As above.
  std::string collective;  ///< The largest of its group and kind.
  Bytes size;              ///< Of the whole buffer or the message.
  Seconds predicted;
  Seconds estimated;  ///< By the transport.
  Seconds measured;
};

struct RunReport {
  std::string tool_version = PTDP_VERSION;
  Plan plan;
  RunExecution execution;
  Estimate<Seconds> predicted_time;
  Seconds measured_time;  ///< Median of the measured steps; those between
  Seconds fastest;
  Seconds slowest;
  Flops hardware_flops;  ///< Of an iteration as it was run.
  std::vector<TermComparison> terms;
  std::vector<ActionComparison> actions;
  std::vector<MemoryComparison> memory;  ///< By rank of the pipeline.
  std::vector<TrafficComparison> traffic;
  std::vector<CallComparison> calls;   ///< Over NCCL, which has a model of its own.
  std::vector<double> losses;          ///< Of every step, warm-up included.
  std::vector<double> gradient_norms;  ///< Likewise.
  std::int64_t skipped_steps = 0;      ///< Overflows of fp16.
  /// How bytes or memory differ from what the plan's strategy means: the run ended then.
  std::vector<std::string> differences;
  std::vector<std::string> warnings;  ///< As they were given while it ran.
};

/// As JSON, and back. Throws Error naming the place.
[[nodiscard]] std::string to_json(const RunReport& report);
[[nodiscard]] RunReport parse_run(std::string_view text, const std::string& place);
[[nodiscard]] RunReport read_run(const std::filesystem::path& path);

/// For people: predicted, measured and error of the iteration, of every term and action, memory by
/// rank, traffic.
[[nodiscard]] std::string run_text(const RunReport& report);
[[nodiscard]] std::string in_format(AnswerFormat format, const RunReport& report);

}  // namespace ptdp
