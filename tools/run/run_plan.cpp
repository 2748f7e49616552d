#include "tools/run/run_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "cost_model/error.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/iteration/step_builder.h"
#include "cost_model/memory/memory.h"
#include "cost_model/operations/attention.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/validator/validator.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/plural.h"
#include "kernels/cpu/cpu_backend.h"
#include "planner/formatting.h"
#include "planner/plan/plan_simulation.h"
#include "runtime/data_type_of.h"
#include "runtime/model/executed_fields.h"
#include "runtime/rehearsal/shrink.h"
#include "runtime/transport/nccl/nccl_world.h"
#include "tools/shared/memory_limit.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMostRanks = 1024;  // as threads of one process

/// Whether the stack says what it keeps in `precision`.
bool knows(const StackSpec& stack, Precision precision) {
  return precision == stack.precision ||
         std::any_of(
             stack.other_precisions.begin(), stack.other_precisions.end(),
             [precision](const PrecisionBytes& bytes) { return bytes.precision == precision; });
}

/// Returns why the plan's prediction does not hold for this run; empty when it holds.
std::string why_not_predicted(const Plan& plan, const RunRequest& request, Precision precision,
                              const RunDevice& device) {
  const StackSpec& stack = plan.scenario.stack;
  if (request.shrinks) {
    const std::string without = left_out(plan.scenario.job.model, plan.config);
    return "Not predicted: the layers are shrunk to tiny ones" +
           (without.empty() ? ""
                            : "; left out, as orders and messages do not depend on it: " + without);
  }
  if (request.orders) {
    return "Not predicted: orders of " + *request.orders + " in place of the plan's";
  }
  if (request.is_reproducible) {
    return "Not predicted: --reproducible computes weight gradients apart and sums in one order";
  }
  if (stack.memory_model != MemoryModel::kPtdp) {
    return "Not predicted: the plan is for " + plan.scenario.cluster.name + " with " + stack.name +
           as_typed("; ptdp-plan --cluster host makes one for this machine") +
           (plan.config.zero_stage > 1 ? ", with ZeRO-1 at most" : "");
  }
  if (device.is_gpu() == is_host_plan(plan)) {
    return "Not predicted: the plan is for " + plan.scenario.cluster.name + ", and this ran on " +
           device.name();
  }
  if (!is_planned_gpu(device, plan)) {
    return "Not predicted: the plan is for " + plan.scenario.cluster.gpu.name +
           ", and this ran on " + device.name();
  }
  if (!knows(stack, precision)) {
    return "Not predicted: " + stack.name + " does not say what it keeps in " +
           std::string(name_of(precision));
  }
  return "";
}

/// Returns the plan as it is run, predicted by this version of the program. The prediction is
/// uncalibrated if the run differs from the plan.
Plan as_run(const Plan& plan, const RunRequest& request, Precision precision) {
  Scenario scenario = plan.scenario;
  if (request.overlap) {
    scenario.stack = with_overlap(scenario.stack, *request.overlap);
  }
  // A shrunk run predicts nothing, and its precision may be none that the plan's GPUs multiply in.
  if (precision != plan.scenario.stack.precision && !request.shrinks &&
      knows(plan.scenario.stack, precision)) {
    scenario.stack = at_precision(scenario.stack, precision);
  }
  const bool is_as_planned = scenario.stack == plan.scenario.stack;
  if (is_as_planned && plan.tool_version == PTDP_VERSION) {
    return plan;
  }
  check(scenario);
  Plan again = make_plan({scenario, plan.config}, plan.gpus, plan.memory_headroom,
                         is_as_planned ? calibration_of(plan) : Calibration{},
                         is_as_planned ? plan.memory.beyond : MemoryBelief{});
  if (is_as_planned) {
    again.tool_version = plan.tool_version;
    again.schedule = plan.schedule;  // another version may have searched it with other durations
  }
  return again;
}

// Passes through a layer in a shrunk run, each on one rank and microbatch, at some 0.2 ms.
constexpr double kShrunkLayerPasses = 150'000.0;

/// Returns how many of the plan's first microbatches a shrunk run takes. They are as many as run in
/// some seconds on few cores, but at least two fillings of the pipeline. Its steady state is then
/// among them.
std::int64_t first_microbatches(const Plan& plan) {
  const ParallelConfig& config = plan.config;
  const double passes_of_one =
      1.0 * config.tp * std::max(plan.scenario.job.model.num_layers, config.pp);
  const auto fillings = static_cast<std::int64_t>(kShrunkLayerPasses / passes_of_one /
                                                  static_cast<double>(config.pp));
  return std::min(plan.schedule.num_microbatches, std::max(fillings, std::int64_t{2}) * config.pp);
}

