// What Megatron-LM's flags say and Megatron-Bridge's paths say alike, under other names: stages,
// recomputation, experts and window of layers, dropout, messages of context parallelism.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"
#include "planner/import/flag_list.h"
#include "planner/import/imported_run.h"

namespace ptdp {

/// How a pipeline's layers are split, as flags say it.
struct MegatronSplit {
  int vpp = 1;
  std::vector<int> layers_per_stage = {};  ///< Empty: all equal.
};
/// Names of the flags that say a split; empty: there is no such flag.
struct MegatronSplitFlags {
  std::string_view layout = "--pipeline-model-parallel-layout";
  std::string_view chunks = "--num-virtual-stages-per-pipeline-rank";
  std::string_view layers_per_chunk = "--num-layers-per-virtual-pipeline-stage";
  std::string_view first = "--decoder-first-pipeline-num-layers";
  std::string_view last = "--decoder-last-pipeline-num-layers";
  std::string_view embedding = "--account-for-embedding-in-pipeline-split";
  std::string_view loss = "--account-for-loss-in-pipeline-split";
};
/// Returns the split of `num_layers` over `pp` ranks. Throws Error where the flags do not go with
/// these numbers. Source: Megatron-LM, arguments.py and transformer_block.py.
[[nodiscard]] MegatronSplit megatron_split(const FlagList& flags, int num_layers, int pp,
                                           const MegatronSplitFlags& names = {});

/// Names of the flags that say what is recomputed.
struct RecomputeFlags {
  std::string_view granularity;
  std::string_view modules;
  std::string_view method;
  std::string_view num_layers;
};
/// Sets what of `num_layers` layers is recomputed; 0: nobody knows how many there are. `kind` is
/// none, selective or full. pp, vpp and layers_per_stage must be set. Throws Error for other words.
void recompute_as_said(const FlagList& flags, const RecomputeFlags& names, const std::string& kind,
                       int num_layers, ParallelConfig& config);

/// Reads the rates of dropout; a model has none where all are 0.
void read_dropout(const FlagList& flags, std::string_view attention, std::string_view hidden,
                  TransformerConfig& model);
/// Reads how context parallelism sends keys and values, where cp is above 1: the first of the
/// flag's words, else a ring. A note says what is costed as a ring only.
void read_context_parallel(const FlagList& flags, std::string_view flag, ImportedRun& run);

/// Reads which layers have experts: every N-th, or a list with 1 for each that has.
void read_expert_layers(const FlagList& flags, std::string_view flag, TransformerConfig& model);
/// Reads the window of attention: "(4095,0)" is 4095 tokens before each, and none behind it.
void read_window(const FlagList& flags, std::string_view window, std::string_view skipped,
                 TransformerConfig& model);

}  // namespace ptdp
