// Writes a report as JSON.
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cost_model/text/named_values.h"
#include "cost_model/text/object_writer.h"
#include "planner/report/report.h"

namespace ptdp {
namespace {

constexpr std::array kTintNames = {NamedValue<Tint>{Tint::kCompute, "compute"},
                                   NamedValue<Tint>{Tint::kWaste, "waste"},
                                   NamedValue<Tint>{Tint::kCommunication, "communication"},
                                   NamedValue<Tint>{Tint::kIdle, "idle"},
                                   NamedValue<Tint>{Tint::kOptimizer, "optimizer"},
                                   NamedValue<Tint>{Tint::kPlain, "plain"}};

void write_tint(ObjectWriter& writer, Tint tint) {
  writer.choice("tint", tint, NamedValues<Tint>(kTintNames));
}

/// Writes each value into an object of its own.
template <class Value, class Write>
std::vector<ObjectWriter> written(const std::vector<Value>& values, Write write) {
  std::vector<ObjectWriter> writers(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    write(writers[i], values[i]);
  }
  return writers;
}

void write_optional(ObjectWriter& writer, const std::string& key, std::optional<double> value) {
  if (value) {
    writer.number(key, *value);
  }
}

void write_optional(ObjectWriter& writer, const std::string& key,
                    const std::vector<double>& values) {
  if (!values.empty()) {
    writer.numbers(key, values);
  }
}

void write_optional(ObjectWriter& writer, const std::string& key, const std::string& text) {
  if (!text.empty()) {
    writer.text(key, text);
  }
}

void write_axes(ObjectWriter& writer, const Axis& x, const Axis& y) {
  for (const auto& [key, axis] : {std::pair("x", &x), std::pair("y", &y)}) {
    writer.part(key, [&axis = axis](ObjectWriter& part) {
      part.text("name", axis->name);
      part.text("unit", axis->unit);
      part.flag("is_log", axis->is_log);
    });
  }
}

void write_limit(ObjectWriter& writer, const Limit& limit) {
  writer.text("name", limit.name);
  writer.number("value", limit.value);
}

void write_bar(ObjectWriter& writer, const Bar& bar) {
  writer.text("name", bar.name);
  writer.number("value", bar.value);
  write_tint(writer, bar.tint);
  write_optional(writer, "low", bar.low);
  write_optional(writer, "high", bar.high);
  write_optional(writer, "note", bar.note);
}

void write_curve(ObjectWriter& writer, const Curve& curve) {
  writer.text("name", curve.name);
  writer.numbers("x", curve.x);
  writer.numbers("y", curve.y);
  write_optional(writer, "low", curve.low);
  write_optional(writer, "high", curve.high);
  writer.flag("has_steps", curve.has_steps);
}

void write_point(ObjectWriter& writer, const ScatterPoint& point) {
  writer.number("x", point.x);
  writer.number("y", point.y);
  writer.text("name", point.name);
  write_optional(writer, "note", point.note);
  write_optional(writer, "parts", point.parts);
}

void write_flip_step(ObjectWriter& writer, const FlipStep& step) {
  writer.number("change", step.change);
  write_optional(writer, "time_s", step.time_s);
  write_optional(writer, "same_s", step.same_s);
  writer.text("winner", step.winner);
  writer.flag("is_same", step.is_same);
}

void write_timeline_kind(ObjectWriter& writer, const TimelineKind& kind) {
  writer.text("name", kind.name);
  writer.text("letter", kind.letter);
  write_tint(writer, kind.tint);
  write_optional(writer, "waits_for", kind.waits_for);
}

void write_timeline(ObjectWriter& writer, const PackedTimeline& timeline) {
  std::vector<int> ranks;
  std::vector<int> indices;
  for (const auto& [rank, index] : timeline.critical_path) {
    ranks.push_back(rank);
    indices.push_back(index);
  }
  writer.text("name", timeline.name);
  writer.number("end_s", timeline.end_s);
  writer.number("bubble_s", timeline.bubble_s);
  writer.number("tick_s", timeline.tick_s);
  writer.counts("num_actions", timeline.num_actions);
  writer.text("actions", timeline.actions);
  writer.part("critical_path", [&](ObjectWriter& part) {
    part.counts("ranks", ranks);
    part.counts("indices", indices);
  });
}

/// Writes a view, beginning with its kind.
class ViewWriter {
 public:
  explicit ViewWriter(ObjectWriter& writer) : writer_(&writer) {}

