#include "cost_model/simulation/views/drawing.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>

#include <vector>

namespace ptdp {
namespace {

constexpr char kBubble = '.';
constexpr char kReduction = '*';
constexpr char kContinued = '-';
constexpr int kColumnsForThree = 36;     // three times fit on the ruler from this width on
constexpr std::size_t kLabelWidth = 10;  // "rank 1023 "

char letter_of(const Action& action, bool is_pair) {
  if (is_pair) {
    return '&';
  }
  switch (action.kind) {
    case ActionKind::kForward:
    case ActionKind::kBackward:
    case ActionKind::kInputGradient:
    case ActionKind::kWeightGradient:
    case ActionKind::kRecompute:
      return spelling_of(action.kind).front();
    case ActionKind::kOptimizer:
      return 'O';
    case ActionKind::kReduceTied:
    case ActionKind::kReduceNorm:
      return 'a';
    default:
      return 'm';
  }
}

/// One row of a drawing: who has most of every column, and the names of what begins.
class Row {
 public:
  explicit Row(const DrawingWindow& window)
      : window_(window),
        scale_(window.columns / (window.to - window.from).value()),
        used_(window.columns, 0.0),
        best_(window.columns, 0.0),
        letters_(window.columns, kBubble),
        text_(window.columns, kBubble) {}

  /// Adds what ran in a span. A column that is less than half in use once all are added is a
  /// bubble.
  void add(Span span, char letter, const std::string& name) {
    const double begin = column_of(span.start);
    const double end = column_of(span.end);
    if (!(end > begin)) {
      return;
    }
    const int first = static_cast<int>(begin);
    const int last = std::min(static_cast<int>(std::ceil(end)), window_.columns);
    for (int column = first; column < last; ++column) {
      const double share = std::min(end, column + 1.0) - std::max(begin, 1.0 * column);
      used_[column] += share;
      if (share > best_[column]) {
        best_[column] = share;
        letters_[column] = letter;
      }
      text_[column] = used_[column] < 0.5 ? kBubble : letters_[column];
    }
    // A name needs a column more than its letters, else it would touch the next name.
    const int start = static_cast<int>(std::lround(begin));
    const int stop = static_cast<int>(std::lround(end));
    if (!name.empty() && stop - start > static_cast<int>(name.size())) {
      for (int column = start; column < stop; ++column) {
        const auto i = static_cast<std::size_t>(column - start);
        text_[column] = i < name.size() ? name[i] : kContinued;
        letters_[column] = text_[column];
        best_[column] = used_[column] = 1.0;
      }
    }
  }

  /// Fills the columns of a span in which nothing else runs.
  void add_behind(Span span, char letter) {
    const int first = static_cast<int>(std::lround(column_of(span.start)));
    const int last = static_cast<int>(std::lround(column_of(span.end)));
    for (int column = first; column < last; ++column) {
      if (text_[column] == kBubble) {
        text_[column] = letter;
      }
    }
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  [[nodiscard]] double column_of(Seconds time) const {
    return std::clamp((time - window_.from).value() * scale_, 0.0, 1.0 * window_.columns);
  }

  const DrawingWindow& window_;
  double scale_;
  std::vector<double> used_;  ///< Share of each column that is in use.
  std::vector<double> best_;  ///< Largest share of each column that one letter has.
  std::string letters_;       ///< Letter with the largest share of each column.
  std::string text_;
};

std::string name_of(const Action& action) {
  return std::string(spelling_of(action.kind)) + std::to_string(action.microbatch);
}

/// Calls `visit(position, name)` for each action that computes on a rank; a pair counts as one.
template <class Visit>
void for_each_compute(const std::vector<Action>& order, const Visit& visit) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!is_compute(order[i].kind)) {
      continue;
    }
    const bool is_pair = order[i].overlaps_next && i + 1 < order.size();
    visit(i, is_pair ? name_of(order[i]) + '&' + name_of(order[i + 1]) : name_of(order[i]));
    i += is_pair ? 1 : 0;
  }
}

