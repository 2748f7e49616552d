#include "planner/logs/logged_arguments.h"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "cost_model/error.h"
#include "planner/import/launched_program.h"
#include "planner/import/reader.h"

namespace ptdp {
namespace {

/// Compares values of a list of arguments with a plan's.
class Comparison {
 public:
  explicit Comparison(const std::string& place) : place_(place) {}

  void number(std::string_view name, std::int64_t found, std::int64_t expected) const {
    if (found != expected) {
      fail(name, std::to_string(found), std::to_string(expected));
    }
  }
  void word(std::string_view name, std::string_view found, std::string_view expected) const {
    if (found != expected) {
      fail(name, found, expected);
    }
  }

 private:
  void fail(std::string_view name, std::string_view found, std::string_view expected) const {
    throw Error(fmt::format("{}: its arguments: {}: found {}, expected the {} of the plan", place_,
                            name, found, expected));
  }

  const std::string& place_;
};

void compare_models(const Comparison& compare, const TransformerConfig& found,
                    const TransformerConfig& expected) {
  compare.number("layers", found.num_layers, expected.num_layers);
  compare.number("hidden size", found.hidden_size, expected.hidden_size);
  compare.number("attention heads", found.num_attention_heads, expected.num_attention_heads);
  compare.number("query groups", found.num_query_groups, expected.num_query_groups);
  compare.number("width of the MLP", found.ffn_hidden_size, expected.ffn_hidden_size);
  compare.number("experts", found.num_experts, expected.num_experts);
}

void compare_configs(const Comparison& compare, const ParallelConfig& found,
                     const ParallelConfig& expected) {
  compare.number("tensor-parallel size", found.tp, expected.tp);
  compare.number("pipeline-parallel size", found.pp, expected.pp);
  compare.number("data-parallel size", found.dp, expected.dp);
  compare.number("context-parallel size", found.cp, expected.cp);
  compare.number("expert-parallel size", found.ep, expected.ep);
  compare.number("chunks of a pipeline rank", found.vpp, expected.vpp);
  compare.number("micro batch size", found.micro_batch_size, expected.micro_batch_size);
  compare.word("recomputation", name_of(found.recompute, NamedValues<Recompute>(kRecomputeNames)),
               name_of(expected.recompute, NamedValues<Recompute>(kRecomputeNames)));
  if (expected.dp * expected.cp > 1) {
    compare.number("ZeRO stage", found.zero_stage, expected.zero_stage);
  }
  if (expected.tp > 1) {
    compare.number("sequence parallelism", found.sequence_parallel ? 1 : 0,
                   expected.sequence_parallel ? 1 : 0);
  }
}

}  // namespace

std::optional<std::string> check_logged_arguments(const std::string& arguments, const Plan& plan,
                                                  const std::string& place) {
  if (!lists_arguments(arguments)) {
    return std::nullopt;
  }
  ImportedRun run;
  try {
    run = read_megatron({.text = arguments, .place = place});
  } catch (const Error& error) {
    return fmt::format("the arguments that the log lists are not compared with the plan: {}",
                       error.what());
  }
  const Comparison compare(place);
  if (run.model) {
    compare_models(compare, *run.model, plan.scenario.job.model);
  }
  const std::optional<int> length =
      run.seq_length ? run.seq_length
                     : (run.model ? std::optional(run.model->seq_length) : std::nullopt);
  if (length) {
    compare.number("sequence length", *length, plan.scenario.job.model.seq_length);
  }
  compare.number("GPUs", run.gpus, plan.config.world_size());
  compare_configs(compare, run.config, plan.config);
  compare.number("global batch size", run.global_batch_size, plan.scenario.job.global_batch_size);
  return std::nullopt;
}

}  // namespace ptdp
