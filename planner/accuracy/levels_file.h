// What the published runs say of every scope, as a file (`ptdp.levels/1`) that is shipped, so that
// a plan need not cost all of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost_model/measured/levels.h"
#include "cost_model/text/described.h"
#include "planner/accuracy/costed_runs.h"

namespace ptdp {

inline constexpr const char* kLevelsSchema = "ptdp.levels/1";

/// The constants of the levels of one quantity, and what runs say of the mean of each scope.
struct LevelSet {
  LevelModel model;
  std::vector<LevelScope> scopes;  ///< One for each path, in their order.
};

/// The levels of time, and those of memory.
struct Levels {
  LevelSet time;    ///< The levels of ln(measured/predicted).
  LevelSet memory;  ///< Those of measured memory − formulas [GiB], by runs that report memory.
};

template <class Fields>
void describe(Fields& fields, Described<Fields, LevelModel>& model);
template <class Fields>
void describe(Fields& fields, Described<Fields, LevelScope>& scope);

template <class Fields>
void describe(Fields& fields, Described<Fields, LevelSet>& levels);

/// Fits the constants to runs, and sums up what they say of each scope.
[[nodiscard]] Levels make_levels(const std::vector<CostedRun>& runs);

/// Fits the constants for memory to runs of several scopes; `start` as in fit_levels().
[[nodiscard]] LevelModel fit_memory_levels(const RunsByScope& runs, const LevelModel& start);

/// Returns the levels as `ptdp.levels/1`; equal levels give equal bytes.
[[nodiscard]] std::string to_json(const Levels& levels);
/// Reads levels from JSON. Throws Error at `place` for anything that to_json() does not write.
[[nodiscard]] Levels parse_levels(std::string_view text, const std::string& place);

/// Returns the shipped levels, profiles/published/levels.json, which are read once. Throws Error
/// when the file is missing.
[[nodiscard]] const Levels& shipped_levels();

}  // namespace ptdp
