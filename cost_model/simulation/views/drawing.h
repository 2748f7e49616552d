// A timeline drawn with characters, for terminals.
#pragma once

#include <string>

#include "cost_model/schedule/lane.h"
#include "cost_model/simulation/timeline.h"

namespace ptdp {

/// What of a timeline is drawn: a window of time, ranks `first_rank` to `last_rank`, evenly thinned
/// out to `rows` of them, on `columns` characters.
struct DrawingWindow {
  Seconds from;
  Seconds to;
  int first_rank = 0;
  int last_rank = 0;
  int rows = 16;
  int columns = 96;
};

/// A line per rank of what its compute lane does. Where most actions are wide enough, they begin
/// with their name without the stage ("F12") and go on with '-'; else each is a letter of its kind:
/// F, B, I, W, R; & for an overlapped pair, m for a message that blocks, a for the all-reduces and
/// O for the optimizer at the end; '.' is a bubble, '*' one during which gradients are reduced or
/// parameters gathered. Where several share a column it shows the one that has most of it. A ruler
/// with the time stands above. The window must not be empty and lie on the ranks of the schedule.
[[nodiscard]] std::string draw(const Schedule& schedule, const Timeline& timeline,
                               MessageMode messages, const DrawingWindow& window);

}  // namespace ptdp
