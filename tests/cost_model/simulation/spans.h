// Spans in seconds.
#pragma once

#include "cost_model/simulation/timeline.h"

namespace ptdp {

inline Span span(double start, double end) {
  return {.start = Seconds(start), .end = Seconds(end)};
}

}  // namespace ptdp
