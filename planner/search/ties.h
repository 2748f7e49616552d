// The choice among configurations that are as fast as the best, as far as predictions can tell.
#pragma once

#include <string>
#include <vector>

#include "planner/search/search.h"

namespace ptdp {

/// The loss up to which configurations tie, unless a user asks for another one. Plans closer than
/// that are ordered by little more than chance (profiles/published/README.md).
inline constexpr double kUsualTie = 0.015;

/// Returns whether `a` is preferred to `b`, which is as fast. The first of these that differs
/// decides:
///
///   - fewer idle GPUs, except under kCost, where nobody pays for them;
///   - tensor parallelism within a node;
///   - memory of at most three quarters of the device's;
///   - 1F1B before interleaved before other schedules, then fewer chunks;
///   - more sizes that are powers of two;
///   - less memory beyond three quarters of the device's, in sixteenths;
///   - the better score.
[[nodiscard]] bool is_preferred(const Candidate& a, const Candidate& b, const Scenario& scenario,
                                const SearchOptions& options);

/// Puts the preferred one of found.ties first among found.best, and sets found.fastest to the one
/// that was first, if that is another one. Does nothing without ties.
void choose_among_ties(const Scenario& scenario, const SearchOptions& options, SearchResult& found);

/// Returns in what `chosen` is better than `fastest`, in the order of is_preferred(): "7.8 GiB
/// less", "a plainer schedule".
[[nodiscard]] std::vector<std::string> gains_of_choice(const Candidate& chosen,
                                                       const Candidate& fastest,
                                                       const Scenario& scenario,
                                                       const SearchOptions& options);

}  // namespace ptdp
