#include "cost_model/measured/memory_belief.h"

#include <boost/math/distributions/students_t.hpp>
#include <cmath>

namespace ptdp {
namespace {

using Student = boost::math::students_t_distribution<double>;

MemoryBelief belief_of(const LevelModel& model, const LevelPrior& prior, const ScopeSums& sums,
                       const std::string& job) {
  MemoryBelief belief{.support = support_of(prior, sums.num_runs())};
  if (!belief.is_known()) {
    return belief;
  }
  const NextRun next = next_run(model, prior, sums, job);
  belief.expected = Bytes(next.job.mean * kGibi);
  belief.deviation = Bytes(std::sqrt(next.variance()) * kGibi);
  belief.degrees = next.degrees;
  return belief;
}

std::vector<LevelRun> memory_levels(std::span<const MemoryRun> runs) {
  std::vector<LevelRun> levels;
  levels.reserve(runs.size());
  for (const MemoryRun& run : runs) {
    levels.push_back(level_run(run));
  }
  return levels;
}

}  // namespace

LevelRun level_run(const MemoryRun& run) {
  return {.value = (run.measured - run.formulas).value() / kGibi, .job = run.job};
}

Bytes MemoryBelief::quantile(double probability) const {
  return expected + deviation * boost::math::quantile(Student(degrees), probability);
}

double MemoryBelief::probability_of_fitting(Bytes formulas, Bytes capacity) const {
  constexpr double digits = 1e4;  // more would say more than runs can
  const double probability =
      boost::math::cdf(Student(degrees), (capacity - formulas - expected) / deviation);
  return std::round(probability * digits) / digits;
}

MemoryBelief believe_memory(const LevelModel& model, const LevelPrior& prior,
                            std::span<const MemoryRun> runs, const std::string& job) {
  return belief_of(model, prior, ScopeSums(model, memory_levels(runs)), job);
}

std::vector<MemoryBelief> leave_one_out(const LevelModel& model, const LevelPrior& prior,
                                        std::span<const MemoryRun> runs) {
  const std::vector<LevelRun> levels = memory_levels(runs);
  ScopeSums sums(model, levels);
  std::vector<MemoryBelief> beliefs;
  beliefs.reserve(runs.size());
  for (const LevelRun& run : levels) {
    sums.remove(run);
    beliefs.push_back(belief_of(model, prior, sums, run.job));
    sums.add(run);
  }
  return beliefs;
}

}  // namespace ptdp