  void operator()(const TextView& view) const {
    writer_->text("kind", "text");
    writer_->texts("paragraphs", view.paragraphs);
  }

  void operator()(const TableView& view) const {
    writer_->text("kind", "table");
    writer_->texts("columns", view.columns);
    writer_->children("rows", written(view.rows, [](ObjectWriter& row, const auto& cells) {
                        row.texts("cells", cells);
                      }));
  }

  void operator()(const BarsView& view) const {
    writer_->text("kind", "bars");
    writer_->text("unit", view.unit);
    writer_->flag("is_waterfall", view.is_waterfall);
    writer_->children("bars", written(view.bars, write_bar));
    if (view.total) {
      writer_->part("total", [&](ObjectWriter& part) { write_bar(part, *view.total); });
    }
    if (!view.meanings.empty()) {
      writer_->children("meanings",
                        written(view.meanings, [](ObjectWriter& part, const TintMeaning& meaning) {
                          write_tint(part, meaning.tint);
                          part.text("meaning", meaning.meaning);
                        }));
    }
  }

  void operator()(const StackedView& view) const {
    writer_->text("kind", "stacked");
    write_axes(*writer_, view.x, view.y);
    writer_->texts("categories", view.categories);
    writer_->children("columns",
                      written(view.columns, [](ObjectWriter& part, const StackedColumn& column) {
                        part.text("name", column.name);
                        part.numbers("values", column.values);
                      }));
    if (view.limit) {
      writer_->part("limit", [&](ObjectWriter& part) { write_limit(part, *view.limit); });
    }
  }

  void operator()(const CurvesView& view) const {
    writer_->text("kind", "curves");
    write_axes(*writer_, view.x, view.y);
    writer_->children("curves", written(view.curves, write_curve));
    writer_->children("limits", written(view.limits, write_limit));
    writer_->children("marks", written(view.marks, write_limit));
  }

  void operator()(const ScatterView& view) const {
    writer_->text("kind", "scatter");
    write_axes(*writer_, view.x, view.y);
    writer_->children("groups",
                      written(view.groups, [](ObjectWriter& part, const ScatterGroup& group) {
                        part.text("name", group.name);
                        part.children("points", written(group.points, write_point));
                      }));
    writer_->children("curves", written(view.curves, write_curve));
    writer_->texts("parts", view.parts);
    writer_->text("part_unit", view.part_unit);
    if (view.reference) {
      writer_->part("reference", [&](ObjectWriter& part) { write_point(part, *view.reference); });
    }
  }

  void operator()(const FlipsView& view) const {
    writer_->text("kind", "flips");
    writer_->number("base_s", view.base_s);
    writer_->children("inputs",
                      written(view.inputs, [](ObjectWriter& part, const FlipInput& input) {
                        part.text("name", input.name);
                        part.children("steps", written(input.steps, write_flip_step));
                      }));
    write_optional(*writer_, "note", view.note);
  }

  void operator()(const TimelineView& view) const {
    writer_->text("kind", "timeline");
    writer_->count("num_ranks", view.num_ranks);
    writer_->children("kinds", written(view.kinds, write_timeline_kind));
    writer_->children("schedules", written(view.schedules, write_timeline));
  }

  void operator()(const ChoicesView& view) const {
    writer_->text("kind", "choices");
    writer_->children("choices",
                      written(view.choices, [](ObjectWriter& part, const PictureChoice& choice) {
                        part.text("name", choice.name);
                        write_optional(part, "note", choice.note);
                        part.part("view", [&](ObjectWriter& picture) {
                          std::visit(ViewWriter(picture), choice.picture);
                        });
                      }));
  }

 private:
  ObjectWriter* writer_;
};

}  // namespace

std::string to_json(const Report& report) {
  ObjectWriter writer;
  writer.schema(kReportSchema);
  writer.text("tool_version", PTDP_VERSION);
  writer.text("title", report.title);
  writer.text("sentence", report.sentence);
  writer.texts("rests_on", report.rests_on);
  writer.text("command", report.command);
  writer.children(
      "sections", written(report.sections, [](ObjectWriter& part, const ReportSection& section) {
        part.text("id", section.id);
        part.text("title", section.title);
        part.text("note", section.note);
        part.part("view", [&](ObjectWriter& view) { std::visit(ViewWriter(view), section.view); });
      }));
  return writer.dump();
}

}  // namespace ptdp
