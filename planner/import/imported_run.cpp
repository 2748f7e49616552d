#include "planner/import/imported_run.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "cost_model/error.h"
#include "cost_model/text/plural.h"

namespace ptdp {

StackSpec with_changes(StackSpec stack, const StackChanges& changes) {
  if (changes.reductions) {
    stack.data_parallel_overlap =
        *changes.reductions ? DataParallelOverlap::kAlways : DataParallelOverlap::kNever;
  }
  stack.parameter_gather_overlap = changes.gathers.value_or(stack.parameter_gather_overlap);
  if (changes.within_products && !*changes.within_products) {
    stack.tp_comm_overlap = TpCommOverlap::kNone;
  } else if (changes.within_products && stack.tp_comm_overlap == TpCommOverlap::kNone) {
    stack.tp_comm_overlap = TpCommOverlap::kUserBuffers;
  }
  if (!changes.master_weights.value_or(true)) {
    // Weight, gradient and two moments of 2 bytes; a step reads all four and writes three.
    stack.gradient_bytes = 2.0;
    stack.optimizer_bytes = 4.0;
    stack.optimizer_traffic = 14.0;
  }
  if (changes.pipeline && !*changes.pipeline) {
    stack.pipeline_overlap = PipelineOverlap::kNever;
  } else if (changes.pipeline && stack.pipeline_overlap == PipelineOverlap::kNever) {
    stack.pipeline_overlap = PipelineOverlap::kInterleaved;
  }
  stack.expert_overlap = changes.experts.value_or(stack.expert_overlap);
  stack.expert_dispatch = changes.dispatch.value_or(stack.expert_dispatch);
  stack.context_parallel_kind = changes.context.value_or(stack.context_parallel_kind);
  return stack;
}

void list_unread(const std::vector<std::string>& unread, bool (*is_of_the_stack)(std::string_view),
                 bool (*is_without_effect)(std::string_view), ReadingNotes& reading) {
  std::string left;
  for (const std::string& flag : unread) {
    if (is_of_the_stack(flag)) {
      left += (left.empty() ? "" : ", ") + flag;
    } else if (!is_without_effect(flag)) {
      reading.unknown_flags.push_back(flag);
    }
  }
  if (!left.empty()) {
    reading.notes.push_back("as the stack has it, whatever the file says: " + left);
  }
}

void note_optimizer(const std::optional<std::string>& name, ReadingNotes& reading) {
  std::string lower = name.value_or("adam");
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower != "adam" && lower != "adamw" && lower != "fusedadam") {
    reading.notes.push_back("optimizer " + *name + ": costed as Adam, with its two moments");
  }
}

void divide_gpus(std::int64_t gpus, const std::string& place, ImportedRun& run) {
  ParallelConfig& config = run.config;
  if (gpus == 0) {
    throw Error(place + ": does not say how many GPUs there are; expected --gpus too");
  }
  if (gpus > std::numeric_limits<int>::max()) {
    throw Error(place + ": expected at most " + std::to_string(std::numeric_limits<int>::max()) +
                " GPUs, got " + std::to_string(gpus));
  }
  run.gpus = gpus;
  config.dp = 1;
  const std::int64_t replica = config.world_size();
  if (gpus % replica != 0) {
    throw Error(place + ": " + plural(gpus, "GPU") + " are no multiple of tp*pp*cp, " +
                std::to_string(replica) + "; --gpus gives another number");
  }
  config.dp = static_cast<int>(gpus / replica);
  run.reading.notes.push_back("dp " + std::to_string(config.dp) + ": " + plural(gpus, "GPU") +
                              " over tp*pp*cp, " + std::to_string(replica));
}

}  // namespace ptdp
