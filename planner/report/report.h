// A report: what a tool answers, as views that a page draws, each with its numbers as a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace ptdp {

/// What the time or the memory of a bar serves; it decides the colour.
enum class Tint { kCompute, kWaste, kCommunication, kIdle, kOptimizer, kPlain };

/// An axis of a picture.
struct Axis {
  std::string name;
  std::string unit;  ///< Empty for plain numbers.
  bool is_log = false;
};

/// A line across a picture that a value should not pass, such as the capacity of a GPU.
struct Limit {
  std::string name;
  double value = 0.0;
};

/// Paragraphs of text; lines of one may be indented.
struct TextView {
  std::vector<std::string> paragraphs;
};

/// A table of its own.
struct TableView {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;  ///< As many cells as there are columns.
};

/// A bar, with the 90 % interval of its value where one is known.
struct Bar {
  std::string name;
  double value = 0.0;
  Tint tint = Tint::kPlain;
  std::optional<double> low;
  std::optional<double> high;
  std::string note;  ///< What the bar holds, for people; may be empty.
};

/// What a tint stands for in one picture.
struct TintMeaning {
  Tint tint = Tint::kPlain;
  std::string meaning;
};

/// Bars below each other. Those of a waterfall begin where the one above ends.
struct BarsView {
  std::string unit;
  std::vector<Bar> bars;
  bool is_waterfall = false;
  std::optional<Bar> total;           ///< Sum of a waterfall, drawn last.
  std::vector<TintMeaning> meanings;  ///< Of tints that stand for something else than usual.
};

/// A column of values on top of each other, one for each category.
struct StackedColumn {
  std::string name;
  std::vector<double> values;
};

/// Columns of stacked values beside each other.
struct StackedView {
  Axis x;
  Axis y;
  std::vector<std::string> categories;
  std::vector<StackedColumn> columns;
  std::optional<Limit> limit;
};

/// A curve, with a band around it where one is known.
struct Curve {
  std::string name;
  std::vector<double> x;
  std::vector<double> y;     ///< As many as `x`.
  std::vector<double> low;   ///< Lower end of the band; empty, or as many as `x`.
  std::vector<double> high;  ///< Upper end of the band; empty, or as many as `x`.
  bool has_steps = false;    ///< Whether a value holds until the next one, as memory does.
};

/// Curves over one axis.
struct CurvesView {
  Axis x;
  Axis y;
  std::vector<Curve> curves;
  std::vector<Limit> limits;  ///< Drawn across, at values of y.
  std::vector<Limit> marks;   ///< Drawn upright, at values of x.
};

/// A point of a scatter.
struct ScatterPoint {
  double x = 0.0;
  double y = 0.0;
  std::string name;
  std::string note;             ///< What a person should know of it, such as why it loses.
  std::vector<double> parts{};  ///< As many as ScatterView::parts, or none.
};

/// Points that are drawn alike.
struct ScatterGroup {
  std::string name;
  std::vector<ScatterPoint> points;
};

/// Points over two axes. A point with parts can be pinned beside the reference.
struct ScatterView {
  Axis x;
  Axis y;
  std::vector<ScatterGroup> groups;
  std::vector<Curve> curves;       ///< Roofs, diagonals, fronts.
  std::vector<std::string> parts;  ///< Names of what a point's value on `part_unit` adds up to.
  std::string part_unit;           ///< Unit of the parts.
  std::optional<ScatterPoint> reference;  ///< What a pinned point is set beside: the best.
};

/// What becomes of the answer when one input changes.
struct FlipStep {
  double change = 0.0;  ///< Relative change of the input: −0.2 is 20 % less.
  std::optional<double>
      time_s;  ///< Time of an iteration of the best plan; nullopt if nothing fits.
  std::optional<double>
      same_s;           ///< Time that the answer's own plan would take; nullopt if it can't.
  std::string winner;   ///< The best plan there; empty where nothing fits.
  bool is_same = true;  ///< Whether the answer's own plan still wins.
};

/// An input and what becomes of the answer along its changes.
struct FlipInput {
  std::string name;
  std::vector<FlipStep> steps;  ///< By change, the smallest first.
};

/// Inputs that could change the answer.
struct FlipsView {
  double base_s = 0.0;  ///< Time of an iteration of the answer, where no input changes.
  std::vector<FlipInput> inputs;
  std::string note;  ///< How it was found: the grid, and whether time cut it short.
};

/// A lane of a timeline for one schedule: the actions of all ranks, packed.
struct PackedTimeline {
  std::string name;              ///< Name of the schedule; "measured" for a run.
  double end_s = 0.0;            ///< When the last action ends.
  double bubble_s = 0.0;         ///< How long the pacing rank waits for the others' passes.
  double tick_s = 0.0;           ///< Unit of the packed times.
  std::vector<int> num_actions;  ///< Number of actions of each rank, in order.
  /// Five columns of little-endian 32-bit integers, one after the other, compressed by zlib's
  /// deflate and then base64: ticks between the end of the rank's action before (0 for the first)
  /// and the start; ticks that the action takes; kind (index into TimelineView::kinds); microbatch;
  /// chunk. Actions of a rank are in the order of their starts, rank after rank. A microbatch or
  /// chunk of −1 is none.
  std::string actions;
  std::vector<std::pair<int, int>> critical_path;  ///< Rank and index within the rank, in order.
};

/// A kind of action.
struct TimelineKind {
  std::string name;    ///< "forward", "backward", "weight gradient", "optimizer" ...
  std::string letter;  ///< What a wide rectangle shows before its microbatch: "F".
  Tint tint = Tint::kCompute;
  /// What the action waits for where there is a gap before it: "activations from the stage before".
  std::string waits_for;
};

/// Steps of one pipeline; the first is drawn, the others by a click. One named "measured" is drawn
/// below each of the others.
struct TimelineView {
  int num_ranks = 0;
  std::vector<TimelineKind> kinds;
  std::vector<PackedTimeline> schedules;
};

/// A picture or a table among several, one of which is shown.
struct PictureChoice {
  std::string name;
  std::string note = {};  ///< What a person should know of it; may be empty.
  std::variant<TableView, BarsView, StackedView> picture;
};

/// Pictures of which a person chooses one; the first is shown until then.
struct ChoicesView {
  std::vector<PictureChoice> choices;
};

using View = std::variant<TextView, TableView, BarsView, StackedView, CurvesView, ScatterView,
                          FlipsView, TimelineView, ChoicesView>;

/// A part of a report under a title of its own.
struct ReportSection {
  std::string id;     ///< Name in the page's address: lower-case letters and hyphens.
  std::string title;  ///< What the section answers.
  std::string note;   ///< A sentence or two under the title; may be empty.
  View view;
};

/// What a tool answers, for people.
struct Report {
  std::string title;
  std::string sentence;               ///< The answer in one sentence.
  std::vector<std::string> rests_on;  ///< What the answer rests on, one line each.
  std::string command;                ///< The command that wrote the report.
  std::vector<ReportSection> sections;
};

inline constexpr const char* kReportSchema = "ptdp.report/1";

/// Returns the report as `ptdp.report/1`, described in FORMATS.md.
[[nodiscard]] std::string to_json(const Report& report);

/// Returns the report as one HTML page that needs no network: the document as to_json() has it,
/// with the script and the style that draw it.
[[nodiscard]] std::string to_html(const Report& report);

}  // namespace ptdp
