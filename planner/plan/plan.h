// A plan: what was given, what was chosen, what it is predicted to cost. The interface between
// planning and executing; its JSON form is documented key by key in FORMATS.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/memory/memory.h"
#include "cost_model/schedule/generators/ticks.h"
#include "cost_model/schedule/schedule.h"
#include "cost_model/stage/planned_job.h"
#include "cost_model/text/described.h"
#include "planner/plan/prediction.h"

namespace ptdp {

/// Memory of a plan, stage by stage.
struct PlanMemory {
  int heaviest_stage = 0;
  std::vector<MemoryBreakdown> stages;

  [[nodiscard]] Bytes peak() const {
    return stages[static_cast<std::size_t>(heaviest_stage)].total();
  }
};
[[nodiscard]] PlanMemory plan_memory(const PlannedJob& job);

/// How to regenerate the schedule: both simulator and executor build the same orders from it.
struct ScheduleRecipe {
  std::string generator;  ///< "1f1b", "zb-h1": a name of schedule/generators.h.
  std::int64_t num_microbatches = 1;
  /// Microbatches that a chunk runs in a row in an interleaved schedule; pp in all of them, also
  /// where it means nothing.
  int microbatch_group_size = 1;
  std::vector<int> layers_per_stage;  ///< One number per virtual stage, in model order.

  // What a searched schedule, zb-auto, was searched with; empty, zero and none for the others.
  std::vector<StageTicks> ticks = {};  ///< Durations of each virtual stage.
  int message_ticks = 0;               ///< From the end of an action to its result on another rank.
  std::optional<int> memory_limit = {};  ///< Activations of a stage that a rank may hold.
  bool shortens_spans = false;  ///< Least in-span time of any rank counts before the makespan.

  friend bool operator==(const ScheduleRecipe&, const ScheduleRecipe&) = default;
};

/// Holds its inputs by value, so that it can be costed again without the profiles it came from.
struct Plan {
  std::string tool_version = PTDP_VERSION;  ///< Of the ptdp-plan that made it.
  Scenario scenario;
  std::int64_t gpus = 0;         ///< Given; config.world_size() of them are used.
  double memory_headroom = 0.0;  ///< Fraction of device memory left free.
  ParallelConfig config;
  ScheduleRecipe schedule;
  Prediction predicted;
  PlanMemory memory;
};

inline constexpr const char* kPlanSchema = "ptdp.plan/1";

/// The plan of a feasible configuration, for `gpus` of which it uses world_size().
[[nodiscard]] Plan make_plan(const PlannedJob& job, std::int64_t gpus, double memory_headroom,
                             const Calibration& calibration);

/// The calibration that a plan's prediction was made with, as far as the plan says it.
[[nodiscard]] Calibration calibration_of(const Plan& plan);

/// The recipe that a configuration stands for.
[[nodiscard]] ScheduleRecipe schedule_recipe(const PlannedJob& job);

/// The schedule of a recipe on `pp` GPUs with `vpp` chunks each, of compute alone: the same for all
/// who call it. Throws Error where the generator is unknown or has none of that shape.
[[nodiscard]] Schedule make_schedule(const ScheduleRecipe& recipe, int pp, int vpp);

/// The plan as JSON text; equal plans give equal bytes.
[[nodiscard]] std::string to_json(const Plan& plan);

/// Reads a plan and checks that it is one that could have been written: known schema, every key, a
/// configuration that violates no constraint and fits, the schedule that it stands for, as many
/// stages as pp, a breakdown that adds up; and where this version of ptdp-plan made it, that
/// everything predicted follows from its inputs and its calibration, which are believed. Throws
/// Error naming the place.
[[nodiscard]] Plan parse_plan(std::string_view text, const std::string& place);
[[nodiscard]] Plan read_plan(const std::filesystem::path& path);

/// Writes atomically: the file at `path` is the old one or the whole new one.
void write_plan(const std::filesystem::path& path, const Plan& plan);

/// The plan after the checks of parse_plan, which throw Error at `place`.
[[nodiscard]] Plan checked(Plan plan, const std::string& place);

// A plan and parts of it that other documents repeat. What is read is no plan before checked().
template <class Fields>
void describe(Fields& fields, Described<Fields, Plan>& plan);
template <class Fields>
void describe(Fields& fields, Described<Fields, Prediction>& prediction);
template <class Fields>
void describe(Fields& fields, Described<Fields, PlanMemory>& memory);
template <class Fields>
void describe(Fields& fields, Described<Fields, MemoryBreakdown>& memory);
template <class Fields>
void describe(Fields& fields, Described<Fields, CostBreakdown>& cost);

}  // namespace ptdp
