// A plan as the files that another framework starts from: one exporter for each framework.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.h"

namespace ptdp {

/// One text file of an export.
struct ExportedFile {
  std::string name;  ///< File name within the export's directory.
  std::string content;
};

/// One value of a plan that a framework cannot run.
struct ExportRefusal {
  std::string field;    ///< Key of the configuration, model or stack, as FORMATS.md spells it.
  std::string found;    ///< The plan's value.
  std::string instead;  ///< What the framework runs in its place: "1f1b or interleaved".
};

/// One row of an export's README: a part of the plan, and how the framework is told.
struct ExpressedPart {
  std::string part;     ///< What the plan says: "pipeline parallel 64".
  std::string spelled;  ///< Flags or keys, as files spell them.
};

/// Everything that an exporter writes about one plan.
struct Export {
  std::vector<ExportedFile> files;
  std::vector<ExpressedPart> expressed;
  /// Sentences that say what the framework does differently from what the plan costs.
  std::vector<std::string> differences = {};
  /// Sentences that say what to check first, in the first minutes of a run.
  std::vector<std::string> checks = {};
};

/// One framework: its name, what it cannot run, and how it spells what it can. To add one, write
/// both functions in a file of its own, declare them below, and add a row to kExporters.
struct Exporter {
  std::string_view name;    ///< As --to names it.
  std::string_view target;  ///< The framework with its version, for people.
  /// Returns what of a plan the framework cannot run, in the order of the plan's keys.
  std::vector<ExportRefusal> (*find_refusals)(const Plan& plan);
  /// Returns the files of a plan that find_refusals() does not refuse.
  Export (*write)(const Plan& plan);
};

[[nodiscard]] std::vector<ExportRefusal> megatron_refusals(const Plan& plan);
[[nodiscard]] Export megatron_export(const Plan& plan);
[[nodiscard]] std::vector<ExportRefusal> megatron_bridge_refusals(const Plan& plan);
[[nodiscard]] Export megatron_bridge_export(const Plan& plan);
[[nodiscard]] std::vector<ExportRefusal> slurm_refusals(const Plan& plan);
[[nodiscard]] Export slurm_export(const Plan& plan);
[[nodiscard]] std::vector<ExportRefusal> kubernetes_refusals(const Plan& plan);
[[nodiscard]] Export kubernetes_export(const Plan& plan);
[[nodiscard]] std::vector<ExportRefusal> nanotron_refusals(const Plan& plan);
[[nodiscard]] Export nanotron_export(const Plan& plan);
[[nodiscard]] std::vector<ExportRefusal> deepspeed_refusals(const Plan& plan);
[[nodiscard]] Export deepspeed_export(const Plan& plan);
[[nodiscard]] std::vector<ExportRefusal> accelerate_refusals(const Plan& plan);
[[nodiscard]] Export accelerate_export(const Plan& plan);
[[nodiscard]] std::vector<ExportRefusal> rank_map_refusals(const Plan& plan);
[[nodiscard]] Export rank_map_export(const Plan& plan);
[[nodiscard]] std::vector<ExportRefusal> schedule_csv_refusals(const Plan& plan);
[[nodiscard]] Export schedule_csv_export(const Plan& plan);
[[nodiscard]] std::vector<ExportRefusal> torchtitan_refusals(const Plan& plan);
[[nodiscard]] Export torchtitan_export(const Plan& plan);
[[nodiscard]] std::vector<ExportRefusal> torchtitan_toml_refusals(const Plan& plan);
[[nodiscard]] Export torchtitan_toml_export(const Plan& plan);

/// All exporters, in the order in which they are shown.
inline constexpr std::array kExporters = {
    Exporter{"megatron", "Megatron-LM, megatron-core 0.19", megatron_refusals, megatron_export},
    Exporter{"megatron-bridge", "Megatron-Bridge 0.6", megatron_bridge_refusals,
             megatron_bridge_export},
    Exporter{"slurm", "Slurm, with ptdp-run", slurm_refusals, slurm_export},
    Exporter{"kubernetes", "Kubeflow's PyTorchJob v1, with ptdp-run", kubernetes_refusals,
             kubernetes_export},
    Exporter{"nanotron", "nanotron 0.4", nanotron_refusals, nanotron_export},
    Exporter{"deepspeed", "DeepSpeed 0.19 and Megatron-DeepSpeed 4efb479d", deepspeed_refusals,
             deepspeed_export},
    Exporter{"accelerate", "Accelerate 1.15 with transformers 5.12", accelerate_refusals,
             accelerate_export},
    Exporter{"rank-map", "the members of every group, rank by rank", rank_map_refusals,
             rank_map_export},
    Exporter{"schedule-csv", "orders of torch.distributed.pipelining", schedule_csv_refusals,
             schedule_csv_export},
    Exporter{"torchtitan", "torchtitan 0.3.0", torchtitan_refusals, torchtitan_export},
    Exporter{"torchtitan-toml", "torchtitan 0.2.2", torchtitan_toml_refusals,
             torchtitan_toml_export},
};

/// Returns what a message says of refusals: "schedule zb-h1: Megatron-LM runs 1f1b or ...; ...".
[[nodiscard]] std::string text_of(const Exporter& exporter,
                                  std::span<const ExportRefusal> refusals);

/// Returns the files of a plan for a framework, README.md included. Throws Error that names every
/// value that the framework cannot run, with what it runs instead.
[[nodiscard]] std::vector<ExportedFile> export_plan(const Plan& plan, const Exporter& exporter);

/// Returns the nodes that a plan uses, and its GPUs on each. Launchers start equally many processes
/// on every node.
struct NodesInUse {
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 1;
};
[[nodiscard]] NodesInUse nodes_in_use(const Plan& plan);
/// Returns a refusal where the plan's GPUs do not fill the last node; else nothing. Every exporter
/// that writes a launch script begins with it.
[[nodiscard]] std::vector<ExportRefusal> node_refusals(const Plan& plan);

/// Returns whether the plan's "GPUs" are cores of hosts, as ptdp-run tells them apart.
[[nodiscard]] bool is_for_cores(const Plan& plan);
/// Returns what to say of an export that starts ptdp-run: what differs, and what to check first.
[[nodiscard]] std::vector<std::string> run_differences(const Plan& plan);
[[nodiscard]] std::vector<std::string> run_checks(const Plan& plan);

/// Returns the name of what a stack's linear layers are trained in: its recipe's, or else its
/// precision's.
[[nodiscard]] std::string_view linear_precision(const StackSpec& stack);
/// Returns whether all of a stack's layers are in bf16, fp16 or fp32, whose products are not
/// TF32's.
[[nodiscard]] bool trains_plainly(const StackSpec& stack);

/// Returns whether the plan's GPUs are Blackwell or newer, by their matrix units' MX scales.
[[nodiscard]] bool has_blackwell(const Plan& plan);

}  // namespace ptdp
