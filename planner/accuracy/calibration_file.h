// The calibration of one cluster, stack and kind of model as a file (`ptdp.calibration/1`,
// described in FORMATS.md), and where a plan's calibration comes from.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/measured/calibration.h"
#include "cost_model/measured/memory_belief.h"
#include "cost_model/text/described.h"
#include "planner/accuracy/memory_levels.h"
#include "planner/accuracy/published_runs.h"
#include "planner/accuracy/run_calibration.h"

namespace ptdp {

/// A run behind a calibration factor, with its id.
struct NamedCalibrationRun {
  std::string id;
  CalibrationRun run;
  std::optional<MemoryRun> memory = {};  ///< Its memory; nullopt where none was measured.
};

template <class Fields>
void describe(Fields& fields, Described<Fields, NamedCalibrationRun>& run);

/// The largest ratio of measured and predicted time, and of predicted and measured, that a run may
/// have: beyond it a unit is wrong.
inline constexpr double kMostRatio = 100.0;
/// Throws Error at `place` for a run whose times lie farther apart than kMostRatio.
void check_ratio(const NamedCalibrationRun& run, const std::string& place);

/// The calibration of one cluster, stack and kind of model, with the runs behind it.
struct StackCalibration {
  std::string tool_version = PTDP_VERSION;  ///< Version whose cost model predicted the runs.
  std::string cluster;                      ///< Name of the cluster's profile.
  std::string stack;                        ///< Name of the stack's profile.
  std::optional<bool> has_experts;        ///< Whether its models have experts; nullopt: any model.
  std::string source;                     ///< The files that the runs were read from.
  std::vector<NamedCalibrationRun> runs;  ///< At least one.

  /// Returns the runs without their ids.
  [[nodiscard]] std::vector<CalibrationRun> unnamed_runs() const;
  /// Returns the runs whose memory was measured.
  [[nodiscard]] std::vector<MemoryRun> memory_runs() const;
};

inline constexpr const char* kCalibrationSchema = "ptdp.calibration/1";

/// The most runs that a calibration file holds.
inline constexpr std::size_t kMostCalibrationRuns = 10'000;

/// Returns the name of a calibration file: "selene-a100+megatron-lm-2021.json", or for models with
/// experts "selene-a100+megatron-lm-2021+experts.json".
[[nodiscard]] std::string calibration_file_name(const CalibrationScope& scope);

/// Returns the calibration as `ptdp.calibration/1`; equal calibrations give equal bytes.
[[nodiscard]] std::string to_json(const StackCalibration& calibration);

/// Reads a calibration that to_json() of this version wrote. Throws Error for anything else, since
/// the cost model of another version predicts otherwise.
[[nodiscard]] StackCalibration parse_calibration(std::string_view text, const std::string& place);

/// The source of a plan's calibration: nothing, the published runs, or files of ptdp-calibrate.
class CalibrationSource {
 public:
  /// Returns the source that fits published runs.
  [[nodiscard]] static CalibrationSource shipped() { return CalibrationSource(Kind::kShipped); }
  /// Returns the source that calibrates nothing.
  [[nodiscard]] static CalibrationSource none() { return CalibrationSource(Kind::kNone); }
  /// Reads "none", "shipped", a file of ptdp-calibrate, or a directory of such files. Throws Error
  /// at `place`, with near misses.
  [[nodiscard]] static CalibrationSource parse(const std::string& text, const std::string& place);

  /// Returns the files that may hold the calibration of a scenario, whether they exist or not.
  [[nodiscard]] std::vector<std::filesystem::path> files(const Scenario& scenario) const;

  /// Returns whether a calibration never rests on the run that a prediction stands beside.
  [[nodiscard]] bool leaves_out_published_runs() const { return kind_ != Kind::kFiles; }

  /// Fits a calibration for the scenario on `gpus` GPUs; uncalibrated when too little is published.
  /// Throws Error when files were given and none is of the scenario's cluster, stack and kind of
  /// model.
  [[nodiscard]] CalibrationFit fit(const Scenario& scenario, std::int64_t gpus,
                                   const PublishedRuns& published) const;
  /// Computes what the source says of the memory of the scenario's job; nothing where
  /// fit_if_known() knows nothing, or no given file has measured memory.
  [[nodiscard]] MemoryBelief memory(const Scenario& scenario, std::int64_t gpus,
                                    const PublishedRuns& published) const;
  /// Returns the shipped published runs, for fit() and memory(); none where the source needs none.
  [[nodiscard]] const PublishedRuns& published() const;
  /// Returns the scenario with the reserve that measured memory in a given file asks for
  /// (with_reserve()). Returns it as it is where there is none.
  [[nodiscard]] ReservedScenario with_own_reserve(const Scenario& scenario,
                                                  std::int64_t gpus) const;
  /// Returns the scenario with the reserve that is enough with `probability` by all runs that the
  /// source knows (with_reserve()). Returns it as it is where it knows none.
  [[nodiscard]] ReservedScenario reserved_for(double probability, const Scenario& scenario,
                                              std::int64_t gpus) const;
  /// Fits a calibration with the shipped published runs, which are read if they are needed.
  [[nodiscard]] CalibrationFit fit(const Scenario& scenario, std::int64_t gpus) const;
  /// Fits a calibration as fit() does, but returns an uncalibrated one when no given file suits.
  [[nodiscard]] CalibrationFit fit_if_known(const Scenario& scenario, std::int64_t gpus,
                                            const PublishedRuns& published) const;

 private:
  enum class Kind { kNone, kShipped, kFiles };
  explicit CalibrationSource(Kind kind) : kind_(kind) {}
  /// Returns the calibration in the file for a scenario; nullopt when there is none of its cluster,
  /// stack and kind of model.
  [[nodiscard]] std::optional<StackCalibration> find_file(const Scenario& scenario) const;

  Kind kind_;
  std::filesystem::path path_;
};

}  // namespace ptdp
