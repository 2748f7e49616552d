// Puts a plan's figures into the closed formulas of SC21.
#include "planner/answer/published_formulas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/iteration/flops.h"
#include "cost_model/layer/layer_activations.h"
#include "cost_model/memory/pipeline_formulas.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

/// Returns whether a schedule's bubble is (p−1)(F+B) of a stage in every step, by its traits.
bool has_usual_bubble(const Plan& plan) {
  const ScheduleTraits& traits = traits_of(plan.config.schedule);
  const bool has_usual_groups =
      !traits.has_groups || plan.schedule.microbatch_group_size == plan.config.pp;
  return traits.is_synchronous && traits.bubble.starts_with("(p-1)(F+B)") && has_usual_groups;
}

/// Returns whether a model has the shape that SC21 writes its equations for. They are evaluated as
/// printed, and compared with the count of products, which follows any shape.
bool has_shape_of_gpt(const TrainingJob& job) {
  const auto h = static_cast<double>(job.model.hidden_size);
  const auto l = static_cast<double>(job.model.num_layers);
  const auto s = static_cast<double>(job.model.seq_length);
  const auto v = static_cast<double>(job.model.vocab_size);
  const auto batch = static_cast<double>(job.global_batch_size);
  const double printed = 96.0 * batch * s * l * h * h * (1.0 + s / (6.0 * h) + v / (16.0 * l * h));
  return is_close(printed, sc21_flops(job.model, job.global_batch_size).value());
}

/// Returns whether all layers are recomputed, as in all runs of SC21.
bool recomputes_all(const ParallelConfig& config) {
  return config.recompute == Recompute::kFull && !config.recomputes_by_layers();
}

/// Returns what the pacing rank takes for both passes of a microbatch, t_f + t_b.
Seconds forward_and_backward(const Plan& plan) {
  const CostBreakdown& cost = plan.predicted.breakdown;
  const Seconds all = cost.matmul + cost.attention + cost.memory_bound + cost.launch +
                      cost.tensor_parallel + cost.expert_parallel + cost.recompute +
                      cost.embedding_and_logits;
  return all / static_cast<double>(plan.schedule.num_microbatches);
}

void add_bubbles(const Plan& plan, std::vector<PublishedFormula>& formulas) {
  const ParallelConfig& config = plan.config;
  const auto microbatches = static_cast<double>(plan.schedule.num_microbatches);
  if (config.pp == 1 || config.cp > 1 || !has_usual_bubble(plan)) {
    return;
  }
  formulas.push_back({.key = "bubble_fraction",
                      .name = "pipeline bubble over ideal time",
                      .equation = config.vpp > 1 ? "(p-1)/(v m)" : "(p-1)/m",
                      .place = config.vpp > 1 ? "section 2.2.2" : "section 2.2.1",
                      .unit = "",
                      .value = bubble_fraction(config.pp, config.vpp, microbatches)});
  if (config.vpp == 1 && config.dp == 1) {
    formulas.push_back(
        {.key = "tensor_pipeline_bubble_fraction",
         .name = "the same for one replica of n GPUs",
         .equation = "(n/t-1)/m",
         .place = "section 3.2",
         .unit = "",
         .value = tensor_pipeline_bubble_fraction(config.world_size(), config.tp, microbatches)});
  }
  if (config.vpp == 1 && config.tp == 1) {
    formulas.push_back({.key = "data_pipeline_bubble_fraction",
                        .name = "the same for n GPUs without tensor parallelism",
                        .equation = "(n-d)/b', b' = B/b",
                        .place = "section 3.3.1",
                        .unit = "",
                        .value = data_pipeline_bubble_fraction(config.world_size(), config.dp,
                                                               microbatches * config.dp)});
  }
}

void add_times(const Plan& plan, const RunBudget& budget, std::vector<PublishedFormula>& formulas) {
  const ParallelConfig& config = plan.config;
  const TrainingJob& job = plan.scenario.job;
  if (config.vpp == 1 && config.cp == 1 && has_usual_bubble(plan)) {
    const double batch = static_cast<double>(job.global_batch_size) / config.dp;
    formulas.push_back({.key = "batch_time",
                        .name = "time of a batch, messages and reductions left out",
                        .equation = "(b'/b+p-1)(t_f+t_b), b' = B/d",
                        .place = "equation 1",
                        .unit = "s",
                        .value = microbatched_time(batch, config.micro_batch_size, config.pp,
                                                   forward_and_backward(plan))
                                     .value()});
  }
  if (budget.tokens.has_value() && recomputes_all(config) && job.model.num_experts == 0) {
    formulas.push_back(
        {.key = "training_time",
         .name = "time of the whole training",
         .equation = "8TP/(nX)",
         .place = "equation 4",
         .unit = "s",
         .value =
             sc21_training_time(*budget.tokens, static_cast<double>(parameter_count(job.model)),
                                config.world_size(), plan.predicted.per_gpu.value)
                 .value()});
  }
}

