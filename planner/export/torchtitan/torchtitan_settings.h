// A plan as keys and values of torchtitan's configuration, for its command line and for TOML.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "planner/export/exporter.h"

namespace ptdp {

/// Two releases of torchtitan, which spell a configuration differently.
enum class TorchtitanRelease {
  k022,  ///< 0.2.2, the last one that reads TOML files.
  k030   ///< 0.3.0, configured in Python and on the command line.
};

/// Names of modules, such as "tok_embeddings" or "layers.0".
using Names = std::vector<std::string>;
/// Names of the modules of each virtual stage.
using StageModules = std::vector<Names>;

/// One key of torchtitan's configuration with its value, and the part of the plan that it says.
struct TorchtitanSetting {
  std::string part;  ///< What the plan says: "pipeline parallel"; empty: the run, not the plan.
  std::string key;   ///< Section and key: "parallelism.tensor_parallel_degree".
  std::variant<bool, std::int64_t, std::string, Names, StageModules> value;
};

/// Returns degrees, batch, schedule, layers per stage, precision and compilation as settings. Both
/// releases spell these alike but for a few keys. Source: torchtitan 0.3.0, config/configs.py;
/// 0.2.2, config/job_config.py.
[[nodiscard]] std::vector<TorchtitanSetting> torchtitan_settings(const Plan& plan,
                                                                 TorchtitanRelease release);

/// Returns what of the plan's configuration and stack a release of torchtitan cannot run. It
/// includes what its parser accepts although training would differ or fail.
[[nodiscard]] std::vector<ExportRefusal> torchtitan_plan_refusals(const Plan& plan,
                                                                  TorchtitanRelease release);

/// Returns what torchtitan does differently from what the plan costs, in sentences.
[[nodiscard]] std::vector<std::string> torchtitan_differences(const Plan& plan,
                                                              TorchtitanRelease release);
/// Returns what to look at first in a run.
[[nodiscard]] std::vector<std::string> torchtitan_checks(const Plan& plan);

/// Returns the schedule of torch that lays stages on ranks as a configuration's schedule does.
[[nodiscard]] std::string_view torchtitan_schedule(const ParallelConfig& config);
/// Returns whether torch has no schedule of its own with the plan's orders, so that it reads them
/// from schedule.csv.
[[nodiscard]] bool needs_schedule_csv(const Plan& plan);
/// Returns whether the plan's kernels are fused as torch.compile fuses them, and torch can compile.
[[nodiscard]] bool is_compiled(const Plan& plan);

}  // namespace ptdp
