// Prints the answer of a search, section by section, as text for people.
#include "planner/answer/planning_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>

#include "cost_model/inputs/config_fields.h"
#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/iteration/flops.h"
#include "cost_model/pipeline_rank/rank_parameters.h"
#include "cost_model/text/plural.h"
#include "planner/accuracy/costed_runs.h"
#include "planner/answer/memory_text.h"
#include "planner/answer/plan_explanation.h"
#include "planner/answer/published_formulas.h"
#include "planner/explain/nothing_fits.h"
#include "planner/formatting.h"
#include "planner/plan/run_terms.h"
#include "planner/plan/term_intervals.h"
#include "planner/search/ties.h"

namespace ptdp {
namespace {

constexpr double kShownShare = 0.0005;

template <class Value, class Show>
std::string with_interval(const Estimate<Value>& estimate, Show show) {
  return fmt::format("{:<18} {} .. {}", show(estimate.value), show(estimate.low),
                     show(estimate.high));
}

/// Returns the FLOPs of an iteration over the hardware's, counted as `count` says.
double share_counted(const Plan& plan, FlopCount count) {
  const TrainingJob& job = plan.scenario.job;
  return counted_flops(count, job.model, job.global_batch_size, plan.config) /
         plan.predicted.hardware_flops;
}

/// Returns what the headline's FLOPs are: those that the stack's log counts, if that is known.
std::string counted_text(const StackSpec& stack) {
  constexpr std::array<std::string_view, kFlopCountNames.size()> texts = {
      "hardware FLOPs", "model FLOPs", "model FLOPs, causal attention"};
  const FlopCount count = stack.logged_flops.value_or(FlopCount::kHardware);
  return fmt::format("{}{}", texts[static_cast<std::size_t>(count)],
                     stack.logged_flops ? ", as in its log" : "");
}

std::string fp8_row(const StackSpec& stack) {
  return stack.fp8 ? row("linear layers", fmt::format("{}, the rest {}", name_of(*stack.fp8),
                                                      name_of(stack.precision)))
                   : "";
}

/// Returns what is recomputed: ": core_attn+mlp", ": block 2". Empty when the kind of recomputation
/// says all.
std::string recomputed(const ParallelConfig& config) {
  if (repeats(config.recompute) == Repeats::kModules &&
      config.recompute_modules != kCoreAttentionAlone) {
    return ": " + to_string(config.recompute_modules);
  }
  return config.recomputes_by_layers()
             ? fmt::format(": {} {}", name_of(config.recompute_method), config.recompute_num_layers)
             : "";
}

std::string offloaded(const ParallelConfig& config) {
  return config.offload_num_layers > 0 ? ": first " + plural(config.offload_num_layers, "layer")
                                       : "";
}

/// Returns what follows the value of a field on its row: details that have no row of their own.
std::string remark(std::string_view key, const Plan& plan) {
  const ParallelConfig& config = plan.config;
  return key == "pp" && config.vpp > 1 ? fmt::format(", {} chunks each", config.vpp)
         : key == "micro_batch_size"
             ? fmt::format(" {}, {} per replica and iteration",
                           config.micro_batch_size == 1 ? "sequence" : "sequences",
                           plural(plan.schedule.num_microbatches, "microbatch", "microbatches"))
         : key == "schedule"   ? stack_remark(plan.scenario.stack, config)
         : key == "recompute"  ? recomputed(config)
         : key == "zero_stage" ? zero_remark(config)
         : key == "offload"    ? offloaded(config)
                               : "";
}

std::string configuration(const Plan& plan) {
  const ParallelConfig& config = plan.config;
  std::string text =
      "\nConfiguration\n" +
      row("parameters",
          short_number(static_cast<double>(parameter_count(plan.scenario.job.model))));
  for_each_config_field([&](const auto& field) {
    const bool is_always_shown = field.traits.is_always_printed || field.key == "zero_stage" ||
                                 field.key == "sequence_parallel";
    if (!field.traits.label.empty() && (is_always_shown || !field.is_usual(config))) {
      const std::string value = field.key == "reshard_after_forward" ? "kept after forward passes"
                                : field.key == "sequence_parallel"
                                    ? (config.sequence_parallel ? "yes" : "no")
                                    : spelled(config.*field.member);
      text += row(field.traits.label, value + remark(field.key, plan));
      text += field.key == "schedule" ? fp8_row(plan.scenario.stack) : "";
    }
  });
  return text + row("GPUs", fmt::format("{} used, {} idle", config.world_size(),
                                        plan.gpus - config.world_size()));
}

std::string budget_rows(const Plan& plan, const RunBudget& budget) {
  if (!budget.tokens.has_value()) {
    return "";
  }
  const TrainingRun run = training_run(plan.predicted, plan.config.world_size(), *budget.tokens,
                                       budget.price_per_gpu_hour);
  std::string text =
      row(short_number(*budget.tokens) + " tokens", with_interval(run.time, duration)) +
      row("GPU-hours", with_interval(run.gpu_hours, short_number));
  if (run.cost.has_value()) {
    text += row(fmt::format("cost at {:.4g} per GPU-hour", *budget.price_per_gpu_hour),
                with_interval(*run.cost, short_number));
  }
  return text;
}

/// Returns to which peak MFU and HFU refer, when the plan uses several peaks of a GPU.
std::string peak_remark(const Scenario& scenario) {
  return scenario.stack.fp8
             ? fmt::format(
                   "  Both are shares of {}'s peak, {:.4g} TFLOP/s; of {}'s they are {:.3g} times "
                   "as much.\n",
                   bits_of(*scenario.stack.fp8) == 4 ? "nvfp4" : "fp8",
                   matmul_peak(scenario).value() / kTera, name_of(scenario.stack.precision),
                   matmul_peak(scenario) / scenario.cluster.gpu.peak(scenario.stack.precision))
             : "";
}

std::string predictions(const Plan& plan, const RunBudget& budget) {
  const Prediction& predicted = plan.predicted;
  const auto gpus = static_cast<double>(plan.config.world_size());
  const auto tera = [](FlopsPerSecond rate) {
    return fmt::format("{:.4g} TFLOP/s", rate.value() / kTera);
  };
  const auto peta = [gpus](FlopsPerSecond rate) {
    return fmt::format("{:.4g} PFLOP/s", rate.value() * gpus / kPeta);
  };
  return fmt::format("\nPredicted (90 % interval; {})\n",
                     predicted.basis({plan.scenario, plan.config})) +
         row("time per iteration", with_interval(predicted.iteration_time, duration)) +
         row("per GPU", with_interval(predicted.per_gpu, tera)) +
         row("all GPUs", with_interval(predicted.per_gpu, peta)) +
         row("of peak (HFU)", with_interval(predicted.hfu, percent)) +
         row("MFU", with_interval(predicted.mfu, percent)) +
         row("MFU, causal attention", with_interval(causal_mfu(plan), percent)) +
         row("tokens/s", with_interval(predicted.tokens_per_second, grouped)) +
         budget_rows(plan, budget) +
         "  HFU (hardware FLOP utilization) and FLOP/s count what recomputation repeats,\n"
         "  MFU (model FLOP utilization) does not. Both count attention in full; fused\n"
         "  kernels skip the half that a causal mask hides, and MFU with causal\n"
         "  attention leaves it out.\n" +
         peak_remark(plan.scenario);
}

std::string time_breakdown(const Plan& plan) {
  const CostBreakdown& cost = plan.predicted.breakdown;
  const Seconds total = cost.total();
  std::string text = "\nWhere the time goes\n";
  for (const CostTerm& term : terms_by_time(cost)) {
    if (cost.*term.time / total >= kShownShare) {
      text += share_row(term.name, cost.*term.time, total);
    }
  }
  return text;
}

/// Returns the terms of a run with their intervals, where steps of such a job were measured.
std::string term_intervals(const Plan& plan) {
  const StepErrors* const errors = step_errors({plan.scenario, plan.config});
  if (errors == nullptr) {
    return "";
  }
  const RunTerms terms = predicted_run_terms(plan, 0);
  std::string text =
      fmt::format("\nTerms of a run (90 % interval of what is measured; {})\n", errors->basis);
  for (int number = 0; number < kNumRunTerms; ++number) {
    const auto term = static_cast<RunTerm>(number);
    if (const std::optional<Estimate<Seconds>> time = errors->estimate(term, terms[term])) {
      text += row(std::string(kRunTermNames[static_cast<std::size_t>(number)]),
                  with_interval(*time, duration));
    }
  }
  return text;
}

/// Returns how likely the plan fits, with what runs had beyond the formulas of memory; empty where
/// nothing is known.
std::string fit_of_memory(const Plan& plan) {
  const PlanMemory& memory = plan.memory;
  const MemoryBelief& beyond = memory.beyond;
  if (!beyond.is_known()) {
    return "";
  }
  const std::string into = fitted_memory(plan.scenario.cluster.gpu.memory, plan.memory_headroom);
  return fmt::format("\nHow likely it fits (rests on {})\n", to_text(beyond.support)) +
         row("all but the reserve",
             fmt::format("{:.2f} GiB by the formulas", memory.formulas().value() / kGibi)) +
         row("runs have beyond that", beyond_text(beyond)) +
         row("so the plan", fitting_text(memory.probability_of_fitting, beyond) +
                                (into.empty() ? "" : " into ") + into);
}

std::string memory_breakdown(const Plan& plan) {
  const int heaviest = plan.memory.heaviest_rank;
  const MemoryBreakdown& memory = plan.memory.stages[static_cast<std::size_t>(heaviest)];
  const double capacity = plan.scenario.cluster.gpu.memory.value() / kGibi;
  std::string text =
      fmt::format("\nMemory of the heaviest stage, {} of {}: {:.2f} of {:.2f} GiB{}\n",
                  heaviest + 1, plan.config.pp, memory.total().value() / kGibi, capacity,
                  plan.memory_headroom == 0.0
                      ? ""
                      : fmt::format(", {:.2f} GiB kept free", plan.memory_headroom * capacity));
  for (const MemoryTerm& term : kMemoryTerms) {
    text += row(term.name, fmt::format("{:>6.2f} GiB", (memory.*term.size).value() / kGibi));
  }
  return text + fit_of_memory(plan);
}

std::string traffic(const Plan& plan) {
  const Traffic& sent = plan.predicted.traffic;
  const auto rate = [](BytesPerSecond value) { return bytes(Bytes(value.value())) + "/s"; };
  std::string text = "\nSent by each GPU per iteration\n";
  if (plan.config.tp > 1) {
    text += row("tensor parallel", bytes(sent.tensor_parallel));
  }
  if (plan.config.cp > 1) {
    text += row("context parallel", bytes(sent.context_parallel));
  }
  if (plan.config.pp > 1) {
    text += row("pipeline", fmt::format("{}; on average {} cross the middle of the pipeline",
                                        bytes(sent.pipeline), rate(sent.pipeline_bisection)));
  }
  if (has_replicas(plan.scenario.job.model, plan.config)) {
    text += row("data parallel",
                fmt::format("{}; on average {} over all GPUs", bytes(sent.data_parallel),
                            rate(sent.data_parallel_total)));
  }
  if (sent.expert_parallel > Bytes(0.0)) {
    text += row("expert parallel", bytes(sent.expert_parallel));
  }
  return plan.config.world_size() > 1 ? text : "";
}

/// Returns the plan's breakdown in what the objective counts: seconds, or GPU-seconds.
CostBreakdown cost_of(const Plan& plan, Objective objective) {
  return counted(plan.predicted.breakdown, plan.config, objective);
}

/// Returns how likely a plan that loses by `loss` is better than the first one. Where no runs say
/// how layouts of a job scatter, it returns whether the two tie.
std::string odds_of(const PlanningResult& result, const Plan& plan, double loss) {
  const Plan& best = result.plans.front();
  if (result.calibration.is_calibrated()) {
    return fmt::format(", {:.0f} % likely better", 100.0 * probability_better(plan, best, result));
  }
  return std::abs(loss) <= result.options.tie ? ", a tie" : "";
}

std::string runners_up(const PlanningResult& result) {
  if (result.plans.size() < 2) {
    return "";
  }
  const Objective objective = result.options.objective;
  const Plan& best = result.plans.front();
  std::string text = "\nRunners-up\n";
  for (std::size_t i = 1; i < result.plans.size(); ++i) {
    const Plan& plan = result.plans[i];
    const Seconds time = plan.predicted.iteration_time.value;
    const double loss = loss_of(plan, best, objective);
    text += fmt::format("  {}. {}{}: {} ({:+.1f} %{}{}), {:.1f} GiB{}; {}\n", i + 1,
                        to_string(plan.config), stack_remark(plan.scenario.stack, plan.config),
                        duration(time), 100.0 * loss, objective == Objective::kCost ? " cost" : "",
                        odds_of(result, plan, loss), plan.memory.peak().value() / kGibi,
                        fitting_remark(plan.memory.probability_of_fitting, plan.memory.beyond),
                        describe_differences(cost_of(plan, objective), cost_of(best, objective),
                                             unit_of(objective)));
  }
  return text;
}

/// Returns the Pareto front as far as a person would follow it: up to twice the best time, at most
/// eight plans evenly apart.
std::string pareto(const PlanningResult& result) {
  constexpr std::size_t most = 8;
  std::vector<Candidate> front = result.search.pareto;
  std::erase_if(front, [fastest = front.empty() ? Seconds() : front.front().time](
                           const Candidate& candidate) { return candidate.time > 2.0 * fastest; });
  const std::size_t shown = std::min(front.size(), most);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const Candidate& candidate = front[shown < 2 ? 0 : i * (front.size() - 1) / (shown - 1)];
    text += fmt::format("  {:>6.1f} GiB  {:>10}  {}{}\n", candidate.memory.value() / kGibi,
                        duration(candidate.time * result.calibration.factor),
                        to_string(candidate.config),
                        stack_remark(result.scenario.stack, candidate.config));
  }
  return front.size() < 2
             ? ""
             : fmt::format("\nLess memory for more time (Pareto front{})\n",
                           shown < front.size()
                               ? fmt::format(", {} of {}", shown, plural(std::ssize(front), "plan"))
                               : "") +
                   text;
}

std::string baselines(const PlanningResult& result) {
  std::string text = "\nRules of thumb\n";
  if (result.baselines.empty()) {
    return text + "  not looked at: the search ended early\n";
  }
  for (const Baseline& baseline : result.baselines) {
    if (!baseline.choice.has_value()) {
      text += fmt::format("  {}: nothing that follows it fits\n", baseline.name);
      continue;
    }
    const ParallelConfig& config = baseline.choice->config;
    const std::int64_t idle = result.options.gpus - config.world_size();
    text += fmt::format(
        "  {}: {}{}: {:+.1f} %{}{}\n", baseline.name, to_string(config),
        stack_remark(result.scenario.stack, config),
        100.0 * loss(*baseline.choice, result.search.best.front(), result.options.objective),
        result.options.objective == Objective::kCost ? " cost" : "",
        idle > 0 ? fmt::format(", {} idle", plural(idle, "GPU")) : "");
  }
  return text;
}

std::string published(const PlanningResult& result) {
  if (result.published.empty()) {
    return "\nPublished\n  no run of this model, batch and number of GPUs is known to us\n";
  }
  const Plan& best = result.plans.front();
  std::string text = result.leaves_out_published_runs && result.calibration.is_calibrated()
                         ? "\nPublished (left out of the calibration)\n"
                         : "\nPublished\n";
  for (const PublishedComparison& comparison : result.published) {
    const MeasuredRun& run = comparison.run;
    const Prediction& predicted = comparison.predicted;
    text += fmt::format(
        "  {} ({}, {}): {}: measured {}, {:.4g} TFLOP/s per GPU; predicted {} ({:+.1f} %)\n",
        run.id, run.source, run.stack, to_string(run.config), duration(run.iteration_time),
        tflops_per_gpu(run, run.iteration_time), duration(predicted.iteration_time.value),
        100.0 * (predicted.iteration_time.value / run.iteration_time - 1.0));
    if (!comparison.is_same_stack) {
      text += "    on another cluster or stack than planned for here\n";
    } else if (run.config == best.config) {
      text += "    the same configuration as ours\n";
    } else {
      text += fmt::format("    ours differs; compared with it the published one spends {}\n",
                          describe_differences(predicted.breakdown, best.predicted.breakdown));
    }
  }
  return text;
}

std::string tally(const SearchResult& result) {
  std::string text =
      fmt::format("\nCandidates: {} enumerated, {} fit{}\n", result.enumerated, result.feasible,
                  result.feasible < result.enumerated ? "; why the others do not:" : "");
  for (const ConstraintText& constraint : kConstraints) {
    const auto found = result.violations.find(constraint.constraint);
    if (found != result.violations.end()) {
      text += fmt::format("  {:>9}  {}\n", found->second, constraint.description);
    }
  }
  return text;
}

/// Returns what lies outside of measured operations, and outside of all runs.
std::vector<std::string> extrapolations_of(const Prediction& predicted) {
  std::vector<std::string> all = predicted.outside_runs;
  all.insert(all.end(), predicted.extrapolations.begin(), predicted.extrapolations.end());
  return all;
}

}  // namespace

