#include "planner/answer/measured_iteration.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "cost_model/iteration/iteration.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

constexpr std::size_t kMostShown = 6;
constexpr double kFewTimes = 3.0;  // beyond it a ratio reads better than percent
constexpr double kRare = 0.01;

/// A term with what shows whether it takes longer than it should.
struct TermView {
  std::string_view term;
  std::string_view where;
};
constexpr std::array kTermViews = {
    TermView{
        "matmul",
        "nsys or a Kineto trace: kernels named gemm, nvjet or cutlass; nvidia-smi -q -d "
        "PERFORMANCE,POWER,CLOCK: a power cap or low clocks; sizes that are no multiples of 64"},
    TermView{"attention",
             "the trace's attention kernel: flash or fmha, or softmax beside gemm where none is "
             "fused (Megatron: NVTE_DEBUG=1 NVTE_DEBUG_LEVEL=1 names it)"},
    TermView{"memory_bound",
             "the trace's element-wise kernels between products: norms, dropout, activations and "
             "casts that are not fused"},
    TermView{"launch",
             "gaps between kernels while the host is busy: nsys's CUDA API row; --manual-gc; CUDA "
             "graphs; py-spy for what Python does meanwhile"},
    TermView{"tensor_parallel",
             "nccl kernels between products; nccl-tests all_reduce_perf on one node; nvidia-smi "
             "nvlink -s for a link that is down"},
    TermView{"context_parallel",
             "SendRecv or AllToAll kernels beside attention; cp ranks that span nodes"},
    TermView{"expert_parallel",
             "AllToAll kernels, and how unlike the tokens of each expert are; nccl-tests "
             "alltoall_perf over the ranks of a group"},
    TermView{"recompute",
             "forward kernels inside of backward passes: more modules repeated than the plan has"},
    TermView{"embedding_and_logits",
             "the last stage's kernels after its layers: logits, and a cross-entropy in fp32 that "
             "is not fused"},
    TermView{"bubble",
             "Megatron's --timing-log-level 2: forward-recv and backward-recv; one slow rank makes "
             "all wait: compare forward-compute of the ranks"},
    TermView{
        "pipeline_messages",
        "SendRecv kernels; nccl-tests sendrecv_perf between two nodes; NCCL_DEBUG=INFO: NET/IB "
        "and GDRDMA, not NET/Socket"},
    TermView{"data_parallel",
             "ReduceScatter and AllGather kernels with no compute beside them; nccl-tests "
             "all_reduce_perf over all nodes; NCCL_DEBUG=INFO: NET/IB and GDRDMA, not NET/Socket"},
    TermView{"embedding_all_reduce", "one AllReduce after the last backward pass"},
    TermView{"optimizer",
             "kernels after the last reduction: multi_tensor_apply or foreach, and copies of "
             "weights; an optimizer that is not fused"},
    TermView{"offload", "copies between host and device that no kernel runs beside"},
    TermView{"core_sharing", "top: more ranks than cores"}};

std::string_view view_of(std::string_view term) {
  const auto* found = std::find_if(kTermViews.begin(), kTermViews.end(),
                                   [&](const TermView& view) { return view.term == term; });
  return found == kTermViews.end() ? "" : found->where;
}

/// Probability that a standard normal variable exceeds `z`.
double normal_tail(double z) {
  return 0.5 * std::erfc(z / std::numbers::sqrt2);
}

/// Returns the terms that may hide `difference`, the least stretched first. Where it is negative,
/// a term may hide it if it is longer than that.
std::vector<SuspectTerm> suspects_of(const CostBreakdown& cost, Seconds difference) {
  std::vector<SuspectTerm> suspects;
  for (const CostTerm& term : kCostTerms) {
    const Seconds time = cost.*term.time;
    if (time.value() <= 0.0) {
      continue;
    }
    const double factor = 1.0 + difference / time;
    if (factor > 0.0 && factor <= kMostSuspectFactor) {
      suspects.push_back(
          {.name = term.name, .predicted = time, .factor = factor, .where = view_of(term.name)});
    }
  }
  std::sort(suspects.begin(), suspects.end(),
            [](const SuspectTerm& a, const SuspectTerm& b) { return a.predicted > b.predicted; });
  return suspects;
}

}  // namespace