/// Returns the plan with layers small enough for any machine, and with fewer microbatches if asked
/// for.
Plan shrunk_plan(const Plan& plan, const RunRequest& request) {
  Plan small = plan;
  small.config = shrunk(plan.config);
  small.scenario.job.model = shrunk(plan.scenario.job.model, plan.config);
  small.schedule.num_microbatches = std::min<std::int64_t>(
      plan.schedule.num_microbatches, request.microbatches.value_or(first_microbatches(plan)));
  small.scenario.job.global_batch_size = small.schedule.num_microbatches;
  if (traits_of(plan.config.schedule).has_groups) {
    small.schedule.microbatch_group_size = default_microbatch_group_size(
        plan.config.pp, static_cast<int>(small.schedule.num_microbatches));
  }
  return small;
}

/// Returns the plan with `microbatches` microbatches.
Plan shortened_plan(Plan plan, int microbatches) {
  plan.schedule.num_microbatches = microbatches;
  plan.scenario.job.global_batch_size =
      std::int64_t{microbatches} * plan.config.dp * plan.config.micro_batch_size;
  return plan;
}

void check_schedule(const Schedule& schedule, const std::string& place) {
  if (const auto fault = find_fault(schedule)) {
    throw Error(place + ": " + fault->what, fault->grid);
  }
}

/// Throws Error if the microbatches that are run do not make the plan's schedule. Memory and costs
/// are told of schedules that exist.
void check_microbatches(const Plan& executed, const RunRequest& request) {
  try {
    check_schedule_exists(executed.schedule, executed.config.pp, executed.config.vpp);
  } catch (const Error& error) {
    if (!request.microbatches) {
      throw;
    }
    throw Error(fmt::format("--microbatches: {} cannot make the plan's schedule: {}",
                            *request.microbatches, error.what()));
  }
}

/// Returns the plan's schedule, or the other orders that the request names. Throws Error, naming
/// the action, for a schedule with a fault.
Schedule schedule_of(const Plan& plan, const RunRequest& request) {
  Schedule own = complete_schedule(plan);
  if (!request.orders) {
    check_schedule(own, "schedule");
    return own;
  }
  const std::string& place = *request.orders;
  const Schedule orders = read_schedule_csv(place);
  check_schedule(orders, place);  // before messages are added, of which the file knows nothing
  Schedule schedule = complete_schedule(plan, orders);
  check_schedule(schedule, place);
  if (schedule.pp != own.pp || schedule.vpp != own.vpp ||
      schedule.num_microbatches != own.num_microbatches || schedule.placement != own.placement) {
    throw Error(fmt::format(
        "{}: expected orders of {}, {} each and {}, placed as {} places them, got {}, {} and {}{}",
        place, plural(own.pp, "rank"), plural(own.vpp, "stage"),
        plural(own.num_microbatches, "microbatch", "microbatches"), own.name,
        plural(schedule.pp, "rank"), schedule.vpp, schedule.num_microbatches,
        schedule.placement == own.placement ? "" : ", placed otherwise"));
  }
  return schedule;
}

/// Throws Error if a rank needs more memory than its GPU has. Over NCCL every rank has a GPU to
/// itself.
void check_memory_of_gpu(const Plan& executed, const RunDevice& device,
                         const std::string& ways_out) {
  Bytes needed;
  for (const MemoryBreakdown& stage : memory_by_rank({executed.scenario, executed.config})) {
    needed = std::max(needed, stage.total() - stage.reserve);
  }
  const auto smallest =
      std::min_element(device.gpus.begin(), device.gpus.end(),
                       [](const Gpu& a, const Gpu& b) { return a.memory < b.memory; });
  if (needed > smallest->memory) {
    throw Error(fmt::format(
        "config: a rank needs {:.1f} GiB; expected at most the {:.1f} GiB of its GPU, {}{}",
        needed.value() / kGibi, smallest->memory.value() / kGibi, smallest->name, ways_out));
  }
}

/// Throws Error if the ranks on this machine together need more memory than it or its GPUs have.
void check_memory_together(const Plan& executed, const RunRequest& request, const RunDevice& device,
                           const std::string& ways_out) {
  const std::int64_t ranks = executed.config.world_size();
  double needed = 0.0;
  const double ranks_per_stage = executed.config.tp * executed.config.dp;
  for (const MemoryBreakdown& stage : memory_by_rank({executed.scenario, executed.config})) {
    needed += ranks_per_stage * (stage.total() - stage.reserve).value();
  }
  const std::int64_t ranks_here = request.ranks_here.value_or(static_cast<int>(ranks));
  needed *= static_cast<double>(ranks_here) / static_cast<double>(ranks);
  const double limit = (device.is_gpu() ? device.memory() : memory_limit()).value();
  if (needed > limit) {
    throw Error(
        fmt::format("config: {} {:.1f} GiB together; expected at most the {:.1f} GiB of {}{}",
                    plural(ranks_here, "rank needs", "ranks need"), needed / kGibi, limit / kGibi,
                    device.is_gpu() ? "the GPUs here" : "this machine", ways_out));
  }
}