std::string to_text(const Plan& plan, const RunBudget& budget) {
  return headline(plan) + configuration(plan) + predictions(plan, budget) + time_breakdown(plan) +
         term_intervals(plan) + memory_breakdown(plan) + traffic(plan) +
         titled("Extrapolated, beyond what was measured", extrapolations_of(plan.predicted)) +
         formulas_text(plan, budget);
}

std::string headline(const Plan& plan) {
  const Scenario& scenario = plan.scenario;
  const Prediction& predicted = plan.predicted;
  const double share =
      share_counted(plan, scenario.stack.logged_flops.value_or(FlopCount::kHardware));
  const std::int64_t idle = plan.gpus - plan.config.world_size();
  return fmt::format(
      "Train {} on {}{} ({} with {}) with {}{}: {} per iteration of {}, {:.4g} TFLOP/s per {} "
      "({}), "
      "{} of peak.\n",
      scenario.job.model_name, devices(plan.gpus, scenario.cluster.gpu),
      idle > 0 ? fmt::format(", {} of them idle", idle) : "", scenario.cluster.name,
      scenario.stack.name, to_string(plan.config), stack_remark(scenario.stack, plan.config),
      duration(predicted.iteration_time.value), plural(scenario.job.global_batch_size, "sequence"),
      share * predicted.per_gpu.value.value() / kTera, device(scenario.cluster.gpu),
      counted_text(scenario.stack), percent(share * predicted.hfu.value));
}