MeasuredIteration compare_iteration(const Plan& plan, Seconds measured, const std::string& source) {
  const Prediction& predicted = plan.predicted;
  const Estimate<Seconds>& time = predicted.iteration_time;
  const double usual = predicted.calibration_factor;
  const double deviation = log_deviation(time);
  const double middle = 0.5 * (std::log(time.high.value()) + std::log(time.low.value()));
  const double z = deviation > 0.0 ? (std::log(measured.value()) - middle) / deviation : 0.0;
  return {.measured = measured,
          .source = source,
          .factor = usual * (measured / time.value),
          .factors = {.value = usual,
                      .low = usual * (time.low / time.value),
                      .high = usual * (time.high / time.value)},
          .probability = measured >= time.value ? normal_tail(z) : normal_tail(-z),
          .suspects = suspects_of(predicted.breakdown, measured - time.value)};
}

bool is_slower(const MeasuredIteration& iteration, const Plan& plan) {
  return iteration.measured >= plan.predicted.iteration_time.value;
}

std::vector<std::string> verdict_lines(const MeasuredIteration& iteration, const Plan& plan) {
  const double ratio = iteration.measured / plan.predicted.iteration_time.value;
  const bool slower = is_slower(iteration, plan);
  const Estimate<double>& factors = iteration.factors;
  return {
      fmt::format(
          "{} per iteration, {} predicted; {} of such runs are as {} or {}",
          duration(iteration.measured),
          ratio > kFewTimes
              ? fmt::format("{:.3g} times what was", ratio)
              : fmt::format("{} {} than", percent(std::abs(ratio - 1.0)), slower ? "more" : "less"),
          iteration.probability < kRare ? "less than 1 %"
                                        : fmt::format("{:.0f} %", 100.0 * iteration.probability),
          slower ? "slow" : "fast", slower ? "slower" : "faster"),
      fmt::format(
          "factor {:.2f} over the cost model alone, for {:.2f} with {:.2f} to {:.2f} in 90 %: {}",
          iteration.factor, factors.value, factors.low, factors.high,
          iteration.factor >= factors.low && iteration.factor <= factors.high ? "nothing unusual"
                                                                              : "unusual")};
}

std::string suspects_title(const MeasuredIteration& iteration, const Plan& plan) {
  const Seconds difference(
      std::abs((iteration.measured - plan.predicted.iteration_time.value).value()));
  return iteration.suspects.empty()
             ? fmt::format("No term alone explains a difference of {}", duration(difference))
             : fmt::format("What explains {} {}, each alone", duration(difference),
                           is_slower(iteration, plan) ? "more" : "less");
}

std::string to_text(const MeasuredIteration& iteration, const Plan& plan) {
  std::string text = fmt::format("\nMeasured ({})\n", iteration.source);
  for (const std::string& line : verdict_lines(iteration, plan)) {
    text += fmt::format("  {}\n", line);
  }
  text += fmt::format("\n{}\n", suspects_title(iteration, plan));
  const bool tells_where = is_slower(iteration, plan);
  for (std::size_t i = 0; i < std::min(kMostShown, iteration.suspects.size()); ++i) {
    const SuspectTerm& suspect = iteration.suspects[i];
    text += fmt::format("  {:<22} {:>9}, if it took {:.2f} times as long\n", suspect.name,
                        duration(suspect.predicted), suspect.factor);
    text += tells_where ? fmt::format("      {}\n", suspect.where) : "";
  }
  return tells_where ? text + fmt::format("  {}\n", kBesideTheModel) : text;
}

ObjectWriter measured_json(const MeasuredIteration& iteration) {
  ObjectWriter json;
  json.quantity("time_s", iteration.measured, 1.0);
  json.text("source", iteration.source);
  json.number("factor", iteration.factor);
  json.numbers("usual_factors",
               {iteration.factors.low, iteration.factors.value, iteration.factors.high});
  json.number("probability", iteration.probability);
  std::vector<ObjectWriter> suspects(iteration.suspects.size());
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    const SuspectTerm& suspect = iteration.suspects[i];
    suspects[i].text("term", std::string(suspect.name));
    suspects[i].quantity("predicted_s", suspect.predicted, 1.0);
    suspects[i].number("factor", suspect.factor);
    suspects[i].text("where", std::string(suspect.where));
  }
  json.children("suspects", std::move(suspects));
  return json;
}

}  // namespace ptdp
