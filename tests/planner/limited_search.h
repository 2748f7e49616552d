// Searches that end where a test says.
#pragma once

#include <atomic>
#include <memory>

#include "planner/search/search_time_limit.h"

namespace ptdp {

/// Returns a limit that is over once it was asked `number` times.
inline SearchLimit after_questions(int number) {
  const auto asked = std::make_shared<std::atomic<int>>(0);
  return SearchLimit([asked, number] { return static_cast<double>(++*asked) / number; });
}

}  // namespace ptdp