std::vector<CostTerm> terms_by_time(const CostBreakdown& cost) {
  std::vector<CostTerm> terms(kCostTerms.begin(), kCostTerms.end());
  std::ranges::stable_sort(
      terms, [&](const CostTerm& a, const CostTerm& b) { return cost.*a.time > cost.*b.time; });
  return terms;
}

Estimate<double> causal_mfu(const Plan& plan) {
  const double share =
      share_counted(plan, FlopCount::kCausal) / share_counted(plan, FlopCount::kModel);
  const Estimate<double>& mfu = plan.predicted.mfu;
  return {.value = share * mfu.value, .low = share * mfu.low, .high = share * mfu.high};
}

double loss_of(const Plan& plan, const Plan& best, Objective objective) {
  const auto score_of = [&](const Plan& of) {
    return score(of.predicted.iteration_time.value, of.config, objective);
  };
  return score_of(plan) / score_of(best) - 1.0;
}

namespace {

/// Returns the fields of a configuration that another one has otherwise: "vpp=3
/// schedule=interleaved". Layers per stage follow from these.
std::string fields_apart(const ParallelConfig& config, const ParallelConfig& other) {
  std::string text;
  for_each_config_field([&](const auto& field) {
    if (field.key != "layers_per_stage" && config.*field.member != other.*field.member) {
      text +=
          fmt::format("{}{}={}", text.empty() ? "" : " ", field.key, spelled(config.*field.member));
    }
  });
  return text;
}

}  // namespace

