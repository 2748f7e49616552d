#include "planner/report/sections/measured_sections.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "planner/formatting.h"

namespace ptdp {

ReportSection factor_section(const MeasuredIteration& iteration, const Plan& plan) {
  const Estimate<double>& usual = iteration.factors;
  const std::vector<std::string> verdict = verdict_lines(iteration, plan);
  return {.id = "factor",
          .title = "Is that unusual?",
          .note = fmt::format(
              "Measured ({}): {}; {}. The bars are times over those of the cost model without "
              "calibration.",
              iteration.source, verdict[0], verdict[1]),
          .view = BarsView{
              .bars = {{.name = "this run", .value = iteration.factor, .tint = Tint::kCompute},
                       {.name = "usual for such runs",
                        .value = usual.value,
                        .low = usual.low,
                        .high = usual.high}},
              .meanings = {{Tint::kCompute, "measured"}, {Tint::kPlain, "usual"}}}};
}

ReportSection suspects_section(const MeasuredIteration& iteration, const Plan& plan) {
  const bool tells_where = is_slower(iteration, plan);
  TableView table{
      .columns = {"term", "times as long", "where to look", "predicted", "would have to take"}};
  for (const SuspectTerm& suspect : iteration.suspects) {
    table.rows.push_back({std::string(suspect.name), fmt::format("{:.2f}", suspect.factor),
                          tells_where ? std::string(suspect.where) : "",
                          duration(suspect.predicted),
                          duration(suspect.predicted * suspect.factor)});
  }
  return {.id = "suspects",
          .title = "What may explain the difference?",
          .note = suspects_title(iteration, plan) +
                  (tells_where ? fmt::format(", or {}", kBesideTheModel) : "."),
          .view = std::move(table)};
}

}  // namespace ptdp