/// Whether three quarters of the names in the window have room. A few names among letters would
/// confuse.
bool has_room_for_names(const Schedule& schedule, const Timeline& timeline,
                        const DrawingWindow& window) {
  const double scale = window.columns / (window.to - window.from).value();
  std::int64_t named = 0;
  std::int64_t all = 0;
  for (int rank = window.first_rank; rank <= window.last_rank; ++rank) {
    for_each_compute(schedule.orders[rank], [&](std::size_t i, const std::string& name) {
      const Span& span = timeline.spans[rank][i];
      if (span.start >= window.from && span.end <= window.to) {
        ++all;
        named += span.length().value() * scale > static_cast<double>(name.size()) ? 1 : 0;
      }
    });
  }
  return 4 * named >= 3 * all;
}

std::string row_of(const Schedule& schedule, const Timeline& timeline, MessageMode messages,
                   const DrawingWindow& window, int rank, bool has_names) {
  Row row(window);
  const std::vector<Action>& order = schedule.orders[rank];
  const std::vector<Span>& spans = timeline.spans[rank];
  for_each_compute(order, [&](std::size_t i, const std::string& name) {
    row.add(spans[i], letter_of(order[i], order[i].overlaps_next), has_names ? name : "");
  });
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!is_compute(order[i].kind) && occupies_lane(order[i].kind) &&
        lane_of(order[i].kind, messages) == Lane::kCompute) {
      row.add(spans[i], letter_of(order[i], false), "");
    }
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (lane_of(order[i].kind, messages) == Lane::kData) {
      row.add_behind(spans[i], kReduction);
    }
  }
  return row.text();
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

/// Returns a time with four digits, such as "1.25 s", "12.5 ms" or "0 s".
std::string time_text(Seconds time) {
  const double seconds = time.value();
  const bool is_milli = seconds > 0.0 && seconds < 1.0;
  std::array<char, 32> text{};
  const auto [end, error] =
      std::to_chars(text.data(), text.data() + text.size(), is_milli ? 1e3 * seconds : seconds,
                    std::chars_format::general, 4);
  return std::string(text.data(), end) + (is_milli ? " ms" : " s");
}

/// Returns a line with the times at the beginning and the end of the window, and at the middle if
/// there is room.
std::string ruler(const DrawingWindow& window) {
  std::string line(kLabelWidth, ' ');
  const auto put = [&](double share) {
    const auto column = kLabelWidth + static_cast<std::size_t>(share * window.columns);
    line.resize(std::max(column, line.size() + (share > 0.0 ? 1 : 0)), ' ');
    line += '|' + time_text(window.from + (window.to - window.from) * share);
  };
  put(0.0);
  if (window.columns >= kColumnsForThree) {
    put(0.5);
  }
  put(1.0);
  return line + '\n';
}

}  // namespace

std::string draw(const Schedule& schedule, const Timeline& timeline, MessageMode messages,
                 const DrawingWindow& window) {
  assert(window.to > window.from && window.rows > 0 && window.columns > 0);
  assert(0 <= window.first_rank && window.first_rank <= window.last_rank &&
         window.last_rank < schedule.pp);
  std::string text = ruler(window);
  const int ranks = window.last_rank - window.first_rank + 1;
  const int rows = std::min(ranks, window.rows);
  const bool has_names = has_room_for_names(schedule, timeline, window);
  for (int row = 0; row < rows; ++row) {
    // The first and the last rank are always drawn.
    const int rank =
        window.first_rank +
        (rows == 1 ? 0 : static_cast<int>(std::int64_t{row} * (ranks - 1) / (rows - 1)));
    text += padded("rank " + std::to_string(rank), kLabelWidth) +
            row_of(schedule, timeline, messages, window, rank, has_names) + '\n';
  }
  return text;
}

}  // namespace ptdp