std::string choice_remark(const PlanningResult& result) {
  std::string text;
  const SearchResult& found = result.search;
  if (found.fastest) {
    text += fmt::format(
        "Chosen among {} within {:.3g} %: {} slower than with {} for {}.\n",
        plural(static_cast<std::int64_t>(found.ties.size()), "plan"), 100.0 * result.options.tie,
        percent(loss(found.best.front(), *found.fastest, result.options.objective)),
        fields_apart(found.fastest->config, found.best.front().config),
        fmt::join(
            gains_of_choice(found.best.front(), *found.fastest, result.scenario, result.options),
            ", "));
  }
  if (result.fuller) {
    const Seconds time = result.fuller->best.time * result.calibration.factor;
    const double tokens = static_cast<double>(result.fuller->global_batch_size) *
                          result.scenario.job.model.seq_length;
    text += fmt::format(
        "With --global-batch-size {} instead of {} all would work: {}, {} per iteration, {} "
        "tokens/s.\n",
        result.fuller->global_batch_size, result.scenario.job.global_batch_size,
        to_string(result.fuller->best.config), duration(time), grouped(tokens / time.value()));
  }
  return text;
}

std::string to_text(const PlanningResult& result, const RunBudget& budget,
                    const AnswerNotes& notes) {
  const std::string remark = choice_remark(result);
  std::string explanation;
  if (result.explanation) {
    explanation = "\nWhat binds this plan\n";
    for (const std::string& sentence : explanation_sentences(result)) {
      explanation += paragraph(sentence, "  ");
    }
  }
  return to_text(result.plans.front(), budget) + (remark.empty() ? "" : "\n" + remark) +
         unproven_remark(result.search, result.options, result.calibration.factor) + explanation +
         runners_up(result) + pareto(result) + baselines(result) + published(result) +
         tally(result.search) + titled("Assumed", notes.assumptions) +
         titled("Remarks", notes.remarks) + titled("Next", {notes.next});
}

std::string failure_text(const PlanningResult& result) {
  std::string text = fmt::format(
      "nothing fits: {} on {} of {} with {} and batch {}: {}, none can run\n",
      result.scenario.job.model_name, plural(result.options.gpus, "GPU"),
      result.scenario.cluster.name, result.scenario.stack.name,
      result.scenario.job.global_batch_size, plural(result.search.enumerated, "candidate"));
  text += why_nothing_fits(result.scenario, result.options, result.search);
  if (const auto larger = gpus_that_would_do(result.scenario, result.options)) {
    text += fmt::format("  {} GPUs would do: {}\n", larger->gpus, to_string(larger->config));
  }
  return text;
}

std::string in_format(AnswerFormat format, const Plan& plan, const RunBudget& budget) {
  return format == AnswerFormat::kJson ? to_json(plan) : to_text(plan, budget);
}

}  // namespace ptdp
