// A line of progress in the log of a training program.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "cost_model/text/named_values.h"

namespace ptdp {

/// Programs by the lines of progress that they print. A log that has lines of several is read by
/// the first of these.
enum class LogFormat {
  kMegatron,  ///< Megatron-LM, Megatron-Bridge, Megatron-DeepSpeed and other forks.
  kNanotron,
  kTorchtitan,
  kDeepSpeedPipeline,  ///< DeepSpeed's pipeline engine.
  kNemo,               ///< NeMo 1 and 2, and their records for dllogger.
  kDeepSpeed,          ///< DeepSpeed's timer of throughput.
  kProgressBar         ///< A tqdm bar, as Hugging Face's Trainer has it.
};
/// Names of the programs, as reports and documents have them.
inline constexpr std::array kLogFormatNames = {
    NamedValue<LogFormat>{LogFormat::kMegatron, "Megatron"},
    NamedValue<LogFormat>{LogFormat::kNanotron, "nanotron"},
    NamedValue<LogFormat>{LogFormat::kTorchtitan, "torchtitan"},
    NamedValue<LogFormat>{LogFormat::kDeepSpeedPipeline, "DeepSpeed pipeline engine"},
    NamedValue<LogFormat>{LogFormat::kNemo, "NeMo"},
    NamedValue<LogFormat>{LogFormat::kDeepSpeed, "DeepSpeed"},
    NamedValue<LogFormat>{LogFormat::kProgressBar, "progress bar"}};

/// What a line of progress says. Values that it does not print are nullopt.
struct LogRecord {
  LogFormat format = LogFormat::kMegatron;
  std::int64_t step = 0;          ///< Number of the iteration.
  std::int64_t total = 0;         ///< Last number of a progress bar; 0 of other records.
  std::optional<double> seconds;  ///< Time of an iteration [s].
  std::optional<double> clock;    ///< When it was printed [s], from any moment on.
  std::optional<double> batch;    ///< Batch, in sequences; nanotron's newer versions print tokens.
  std::optional<double> samples_per_second;     ///< Sequences of all GPUs per second.
  std::optional<double> tokens_per_gpu_second;  ///< Tokens of one GPU per second.
  std::optional<double> tflops_per_gpu;         ///< TFLOP/s per GPU, as the program counts FLOPs.
  std::optional<double> loss;                   ///< NaN where the program prints that.
  std::optional<double> skipped;  ///< Iterations since the last line without an optimizer step.
  std::optional<double> allocated_bytes;  ///< Most bytes that tensors took on a GPU.
  std::optional<double> reserved_bytes;   ///< Most bytes that PyTorch's allocator took on a GPU.
};

}  // namespace ptdp