void check_can_run(const Plan& executed, const RunRequest& request, const RunDevice& device,
                   bool uses_nccl) {
  const TransformerConfig& model = executed.scenario.job.model;
  if (const std::string feature = find_unsupported_feature(model); !feature.empty()) {
    throw Error("inputs.model: " + feature + ", which ptdp-run does not execute");
  }
  if (const std::string field = find_unexecuted(model, executed.config); !field.empty()) {
    throw Error(field);
  }
  if (request.rehearses) {
    return;
  }
  const std::int64_t ranks = executed.config.world_size();
  const std::string ways_out =
      request.shrinks ? ""
                      : "; --shrink runs the plan's orders and messages with tiny layers, and "
                        "--rehearse one rank at full size";
  if (ranks > kMostRanks && !request.ranks_here) {
    throw Error(
        fmt::format("config: {} ranks are too many for the threads of one process; expected "
                    "at most {}{}",
                    ranks, kMostRanks, ways_out));
  }
  if (uses_nccl) {
    check_memory_of_gpu(executed, device, ways_out);
  } else {
    check_memory_together(executed, request, device, ways_out);
  }
}

/// Whether tensors will travel over NCCL.
bool chooses_nccl(const RunRequest& request, const RunDevice& device, std::int64_t ranks) {
  const std::int64_t ranks_here = request.ranks_here.value_or(static_cast<int>(ranks));
  const bool has_gpu_each =
      device.is_gpu() && ranks_here <= static_cast<std::int64_t>(device.gpus.size());
  return request.uses_nccl.value_or(has_nccl() && ranks > 1 && has_gpu_each);
}

void check_recipe(const Plan& plan, const RunRequest& request) {
  const StackSpec& stack = plan.scenario.stack;
  if (stack.fp8 && !request.precision && !request.shrinks) {
    throw Error("plan: its linear layers are in " + std::string(name_of(*stack.fp8)) +
                ", which nothing here trains in; expected --dtype " +
                std::string(name_of(stack.precision)) + " to run it without");
  }
  if (stack.precision == Precision::kTf32 && !request.precision && !request.shrinks) {
    throw Error(
        "plan: its products are in tf32, and here they multiply fp32 numbers as they are; expected "
        "--dtype fp32 to run it so");
  }
}

void check_device(const RunDevice& device, Precision precision) {
  if (device.is_gpu() && precision == Precision::kFp64) {
    throw Error(
        "--dtype fp64: GPUs compute in fp32, bf16 and fp16 here; expected one of them, or "
        "--device cpu");
  }
}

/// Returns in which steps operations are timed: in all on a host, where that costs nothing, and in
/// one of four on GPUs, the first of which is the first that is measured.
OperationTiming operation_timing(const RunRequest& request, const RunDevice& device) {
  return device.is_gpu() ? OperationTiming{.first = request.warm_up, .period = 4}
                         : OperationTiming{};
}

}  // namespace

