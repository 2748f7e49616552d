// Turns the flags of ptdp-plan into a planning request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "planner/accuracy/calibration_file.h"
#include "planner/answer/planning.h"
#include "planner/answer/planning_output.h"
#include "planner/import/imported_run.h"
#include "planner/search/search.h"
#include "tools/shared/command_line.h"

namespace ptdp {

/// What is planned for, and which values the flags left out and are therefore assumed.
struct PlanRequest {
  Scenario scenario;
  std::int64_t gpus = 0;
  std::vector<std::string> assumptions;
  std::vector<std::string> warnings;  ///< What the model's file has and is ignored, one line each.
  std::string best_command;  ///< Command for the best plan, beside a configuration that is given.
};

/// The number of GPUs that flags ask for, and how it came about; empty where --gpus says it.
struct AskedGpus {
  std::optional<std::int64_t> count;
  std::string assumption;
};
/// Reads --gpus, or else --nodes, whose GPUs are those of the nodes of --cluster or
/// `usual_cluster`.
[[nodiscard]] AskedGpus asked_gpus(const CommandLine& line, const std::string& usual_cluster);
/// Throws Error if a cluster has fewer GPUs than are asked for.
void check_cluster_holds(const CommandLine& line, const ClusterSpec& cluster, std::int64_t gpus);
/// Returns the batch that one of the flags gives for sequences of `length` tokens, and adds to the
/// request's assumptions how it came about; nullopt without them. Throws Error for two flags.
[[nodiscard]] std::optional<std::int64_t> given_batch_size(const CommandLine& line,
                                                           std::int64_t length,
                                                           PlanRequest& request);

/// Returns the stack that --stack names, or the cluster's default stack without that flag. Throws
/// Error for an unknown stack.
[[nodiscard]] StackSpec find_stack_of(const CommandLine& line, const ClusterSpec& cluster);

/// Whether --stack asks for all stacks.
[[nodiscard]] bool asks_for_all_stacks(const CommandLine& line);
/// Returns a stack with what --precision, --overlap and switches ask of it. `usual` is the
/// precision without the flag; empty: the stack's own. Throws Error for what the stack does not
/// have.
[[nodiscard]] StackSpec as_asked(StackSpec stack, const CommandLine& line,
                                 const std::string& usual = "");

/// Reads the run of --from; nullopt without that flag. Throws Error for a file that no reader
/// knows, and for --vocab-size without --from.
[[nodiscard]] std::optional<ImportedRun> read_from(const CommandLine& line);
/// Returns what a file says of a run, beside the flags --gpus, --model and --vocab-size. Throws
/// Error as read_run() does.
[[nodiscard]] ImportedRun read_from(const CommandLine& line, std::string_view text,
                                    const std::string& place);

/// Reads the model, cluster, stack, batch and number of GPUs from the flags; what they leave out is
/// that of `from`, if it is not null. Throws Error, naming the flag or file, when one is missing,
/// not of its kind, or contradicts another.
[[nodiscard]] PlanRequest read_request(const CommandLine& line, const ImportedRun* from = nullptr);
/// Writes each of `warnings` to standard error, a line after the program's name.
void print_warnings(const std::vector<std::string>& warnings);
/// Returns the configuration of --config, else that of `from`; one of them must be given. Throws
/// Error for a value of --config that cannot be read.
[[nodiscard]] ParallelConfig given_config(const CommandLine& line, const PlanRequest& request,
                                          const ImportedRun* from);
/// How likely the plans that a search looks for must fit.
struct FitRequest {
  double probability = kReservedProbability;
  bool is_asked_for = false;  ///< Whether --fit says so.
};
/// Reads --fit. Throws Error for anything but a probability.
[[nodiscard]] FitRequest read_fit(const CommandLine& line);
/// Sets the memory that plans leave free beyond the formulas, and adds it to what is assumed. With
/// `fit` it is enough with that probability by all runs of --calibration; unless --fit asks for it,
/// no less than the stack's fraction without runs of the cluster and stack. Without `fit`, or where
/// no run says so, it is what a user's own measured memory asks for, else the stack's fraction.
void reserve_memory(PlanRequest& request, const CalibrationSource& calibration,
                    const std::optional<FitRequest>& fit = {});
/// Reads the search options from the flags. Throws Error, naming the flag, for a bad value.
[[nodiscard]] SearchOptions read_options(const CommandLine& line, std::int64_t gpus);
/// Reads --tokens and --price. Throws Error for a bad value, and for --price without --tokens.
[[nodiscard]] RunBudget read_budget(const CommandLine& line);

}  // namespace ptdp
