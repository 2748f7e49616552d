#include "planner/report/sections/layer_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cost_model/inputs/rank_grid.h"
#include "cost_model/layer/context_parallel.h"
#include "cost_model/layer/element_wise.h"
#include "cost_model/layer/element_wise_operations.h"
#include "cost_model/layer/expert_layer.h"
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/layer/layer_kernels.h"
#include "cost_model/layer/transformer_layer.h"
#include "cost_model/operations/attention.h"
#include "cost_model/operations/core_contention.h"
#include "cost_model/operations/gemm.h"
#include "cost_model/operations/linear_layer.h"
#include "cost_model/operations/memory_bound.h"
#include "cost_model/operations/slowest_card.h"
#include "cost_model/pipeline_rank/rank_layers.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

/// The operations of one layer, collected part by part.
class WorkList {
 public:
  WorkList(const Plan& plan, LayerKind kind)
      : scenario_(plan.scenario),
        config_(plan.config),
        kind_(kind),
        factors_(compute_factors(plan.config, plan.scenario.cluster)) {}

  [[nodiscard]] std::vector<LayerWork> list() {
    for (const SizedLinear& each : sized_linears(scenario_.job.model, config_, kind_)) {
      add_linear(each, Fp8Use::kByRecipe);
    }
    add_attention();
    ElementWiseTime of_experts;
    if (kind_.has_experts) {
      for (const SizedLinear& each : expert_linears(scenario_.job.model, config_)) {
        add_linear(each, each.experts == 0 ? Fp8Use::kNever : Fp8Use::kByRecipe);
      }
      const ExpertCosts costs = expert_costs(scenario_, config_);
      add_moved("routing and activation of experts", "forward", costs.element_wise_forward);
      add_moved("routing and activation of experts", "backward", costs.element_wise_backward);
    }
    add_element_wise();
    add_casts();
    return std::move(work_);
  }

 private:
  void add_linear(const SizedLinear& linear, Fp8Use use) {
    const auto& [tokens, outputs, inputs] = linear.size;
    const GpuSpec& gpu = scenario_.cluster.gpu;
    const StackSpec& stack = scenario_.stack;
    const LinearProducts products = linear_products(linear.size, stack, use);
    const LinearTime time =
        linear.experts == 0
            ? linear_time(tokens, outputs, inputs, gpu, stack, use)
            : grouped_linear_time(linear.experts, tokens, outputs, inputs, gpu, stack);
    const auto add = [&](const char* pass, MatmulShape shape, Seconds takes) {
      shape.batch = std::max<std::int64_t>(linear.experts, 1);
      work_.push_back(
          {.name = std::string(linear.name),
           .pass = pass,
           .sizes = fmt::format("{}{} x {} x {}",
                                shape.batch > 1 ? fmt::format("{} x ", shape.batch) : "", shape.m,
                                shape.n, shape.k),
           .is_product = true,
           .flops = matmul_flops(shape),
           .bytes = matmul_bytes(shape),
           .time = takes * factors_.matmul});
    };
    add("forward", products.forward, time.forward);
    if (linear.has_input_gradient) {
      add("input gradient", products.input_gradient, time.input_gradient);
    }
    add("weight gradient", products.weight_gradient, time.weight_gradient);
  }

  void add_attention() {
    const TransformerConfig model = with_kind(scenario_.job.model, kind_);
    const StackSpec& stack = scenario_.stack;
    const GroupPlacement sharers =
        place_group(RankGrid(config_), Dimension::kContext, scenario_.cluster);
    const AttentionTime time = context_parallel_time(model, context_sharing(config_, stack),
                                                     sharers, scenario_.cluster, stack)
                                   .attention;
    const AttentionWork work = attention_work(model, config_.micro_batch_size, config_.tp, stack);
    const auto add = [&](const char* pass, const PassWork& of_pass, Seconds takes) {
      work_.push_back({.name = "attention",
                       .pass = pass,
                       .flops = of_pass.flops / static_cast<double>(config_.cp),
                       .bytes = of_pass.bytes / static_cast<double>(config_.cp),
                       .time = takes * factors_.attention});
    };
    add("forward", work.forward, time.forward);
    add("backward", work.backward, time.backward);
  }