void add_sizes(const Plan& plan, std::vector<PublishedFormula>& formulas) {
  const TrainingJob& job = plan.scenario.job;
  if (recomputes_all(plan.config) && plan.config.cp == 1 && has_one_kind(job.model)) {
    const auto kept = [&](Recompute recompute) {
      ParallelConfig config = plan.config;
      config.recompute = recompute;
      return kept_by_layer(plan.scenario, config, kind_of_layer(job.model, 0));
    };
    const std::vector<int>& layers = plan.schedule.layers_per_stage;
    formulas.push_back(
        {.key = "checkpoints",
         .name = "activation checkpoints of a stage with the least memory",
         .equation = "sqrt(l A_intermediate/A_input)",
         .place = "section 3.5",
         .unit = "checkpoints",
         .value = best_num_checkpoints(*std::max_element(layers.begin(), layers.end()),
                                       kept(Recompute::kFull), kept(Recompute::kNone))});
  }
  if (!has_shape_of_gpt(job)) {
    return;
  }
  formulas.push_back({.key = "parameters",
                      .name = "parameters",
                      .equation = "12lh^2 (1 + 13/(12h) + (V+s)/(12lh))",
                      .place = "equation 2",
                      .unit = "parameters",
                      .value = sc21_parameter_count(job.model)});
  if (recomputes_all(plan.config)) {
    formulas.push_back({.key = "flops",
                        .name = "FLOPs of a batch, all layers recomputed",
                        .equation = "96Bslh^2 (1 + s/(6h) + V/(16lh))",
                        .place = "equation 3",
                        .unit = "FLOP",
                        .value = sc21_flops(job.model, job.global_batch_size).value()});
  }
}

/// Returns the value of a formula as people read it.
std::string shown_value(const PublishedFormula& formula) {
  return formula.unit.empty()  ? percent(formula.value)
         : formula.unit == "s" ? duration(Seconds(formula.value))
                               : fmt::format("{:.4g}", formula.value);
}

}  // namespace

std::vector<PublishedFormula> published_formulas(const Plan& plan, const RunBudget& budget) {
  std::vector<PublishedFormula> formulas;
  add_bubbles(plan, formulas);
  if (plan.config.dp > 1 && plan.config.cp == 1) {
    formulas.push_back({.key = "ring_all_reduce_share",
                        .name = "of the gradients, sent in each half of a ring all-reduce",
                        .equation = "(d-1)/d",
                        .place = "section 3.3.1",
                        .unit = "",
                        .value = (plan.config.dp - 1.0) / plan.config.dp});
  }
  add_times(plan, budget, formulas);
  add_sizes(plan, formulas);
  return formulas;
}

std::string formulas_text(const Plan& plan, const RunBudget& budget) {
  std::vector<std::string> lines;
  for (const PublishedFormula& formula : published_formulas(plan, budget)) {
    lines.push_back(fmt::format("{:>10}  {}: {} ({})", shown_value(formula), formula.name,
                                formula.equation, formula.place));
  }
  return titled("Formulas of SC21 (arXiv:2104.04473) for this plan", lines);
}

std::vector<ObjectWriter> formulas_json(const Plan& plan, const RunBudget& budget) {
  std::vector<ObjectWriter> formulas;
  for (const PublishedFormula& formula : published_formulas(plan, budget)) {
    ObjectWriter& json = formulas.emplace_back();
    json.text("key", std::string(formula.key));
    json.text("name", std::string(formula.name));
    json.text("equation", std::string(formula.equation));
    json.text("source", "SC21 (arXiv:2104.04473) " + std::string(formula.place));
    json.number("value", formula.value);
    json.text("unit", std::string(formula.unit));
  }
  return formulas;
}

}  // namespace ptdp
