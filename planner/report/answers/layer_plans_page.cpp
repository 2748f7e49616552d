#include "planner/report/answers/layer_plans_page.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "cost_model/text/plural.h"
#include "planner/formatting.h"
#include "planner/partition_report/layer_plans_output.h"
#include "planner/partition_report/listed_step.h"
#include "planner/report/answers/report_parts.h"
#include "planner/report/sections/memory_sections.h"
#include "planner/report/sections/plan_timeline.h"
#include "planner/report/sections/step_timeline.h"

namespace ptdp {
namespace {

/// How a term of the time is drawn.
struct DrawnTerm {
  Tint tint = Tint::kPlain;
  const char* note = "";
};
/// Tints and notes of kLayerTerms.
constexpr std::array<DrawnTerm, kLayerTerms.size()> kDrawnTerms = {
    {{Tint::kCompute, "Passes of the GPU that computes longest."},
     {Tint::kWaste, "The stack's overhead per microbatch and chunk there."},
     {Tint::kIdle, "Waiting for passes of other stages while the pipeline fills and drains."},
     {Tint::kCommunication, "What messages between stages add to the step."},
     {Tint::kCommunication,
      "Reduction of gradients and gathering of parameters that nothing hides."},
     {Tint::kOptimizer, "The optimizer's step, and what all GPUs wait for before it."}}};

/// Returns a section that has a picture of each plan, of which one is chosen.
template <class PictureOf>
ReportSection by_choice(const LayerPlans& plans, ReportSection section, PictureOf picture_of) {
  ChoicesView view;
  for (const LayerPlan& plan : plans.plans) {
    view.choices.push_back({.name = degrees_text(plan.config), .picture = picture_of(plan)});
  }
  section.view = std::move(view);
  return section;
}

ReportSection times_section(const LayerPlans& plans) {
  BarsView view{.unit = "s", .meanings = {{Tint::kCompute, "the best"}, {Tint::kPlain, "others"}}};
  for (const LayerPlan& plan : plans.plans) {
    view.bars.push_back(
        {.name = degrees_text(plan.config),
         .value = plan.iteration_time().value(),
         .tint = view.bars.empty() ? Tint::kCompute : Tint::kPlain,
         .note = fmt::format("{}, {} on the fullest GPU", signed_percent(loss_of(plan, plans)),
                             binary_size(peak_of(plan)))});
  }
  return {.id = "times",
          .title = "Which degrees take least time?",
          .note = "An iteration with the best cut of each, simulated and not calibrated.",
          .view = std::move(view)};
}

ReportSection table_section(const LayerPlans& plans) {
  TableView table{.columns = {"degrees", "time", "slower", "bubble", "memory", "GPUs",
                              "microbatches", "layers per stage"}};
  for (const LayerPlan& plan : plans.plans) {
    table.rows.push_back(
        {degrees_text(plan.config), duration(plan.iteration_time()),
         signed_percent(loss_of(plan, plans)), percent(plan.times.bubble / plan.iteration_time()),
         binary_size(peak_of(plan)), std::to_string(plan.config.world_size()),
         std::to_string(plan.partition.num_microbatches), spelled(plan.config.layers_per_stage)});
  }
  return {
      .id = "degrees",
      .title = "What else sets the degrees apart?",
      .note = "Memory is that of the fullest GPU; layers per stage leave out embedding and logits.",
      .view = std::move(table)};
}

BarsView waterfall_of(const LayerPlan& plan) {
  BarsView view{.unit = "s",
                .is_waterfall = true,
                .total = Bar{.name = "iteration", .value = plan.iteration_time().value()}};
  for (std::size_t i = 0; i < kLayerTerms.size(); ++i) {
    if (const Seconds time = plan.times.*kLayerTerms.at(i).time; time > Seconds(0.0)) {
      view.bars.push_back({.name = std::string(kLayerTerms.at(i).name),
                           .value = time.value(),
                           .tint = kDrawnTerms.at(i).tint,
                           .note = kDrawnTerms.at(i).note});
    }
  }
  return view;
}

/// Returns the time of a microbatch on each pipeline rank, chunk upon chunk.
StackedView rank_times(const LayerPlan& plan) {
  StackedView view{.x = {.name = "pipeline rank"},
                   .y = {.name = "time of a microbatch", .unit = "s"}};
  for (int chunk = 0; chunk < plan.config.vpp; ++chunk) {
    view.categories.push_back(plan.config.vpp == 1 ? "passes" : fmt::format("chunk {}", chunk));
  }
  for (int rank = 0; rank < plan.config.pp; ++rank) {
    view.columns.push_back({.name = std::to_string(rank)});
  }
  for (const PartitionStage& stage : plan.partition.stages) {
    view.columns[static_cast<std::size_t>(stage.rank)].values.push_back(stage.time.value());
  }
  return view;
}

TableView layers_of_stages(const LayerPlan& plan) {
  TableView table{.columns = {"stage", "rank", "layers", "holds", "time of a microbatch"}};
  for (std::size_t i = 0; i < plan.partition.stages.size(); ++i) {
    const PartitionStage& stage = plan.partition.stages[i];
    table.rows.push_back({std::to_string(i), std::to_string(stage.rank),
                          std::to_string(stage.num_layers), stage.layers, duration(stage.time)});
  }
  return table;
}

StackedView memory_of(const LayerSearch& search, const LayerPlan& plan) {
  StackedView view = memory_columns(plan.memory, 0, search.cluster.gpu, search.memory_headroom);
  view.x.name = "pipeline rank";
  return view;
}

/// Returns the step of the best plan, if a page has room for it.
ReportSection timeline_section(const LayerPlans& plans) {
  const LayerPlan& best = plans.plans.front();
  ReportSection section{.id = "timeline", .title = "What does each stage do when?"};
  const double actions =
      most_drawn_actions(plans.search.stack, best.config, best.partition.num_microbatches);
  if (actions > static_cast<double>(kMostDrawnActions)) {
    section.view =
        TextView{{fmt::format("The step has up to {} actions, more than a page draws ({}).",
                              grouped(actions), grouped(static_cast<double>(kMostDrawnActions)))}};
    return section;
  }
  const ListedStep step = simulate_listed_step(plans.search, best);
  section.note = fmt::format(
      "The simulated step of one pipeline with {}. Its replicas do the same at the same time.",
      degrees_text(best.config));
  section.view = step_timeline({{.name = std::string(name_of(best.config.schedule)),
                                 .schedule = step.schedule,
                                 .timeline = step.timeline,
                                 .messages = step.times.messages,
                                 .data = step.times.data,
                                 .critical_path = &step.critical_path,
                                 .bubble = best.times.bubble}},
                               1);
  return section;
}

}  // namespace

Report layer_plans_page(const LayerPlans& plans, const std::vector<std::string>& assumptions) {
  const LayerSearch& search = plans.search;
  const LayerPlan& best = plans.plans.front();
  Report report{
      .title = fmt::format("{} on {}", search.list.name, devices(search.gpus, search.cluster.gpu)),
      .sentence =
          fmt::format("{}: {} takes least, {} per iteration, with {} of {} on the fullest "
                      "GPU.",
                      headline(plans), degrees_text(best.config), duration(best.iteration_time()),
                      binary_size(peak_of(best)), binary_size(search.cluster.gpu.memory)),
      .rests_on = basis_of(plans)};
  for (const std::string& assumption : assumptions) {
    report.rests_on.push_back("Assumed: " + assumption);
  }
  report.sections = {
      times_section(plans),
      table_section(plans),
      by_choice(plans,
                {.id = "time",
                 .title = "Where does the time of an iteration go?",
                 .note = "With the degrees that are chosen; the bars add up."},
                waterfall_of),
      by_choice(plans,
                {.id = "rank-times",
                 .title = "How long does each rank compute?",
                 .note = "Forward and backward passes of one microbatch, without overhead."},
                rank_times),
      by_choice(plans, {.id = "stages", .title = "Which layers does each stage hold?", .note = ""},
                layers_of_stages),
      by_choice(plans,
                {.id = "memory",
                 .title = "What fills the memory of a GPU?",
                 .note = "At the peak of each rank."},
                [&](const LayerPlan& plan) { return memory_of(search, plan); }),
      timeline_section(plans)};
  return report;
}

}  // namespace ptdp