  void add_element_wise() {
    if (!lists_operations(scenario_)) {
      const ElementWiseTraffic traffic = element_wise_traffic(scenario_, config_, kind_);
      const GpuSpec& gpu = scenario_.cluster.gpu;
      add_moved("element-wise operations", "forward", memory_bound_time(traffic.forward, gpu));
      add_moved("element-wise operations", "backward", memory_bound_time(traffic.backward, gpu));
      add_some("rows looked up", "forward", traffic.looked_up_forward,
               look_up_time(traffic.looked_up_forward, gpu));
      add_some("rows looked up", "backward", traffic.looked_up_backward,
               look_up_time(traffic.looked_up_backward, gpu));
      return;
    }
    // An operation that a layer has twice, such as its norms, is one row.
    std::map<std::pair<std::string_view, OperationPass>, std::size_t> rows;
    for (const ElementWiseOperation& each :
         layer_operations(scenario_.job.model, config_, fused_epilogues(scenario_.stack))) {
      const auto [row, is_new] =
          rows.try_emplace({name_of(each.operation), each.pass}, work_.size());
      if (is_new) {
        work_.push_back({.name = std::string(name_of(each.operation)),
                         .pass = each.pass == OperationPass::kForward         ? "forward"
                                 : each.pass == OperationPass::kInputGradient ? "input gradient"
                                                                              : "weight gradient"});
      }
      const Precision precision = scenario_.stack.precision;
      const double elements = each.sizes[0] * each.sizes[1];
      work_[row->second].bytes +=
          Bytes(element_wise_passes(each.operation) * element_bytes(precision) * elements);
      work_[row->second].time +=
          factors_.memory_bound * element_wise_time(each.operation, each.sizes[0], each.sizes[1],
                                                    scenario_.cluster.gpu, precision);
    }
  }

  void add_casts() {
    const LayerCasts casts = layer_casts(scenario_, config_, kind_);
    const CastTimes times = cast_times(casts, scenario_);
    add_some("casts", "forward", casts.forward, times.forward);
    add_some("casts", "backward", casts.backward, times.backward);
  }

  /// Adds work that only some layers have, which takes `time` before the factors; none if it is 0.
  void add_some(const char* name, const char* pass, Bytes moved, Seconds time) {
    if (time != Seconds(0.0)) {
      work_.push_back(
          {.name = name, .pass = pass, .bytes = moved, .time = time * factors_.memory_bound});
    }
  }

  /// Adds what is nothing but traffic of memory, which takes `time` before the factors.
  void add_moved(const char* name, const char* pass, Seconds time) {
    const GpuSpec& gpu = scenario_.cluster.gpu;
    work_.push_back(
        {.name = name,
         .pass = pass,
         .bytes = Bytes(time.value() * gpu.memory_bandwidth.value() * gpu.memory_efficiency),
         .time = time * factors_.memory_bound});
  }

  const Scenario& scenario_;
  const ParallelConfig& config_;
  LayerKind kind_;
  ComputeFactors factors_;
  std::vector<LayerWork> work_;
};

FlopsPerSecond rate_of(const LayerWork& work) {
  return FlopsPerSecond(work.flops.value() / work.time.value());
}

/// Returns what a GPU allows for each number of FLOPs per byte from `low` to `high`.
Curve roof(const std::string& name, FlopsPerSecond peak, const GpuSpec& gpu,
           std::pair<double, double> range) {
  const double ridge = peak.value() / gpu.memory_bandwidth.value();
  Curve curve{.name = fmt::format("{} at {}", name, rate(peak))};
  for (const double x :
       {std::min(range.first, ridge / 2.0), ridge, std::max(range.second, 2.0 * ridge)}) {
    curve.x.push_back(x);
    curve.y.push_back(std::min(peak.value(), x * gpu.memory_bandwidth.value()));
  }
  return curve;
}

