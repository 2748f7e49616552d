// The page of errors: every published group, what is not modelled, and why the worst are bad.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// Groups whose uncalibrated median error exceeds this need an explanation.
inline constexpr double kNeedsExplanation = 0.06;

/// Texts by group.
using GroupNotes = std::map<std::string, std::string>;

/// The text below each heading `## group`; what stands above the first is left out. Throws Error at
/// `place` for a heading that is there twice.
[[nodiscard]] GroupNotes parse_notes(std::string_view text, const std::string& place);
/// Of profiles/published/notes.md.
[[nodiscard]] GroupNotes read_notes();

/// The page, as Markdown; equal runs give equal bytes.
[[nodiscard]] std::string error_page(const CostedRuns& runs, const GroupNotes& notes);

}  // namespace ptdp
