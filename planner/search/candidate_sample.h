// Candidates that a picture shows: the best of each split, and some of all that can run.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/search/search.h"

namespace ptdp {

/// The best candidate of each pair of tp and pp.
struct BestOfSplits {
  std::vector<Candidate> best;    ///< Only of pairs with something that fits, the fastest first.
  std::int64_t num_splits = 0;    ///< Pairs that the model can be split into.
  std::int64_t num_searched = 0;  ///< Pairs that were searched to the end.
};

/// Searches within each pair of tp and pp, at most `most` of them. Each result is that of a whole
/// search; pairs that take much work are left out, and all once the options' limit is over.
[[nodiscard]] BestOfSplits best_of_splits(const Scenario& scenario, const SearchOptions& options,
                                          std::int64_t most);

/// How many candidates a sample is made of.
struct SampleSize {
  std::int64_t all = 0;        ///< Candidates that the search counted.
  std::int64_t looked_at = 0;  ///< About how many of these are checked.
  std::size_t kept = 0;        ///< At most so many that can run are returned.
};

/// Returns candidates that can run, evenly apart in the order in which a search lists candidates.
/// Equal arguments give equal samples. Layers are balanced where they may differ. Searched
/// schedules are left out: to make one takes as long as a search.
[[nodiscard]] std::vector<ParallelConfig> sample_candidates(const Scenario& scenario,
                                                            const SearchOptions& options,
                                                            const SampleSize& size);

}  // namespace ptdp
