// The page of errors: every published group, what is not modeled, and why the worst are bad.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// The uncalibrated median error, a fraction, above which a group needs an explanation.
inline constexpr double kNeedsExplanation = 0.06;

/// Explanations of errors, by group.
using GroupNotes = std::map<std::string, std::string>;

/// Reads the text below each heading `## group`; what stands above the first heading is left out.
/// Throws Error at `place` for a heading that is there twice.
[[nodiscard]] GroupNotes parse_notes(std::string_view text, const std::string& place);
/// Reads the notes of profiles/published/notes.md. Throws Error.
[[nodiscard]] GroupNotes read_notes();

/// Returns the page of errors as Markdown; equal runs and notes give equal bytes.
[[nodiscard]] std::string to_markdown(const CostedRuns& runs, const GroupNotes& notes);

}  // namespace ptdp
