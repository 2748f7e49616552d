// A timeline drawn with characters, for terminals.
#pragma once

#include <string>

#include "cost_model/schedule/lane.h"
#include "cost_model/simulation/timeline.h"

namespace ptdp {

/// The part of a timeline that is drawn: a window of time on ranks `first_rank` to `last_rank`. The
/// ranks are evenly thinned out to `rows`, and time takes `columns` characters.
struct DrawingWindow {
  Seconds from;
  Seconds to;
  int first_rank = 0;
  int last_rank = 0;
  int rows = 16;
  int columns = 96;
};

/// Draws a line per rank of what its compute lane does, below a ruler of time. The window must not
/// be empty, and must lie on the ranks of the schedule.
///
/// If most actions are wide enough, they begin with their name without the stage ("F12") and go on
/// with '-'. Otherwise each is a letter of its kind: F, B, I, W, R; & for an overlapped pair, m for
/// a message that blocks, a for the all-reduces and O for the optimizer at the end. A '.' is a
/// bubble, and '*' a bubble during which gradients are reduced or parameters gathered. A column
/// that several actions share shows the one that has most of it.
[[nodiscard]] std::string draw(const Schedule& schedule, const Timeline& timeline,
                               MessageMode messages, const DrawingWindow& window);

}  // namespace ptdp