PreparedRun prepare_run(const Plan& plan, const RunRequest& request) {
  check_recipe(plan, request);
  // A shrunk run shows orders and messages, not numbers, so it uses what a host computes fastest.
  const Precision precision = request.precision.value_or(
      request.shrinks ? Precision::kFp32 : plan.scenario.stack.precision);
  const RunDevice chosen = choose_device(request.device, plan, request.shrinks);
  const std::int64_t ranks =
      request.shrinks ? shrunk(plan.config).world_size() : plan.config.world_size();
  const bool uses_nccl = chooses_nccl(request, chosen, ranks);
  const RunDevice device = request.ranks_here || uses_nccl ? chosen : shared_by_threads(chosen);
  check_device(device, precision);
  check_gpu_type(device, plan, request.allows_other_gpu || request.shrinks);
  if (uses_nccl) {
    check_nccl_placement(device, plan,
                         {.rank = request.rank,
                          .place = request.place_here,
                          .ranks_here = request.ranks_here.value_or(static_cast<int>(ranks)),
                          .are_processes = request.ranks_here.has_value()});
  }
  PreparedRun run{.plan = as_run(plan, request, precision),
                  .precision = precision,
                  .device = device,
                  .uses_nccl = uses_nccl,
                  .basis = why_not_predicted(plan, request, precision, device)};
  if (run.basis.empty() && run.plan.scenario.stack.tensor_parallel_overlap && plan.config.tp > 1 &&
      !uses_nccl && !request.rehearses) {
    run.basis =
        "Not predicted: only over NCCL do tensor-parallel collectives run behind products; "
        "--overlap without tensor says what is predicted of this transport";
  }
  run.is_predicted = run.basis.empty();
  if (run.is_predicted) {
    run.basis = "Predicted for " + plan.scenario.cluster.name + " with " +
                plan.scenario.stack.name + "; " +
                run.plan.predicted.basis({run.plan.scenario, run.plan.config});
    if (plan.tool_version != PTDP_VERSION) {
      run.basis += fmt::format("; ptdp-plan {} made the plan, {} predicts it", plan.tool_version,
                               PTDP_VERSION);
    }
  }
  run.executed = request.shrinks     ? shrunk_plan(run.plan, request)
                 : request.rehearses ? shortened_plan(run.plan, request.microbatches.value())
                                     : run.plan;
  check_microbatches(run.executed, request);
  check_can_run(run.executed, request, device, uses_nccl);

  // A shrunk run keeps the plan's reductions, over groups of one.
  Plan ordered = run.plan;
  ordered.schedule.num_microbatches = run.executed.schedule.num_microbatches;
  ordered.schedule.microbatch_group_size = run.executed.schedule.microbatch_group_size;
  const TransformerConfig& model = run.executed.scenario.job.model;
  const StackSpec& stack = run.executed.scenario.stack;
  // Hundreds of tiny ranks need no threads of their own for messages.
  const bool overlaps = !request.shrinks || request.overlap.has_value();
  run.settings = {
      .model = model,
      .config = run.executed.config,
      .schedule = schedule_of(ordered, request),
      .stage_layers = run.executed.schedule.layers_per_stage,
      .global_batch_size = run.executed.scenario.job.global_batch_size,
      .messages = overlaps ? message_mode(stack, run.executed.config) : MessageMode::kBlocking,
      .data = overlaps ? data_mode(stack, run.executed.config.pp) : DataMode::kBlocking,
      .overlaps_tensor = overlaps && stack.tensor_parallel_overlap,
      .scatters_messages = stack.scatter_gather,
      .type = data_type_of(precision),
      .dropout = request.dropout   ? DropoutRates(*request.dropout)
                 : request.shrinks ? DropoutRates(0.0)
                                   : dropout_rates(model),
      .seed = request.seed,
      .is_reproducible = request.is_reproducible,
      // Rings are slower for tiny messages, many at a time.
      .uses_ordered_sums = request.is_reproducible || request.shrinks,
      .operation_timing = operation_timing(request, device),
      .learning_rate = request.learning_rate,
      .weight_decay = request.weight_decay,
      .gradient_clip = request.gradient_clip};
  return run;
}

std::string dropout_note(const PreparedRun& run) {
  const DropoutRates rates = run.settings.dropout;
  const Scenario& scenario = run.executed.scenario;
  if (!run.device.is_gpu() || rates.attention == 0.0 || !run.is_predicted) {
    return "";
  }
  const auto time_with = [&](double rate) {
    TransformerConfig model = scenario.job.model;
    model.dropout = true;
    model.dropout_rates.attention = rate;
    const AttentionTime time =
        attention_time(model, run.executed.config.micro_batch_size, run.executed.config.tp,
                       scenario.cluster.gpu, scenario.stack);
    return duration(time.forward + time.backward);
  };
  return fmt::format(
      "attention drops probabilities ({}), which fast kernels do not do alike in every layout: "
      "{} a layer and microbatch as predicted, {} with \"attention_dropout\": 0 in the model",
      rates.attention, time_with(rates.attention), time_with(0.0));
}

BackendMaker backend_maker(const PreparedRun& run, std::optional<int> place,
                           const std::function<void(const std::string&)>& on_note) {
  if (!run.device.is_gpu()) {
    return [] { return std::make_unique<CpuBackend>(); };
  }
  return [&run, place, on_note](int rank) {
    const int gpu = run.device.gpu_of(place.value_or(rank));
    GpuUse use{.number = run.device.gpus[static_cast<std::size_t>(gpu)].number,
               .is_deterministic = run.settings.is_reproducible};
    if (rank == 0) {
      use.on_note = on_note;
    }
    return make_gpu_backend(use);
  };
}

}  // namespace ptdp
