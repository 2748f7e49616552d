// A training run as another framework's files say it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// What files say about a stack's overlap and dispatch; nullopt where they say nothing.
struct StackChanges {
  std::optional<bool> reductions = {};       ///< Whether reductions run behind backward passes.
  std::optional<bool> gathers = {};          ///< Whether ZeRO's gathers run behind forward passes.
  std::optional<bool> within_products = {};  ///< Whether collectives run within products.
  std::optional<bool> pipeline = {};         ///< Whether interleaved messages run beside compute.
  std::optional<bool> experts = {};          ///< Whether tokens travel behind another microbatch.
  std::optional<ExpertDispatch> dispatch = {};
  std::optional<ContextParallel> context = {};
  /// Whether the optimizer keeps weights and moments in fp32 beside bf16 weights. Without them it
  /// updates the bf16 weights with bf16 moments.
  std::optional<bool> master_weights = {};
};
/// Returns the stack with the changes.
[[nodiscard]] StackSpec with_changes(StackSpec stack, const StackChanges& changes);

/// What a reader found besides values, for people.
struct ReadingNotes {
  std::vector<std::string> notes;          ///< What it assumed, derived or left out.
  std::vector<std::string> unknown_flags;  ///< Flags that it does not know, as they are spelled.
};

/// A run that a file describes.
struct ImportedRun {
  std::string place;                       ///< Name of the file that describes it.
  std::string framework;                   ///< With its version: "Megatron-LM".
  std::optional<TransformerConfig> model;  ///< Resolved; nullopt where the file does not say all.
  std::string missing;                     ///< What of the model the file does not say.
  /// Tokens per sequence, where the file says it, with the whole model or without.
  std::optional<int> seq_length = {};
  std::int64_t global_batch_size = 0;
  std::int64_t gpus = 0;
  ParallelConfig config;
  std::string precision;  ///< As --precision takes it: "bf16", "fp8-delayed".
  StackChanges stack;
  ReadingNotes reading;
};

/// Says of flags that nobody read which the stack's profile answers, in a note, and which are not
/// known. The others have no effect. Both functions judge a flag by its name.
void list_unread(const std::vector<std::string>& unread, bool (*is_of_the_stack)(std::string_view),
                 bool (*is_without_effect)(std::string_view), ReadingNotes& reading);

/// Notes an optimizer that is not Adam or AdamW, as whose it is costed; in any case of letters.
void note_optimizer(const std::optional<std::string>& name, ReadingNotes& reading);

/// Sets the number of GPUs, and dp to what the run's other degrees leave; notes both. Throws Error,
/// naming `place`, for 0 GPUs and for GPUs that the degrees do not divide.
void divide_gpus(std::int64_t gpus, const std::string& place, ImportedRun& run);

}  // namespace ptdp
