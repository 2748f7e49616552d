// The calibration of one cluster, stack and kind of model as a file, `ptdp.calibration/1`,
// described in FORMATS.md.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/measured/calibration.h"
#include "cost_model/text/described.h"
#include "planner/accuracy/run_calibration.h"

namespace ptdp {

/// A run that a factor rests on.
struct NamedCalibrationRun {
  std::string id;
  CalibrationRun run;
};

template <class Fields>
void describe(Fields& fields, Described<Fields, NamedCalibrationRun>& run);

/// What one cluster, stack and kind of model is calibrated with, by value.
struct StackCalibration {
  std::string tool_version = PTDP_VERSION;  ///< Whose cost model predicted the runs.
  std::string cluster;                      ///< As the profile calls itself.
  std::string stack;
  std::optional<bool> has_experts;  ///< Whether its models have; none, in old files: any model.
  std::string source;               ///< The files that the runs were read from.
  std::vector<NamedCalibrationRun> runs;

  [[nodiscard]] CalibrationFit fit() const;
};

inline constexpr const char* kCalibrationSchema = "ptdp.calibration/1";

/// Most runs that a file holds.
inline constexpr std::size_t kMostCalibrationRuns = 10'000;

/// "selene-a100+megatron-lm-2021.json", of models with experts
/// "selene-a100+megatron-lm-2021+experts.json".
[[nodiscard]] std::string calibration_file_name(const CalibrationScope& scope);

/// Equal calibrations give equal bytes.
[[nodiscard]] std::string to_json(const StackCalibration& calibration);

/// Reads what to_json() of this version wrote. Throws Error for anything else: another version's
/// cost model predicts otherwise.
[[nodiscard]] StackCalibration parse_calibration(std::string_view text, const std::string& place);

/// Where the calibration of a plan comes from.
class CalibrationSource {
 public:
  /// The published runs, or nothing.
  [[nodiscard]] static CalibrationSource shipped() { return CalibrationSource(Kind::kShipped); }
  [[nodiscard]] static CalibrationSource none() { return CalibrationSource(Kind::kNone); }
  /// "none", "shipped", a file of ptdp-calibrate, or a directory of such files. Throws Error at
  /// `place`, with near misses.
  [[nodiscard]] static CalibrationSource parse(const std::string& text, const std::string& place);

  /// The files that may hold the calibration of a scenario, whether they are there or not.
  [[nodiscard]] std::vector<std::filesystem::path> files(const Scenario& scenario) const;

  /// Whether it never rests on the run that a prediction stands beside.
  [[nodiscard]] bool leaves_out_published_runs() const { return kind_ != Kind::kFiles; }

  /// Fits the scenario on so many GPUs; it stays uncalibrated where too little is published. Throws
  /// Error where files were given and none is of the scenario's cluster, stack and kind of model.
  [[nodiscard]] CalibrationFit fit(const Scenario& scenario, std::int64_t gpus,
                                   const MeasuredRuns& published) const;
  /// Fits with the shipped published runs, which are read if they are needed.
  [[nodiscard]] CalibrationFit fit(const Scenario& scenario, std::int64_t gpus) const;
  /// Fits as fit() does, but leaves uncalibrated what no given file is of.
  [[nodiscard]] CalibrationFit fit_if_known(const Scenario& scenario, std::int64_t gpus,
                                            const MeasuredRuns& published) const;

 private:
  enum class Kind { kNone, kShipped, kFiles };
  explicit CalibrationSource(Kind kind) : kind_(kind) {}
  /// The file's; none where it is of another cluster, stack or kind of model, or not there.
  [[nodiscard]] std::optional<CalibrationFit> find_file(const Scenario& scenario) const;

  Kind kind_;
  std::filesystem::path path_;
};

}  // namespace ptdp
