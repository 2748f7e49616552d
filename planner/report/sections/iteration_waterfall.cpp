#include "planner/report/sections/iteration_waterfall.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/iteration/flops.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "planner/formatting.h"
#include "planner/plan/run_terms.h"
#include "planner/plan/term_intervals.h"

namespace ptdp {
namespace {

/// Time of an iteration's useful products at the peak of all GPUs in use.
struct IdealTime {
  Seconds linear;     ///< Products with weights: layers, experts, logits.
  Seconds attention;  ///< QKᵀ and PV of the tokens that a causal mask leaves.
};

IdealTime ideal_time(const Plan& plan) {
  const TrainingJob& job = plan.scenario.job;
  const auto at_peak = [&](Flops flops) {
    return flops / static_cast<double>(plan.config.world_size()) / matmul_peak(plan.scenario);
  };
  const Flops linear = linear_flops(job.model, job.global_batch_size);
  return {.linear = at_peak(linear),
          .attention = at_peak(causal_model_flops(job.model, job.global_batch_size) - linear)};
}

/// Returns what the products of the logits take on the GPU that paces the iteration.
Seconds logits_products(const Plan& plan) {
  const PlannedJob job(plan.scenario, plan.config);
  return static_cast<double>(job.microbatches()) * plan.predicted.calibration_factor *
         pipeline_costs(job).slowest.ends.matmul;
}

/// Bars of a waterfall, with intervals where steps of such a job were measured.
class Waterfall {
 public:
  explicit Waterfall(const Plan& plan)
      : errors_(step_errors({plan.scenario, plan.config})),
        whole_(plan.predicted.iteration_time.value) {}

  void add(std::string name, Seconds time, Tint tint, std::string note) {
    if (is_visible(time)) {
      bars_.push_back(
          {.name = std::move(name), .value = time.value(), .tint = tint, .note = std::move(note)});
    }
  }

  /// Adds what a term takes beyond a part of it that a bar above holds, with the term's interval.
  void add(std::string name, RunTerm term, std::pair<Seconds, Seconds> whole_and_part, Tint tint,
           std::string note) {
    const auto [whole, part] = whole_and_part;
    add(std::move(name), whole - part, tint, std::move(note));
    const auto interval = errors_ == nullptr ? std::nullopt : errors_->estimate(term, whole);
    if (interval && is_visible(whole - part)) {
      bars_.back().low = (interval->low - part).value();
      bars_.back().high = (interval->high - part).value();
    }
  }

  [[nodiscard]] std::vector<Bar> bars() && { return std::move(bars_); }

 private:
  /// Returns whether a time is more than what rounding leaves of none.
  [[nodiscard]] bool is_visible(Seconds time) const {
    return beyond_rounding(Seconds(std::abs(time.value())), whole_) > Seconds(0.0);
  }

  const StepErrors* errors_;
  Seconds whole_;
  std::vector<Bar> bars_;
};

void add_compute(Waterfall& waterfall, const Plan& plan) {
  const CostBreakdown& cost = plan.predicted.breakdown;
  const IdealTime ideal = ideal_time(plan);
  const Seconds logits = logits_products(plan);
  waterfall.add("ideal compute", ideal.linear + ideal.attention, Tint::kCompute,
                fmt::format("Products of the model and attention under a causal mask, forward and "
                            "backward, at {} on all GPUs in use. Its share of the iteration is the "
                            "MFU with causal attention.",
                            rate(matmul_peak(plan.scenario))));
  waterfall.add("matmul below peak", RunTerm::kMatmul, {cost.matmul + logits, ideal.linear},
                Tint::kWaste,
                "What products of layers and logits take beyond that, on the GPU that paces the "
                "iteration; below 0 only where its share of them is smaller than the mean.");
  waterfall.add("attention below peak", RunTerm::kAttention, {cost.attention, ideal.attention},
                Tint::kWaste,
                "What attention takes beyond that: kernels below the peak, softmax, and scores "
                "that a kernel computes although they are masked.");
  waterfall.add(
      "memory_bound", cost.memory_bound, Tint::kWaste,
      "Element-wise operations: norms, biases, dropout, activations, and adding gradients up.");
  waterfall.add("embedding_and_logits but matmul", cost.embedding_and_logits - logits, Tint::kWaste,
                "Embedding, final norm and loss, without the products of the logits.");
  waterfall.add("launch", cost.launch, Tint::kWaste,
                "Starts of kernels, time of the host, and overhead of microbatches.");
  waterfall.add("recompute", cost.recompute, Tint::kWaste,
                "Forward work that is done again, its communication included.");
}

void add_rest(Waterfall& waterfall, const CostBreakdown& cost) {
  waterfall.add("tensor_parallel", cost.tensor_parallel, Tint::kCommunication,
                "Collectives within layers that no compute hides.");
  waterfall.add("context_parallel", cost.context_parallel, Tint::kCommunication,
                "Waiting of attention for other parts of sequences.");
  waterfall.add("expert_parallel", cost.expert_parallel, Tint::kCommunication,
                "Tokens on their way to experts and back that no compute hides.");
  waterfall.add("pipeline_messages", cost.pipeline_messages, Tint::kCommunication,
                "What messages between stages add to the step.");
  waterfall.add("bubble", cost.bubble, Tint::kIdle,
                "Waiting for passes of other stages while the pipeline fills and drains.");
  waterfall.add("data_parallel", cost.data_parallel, Tint::kCommunication,
                "Reduction of gradients and gathering of parameters that no compute hides.");
  waterfall.add("embedding_all_reduce", cost.embedding_all_reduce, Tint::kCommunication,
                "All-reduce of the embedding's gradient between the first stage and the last.");
  waterfall.add("optimizer", RunTerm::kOptimizer, {cost.optimizer, Seconds(0.0)}, Tint::kOptimizer,
                "The optimizer's step and the norm of the gradients.");
  waterfall.add("offload", cost.offload, Tint::kCommunication,
                "Activations on their way to the host and back that no compute hides.");
  waterfall.add("core_sharing", cost.core_contention, Tint::kIdle,
                "Ranks that wait for a core of their node.");
}

}  // namespace

ReportSection iteration_waterfall(const Plan& plan) {
  Waterfall waterfall(plan);
  add_compute(waterfall, plan);
  add_rest(waterfall, plan.predicted.breakdown);
  const Estimate<Seconds>& time = plan.predicted.iteration_time;
  const StepErrors* const errors = step_errors({plan.scenario, plan.config});
  return {
      .id = "time",
      .title = "Where does the time of an iteration go?",
      .note =
          "From what the peak would take to what is predicted; the bars add up. " +
          (errors == nullptr ? std::string("The 90 % interval is known of the whole only.")
                             : fmt::format("Bars with a 90 % interval are those that {} measured.",
                                           errors->basis)),
      .view = BarsView{.unit = "s",
                       .bars = std::move(waterfall).bars(),
                       .is_waterfall = true,
                       .total = Bar{.name = "iteration",
                                    .value = time.value.value(),
                                    .low = time.low.value(),
                                    .high = time.high.value(),
                                    .note = plan.predicted.basis({plan.scenario, plan.config})}}};
}

}  // namespace ptdp
