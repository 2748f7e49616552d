#include "cost_model/simulation/timeline.h"

namespace ptdp {

Seconds SimulatedTimes::makespan() const {
  Seconds last;
  for (const RankTimes& rank : ranks) {
    last = std::max(last, rank.end);
  }
  return last;
}

Seconds SimulatedTimes::longest_span() const {
  Seconds longest;
  for (const RankTimes& rank : ranks) {
    longest = std::max(longest, rank.end - rank.start + rank.gathers);
  }
  return longest;
}

Seconds SimulatedTimes::most_work() const {
  Seconds most;
  for (const RankTimes& rank : ranks) {
    most = std::max(most, rank.work);
  }
  return most;
}

Seconds SimulatedTimes::bubble() const {
  return makespan() - most_work();
}

Seconds SimulatedTimes::not_computing() const {
  Seconds work;
  for (const RankTimes& rank : ranks) {
    work += rank.work;
  }
  return makespan() - work / static_cast<double>(ranks.size());
}

double SimulatedTimes::bubble_ratio() const {
  const Seconds whole = makespan();
  return whole > Seconds(0.0) ? bubble() / whole : 0.0;
}

}  // namespace ptdp