/// Returns the roofs of the formats that the stack computes in.
std::vector<Curve> roofs(const Scenario& scenario, std::pair<double, double> range) {
  const GpuSpec& gpu = scenario.cluster.gpu;
  const StackSpec& stack = scenario.stack;
  std::vector<Curve> curves = {
      roof(std::string(name_of(stack.precision)), gpu.peak(stack.precision), gpu, range)};
  if (stack.fp8) {
    curves.push_back(
        roof(std::string(name_of(*stack.fp8)), gpu.peak(format_of(*stack.fp8)), gpu, range));
  }
  return curves;
}

/// Returns what the numbers are of: the layer, and what they leave out.
std::string layer_note(const Plan& plan) {
  const LayerKind kind = usual_layer_kind(plan.scenario.job.model);
  return fmt::format(
      "One microbatch of a layer{}{} on one GPU{}, as the cost model times it, without the "
      "calibration's factor, starts of kernels and communication.",
      kind.has_experts ? " with experts" : "", kind.has_window ? ", attention in its window," : "",
      slowest_card_factor(plan.config.world_size(), plan.scenario.cluster.gpu.card_spread) > 1.0
          ? fmt::format(", the slowest of {}", plan.config.world_size())
          : "");
}

std::string text_of_rate(const LayerWork& work) {
  return work.flops == Flops(0.0) ? bytes(Bytes(work.bytes.value() / work.time.value())) + "/s"
                                  : rate(rate_of(work));
}

}  // namespace

LayerKind usual_layer_kind(const TransformerConfig& model) {
  const LayerCounts counts = layers_of_model(model);
  return kLayerKinds.at(
      static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin()));
}

std::vector<LayerWork> layer_work(const Plan& plan, LayerKind kind) {
  return WorkList(plan, kind).list();
}

ReportSection layer_roofline(const Plan& plan) {
  ScatterView view{.x = {.name = "FLOPs per byte of memory", .unit = "FLOP/B", .is_log = true},
                   .y = {.name = "rate reached", .unit = "FLOP/s", .is_log = true}};
  std::pair<double, double> range = {1e300, 0.0};
  std::map<std::string, std::size_t> groups;
  for (const LayerWork& work : layer_work(plan, usual_layer_kind(plan.scenario.job.model))) {
    if (work.flops == Flops(0.0)) {
      continue;
    }
    const std::string group = work.is_product ? "products, " + work.pass : work.name;
    const auto [place, is_new] = groups.try_emplace(group, view.groups.size());
    if (is_new) {
      view.groups.push_back({.name = group});
    }
    const double intensity = work.flops.value() / work.bytes.value();
    range = {std::min(range.first, intensity), std::max(range.second, intensity)};
    view.groups[place->second].points.push_back(
        {.x = intensity,
         .y = rate_of(work).value(),
         .name = work.name + ", " + work.pass,
         .note = fmt::format("{}{:.4g} GFLOP, {}, {}", work.sizes.empty() ? "" : work.sizes + ": ",
                             work.flops.value() / kGiga, bytes(work.bytes), duration(work.time))});
  }
  view.curves = roofs(plan.scenario, range);
  return {
      .id = "operations",
      .title = "What do the operations of a layer reach of the GPU?",
      .note = layer_note(plan) +
              " Fused attention counts the bytes of its tensors once; products read factors "
              "once and write results once. Element-wise operations, the term memory_bound, have "
              "no FLOPs here: the table below has their bytes and how near they come to " +
              bytes(Bytes(plan.scenario.cluster.gpu.memory_bandwidth.value())) + "/s.",
      .view = std::move(view)};
}

ReportSection layer_table(const Plan& plan) {
  TableView view{.columns = {"operation", "pass", "sizes", "GFLOP", "moved", "time", "reaches"}};
  for (const LayerWork& work : layer_work(plan, usual_layer_kind(plan.scenario.job.model))) {
    view.rows.push_back(
        {work.name, work.pass, work.sizes,
         work.flops == Flops(0.0) ? "" : fmt::format("{:.4g}", work.flops.value() / kGiga),
         bytes(work.bytes), duration(work.time), text_of_rate(work)});
  }
  return {.id = "layer",
          .title = "What does a layer consist of?",
          .note = layer_note(plan) + " Sizes of products are rows x columns x inner dimension.",
          .view = std::move(view)};
}

}  // namespace ptdp
