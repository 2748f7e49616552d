// Writes two plans beside each other as text and as JSON.
#include <fmt/format.h>

#include <algorithm>

#include "cost_model/text/object_writer.h"
#include "planner/answer/comparison.h"
#include "planner/constraints/constraint.h"
#include "planner/explain/explain.h"
#include "planner/formatting.h"
#include "planner/text_table.h"

namespace ptdp {
namespace {

constexpr int kValueWidth = -24;
constexpr int kNumberWidth = 10;

const Plan& plan_of(const PlanComparison& comparison, std::size_t which) {
  return comparison.plans.at(which).plan;
}

std::string keys_text(std::string_view title, const std::vector<ComparedKey>& keys) {
  using Column = TextColumn<ComparedKey>;
  return keys.empty()
             ? ""
             : fmt::format("\n{}\n", title) +
                   text_table<ComparedKey>(
                       {Column{"  key", -24,
                               [](const auto& k) { return "  " + std::string(k.key); }},
                        Column{"A", kValueWidth, [](const auto& k) { return k.values[0]; }},
                        Column{"B", 0, [](const auto& k) { return k.values[1]; }}},
                       keys);
}

/// A line of a table of numbers: those of both plans.
struct ComparedLine {
  std::string name;
  std::array<double, 2> values{};
};

std::string lines_text(const std::string& heading, const std::vector<ComparedLine>& lines) {
  const auto number = [](double value) { return fmt::format("{:.4g}", value); };
  return text_table<ComparedLine>(
      {{"  " + heading, -26, [](const ComparedLine& line) { return "  " + line.name; }},
       {"A", kNumberWidth, [&](const ComparedLine& line) { return number(line.values[0]); }},
       {"B", kNumberWidth, [&](const ComparedLine& line) { return number(line.values[1]); }},
       {"B - A", kNumberWidth,
        [&](const ComparedLine& line) {
          return fmt::format("{:+.4g}", line.values[1] - line.values[0]);
        }}},
      lines);
}

std::string figures_text(const PlanComparison& comparison) {
  std::vector<ComparedLine> lines;
  const auto add = [&](std::string name, auto figure) {
    lines.push_back(
        {std::move(name), {figure(plan_of(comparison, 0)), figure(plan_of(comparison, 1))}});
  };
  add("iteration [s]", [](const Plan& p) { return p.predicted.iteration_time.value.value(); });
  add("tokens/s", [](const Plan& p) { return p.predicted.tokens_per_second.value; });
  add("MFU [%]", [](const Plan& p) { return 100.0 * p.predicted.mfu.value; });
  add("GPUs in use", [](const Plan& p) { return static_cast<double>(p.config.world_size()); });
  add("memory [GiB]", [](const Plan& p) { return p.memory.peak().value() / kGibi; });
  add("usable memory [GiB]", [](const Plan& p) {
    return usable_memory(p.scenario.cluster.gpu, p.memory_headroom).value() / kGibi;
  });
  if (plan_of(comparison, 0).memory.beyond.is_known() &&
      plan_of(comparison, 1).memory.beyond.is_known()) {
    add("probability of fitting [%]",
        [](const Plan& p) { return 100.0 * p.memory.probability_of_fitting; });
  }
  return "\nFigures\n" + lines_text("figure", lines);
}

std::string terms_text(const PlanComparison& comparison) {
  const CostBreakdown& first = plan_of(comparison, 0).predicted.breakdown;
  const CostBreakdown& second = plan_of(comparison, 1).predicted.breakdown;
  std::vector<ComparedLine> lines;
  for (const TermDifference& difference : differences(second, first)) {
    const auto* term = std::ranges::find(kCostTerms, difference.term, &CostTerm::name);
    const std::array values = {(first.*term->time).value(), (second.*term->time).value()};
    if (values[0] != 0.0 || values[1] != 0.0) {
      lines.push_back({std::string(difference.term), values});
    }
  }
  lines.push_back({"total", {first.total().value(), second.total().value()}});
  return "\nTerm by term, the largest difference first\n" + lines_text("term [s]", lines);
}

/// Stages in a row that read alike.
struct EqualStages {
  std::size_t first = 0;
  std::size_t last = 0;
  std::array<std::string, 4> cells;  ///< Passes of A and of B, memory of A and of B.
};

std::vector<EqualStages> stage_rows(const PlanComparison& comparison) {
  std::vector<EqualStages> rows;
  const auto& [first, second] = comparison.stages;
  const auto cell = [](const std::vector<ComparedStage>& stages, std::size_t stage, auto show) {
    return stage < stages.size() ? show(stages[stage]) : std::string("-");
  };
  const auto time = [](const ComparedStage& stage) {
    return fmt::format("{:.4g}", stage.passes.value());
  };
  const auto memory = [](const ComparedStage& stage) {
    return fmt::format("{:.2f}", stage.memory.value() / kGibi);
  };
  for (std::size_t stage = 0; stage < std::max(first.size(), second.size()); ++stage) {
    EqualStages row{stage,
                    stage,
                    {cell(first, stage, time), cell(second, stage, time),
                     cell(first, stage, memory), cell(second, stage, memory)}};
    if (!rows.empty() && rows.back().cells == row.cells) {
      rows.back().last = stage;
    } else {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string stages_text(const PlanComparison& comparison) {
  using Column = TextColumn<EqualStages>;
  const auto cell = [](std::string heading, std::size_t place) {
    return Column{std::move(heading), kNumberWidth,
                  [place](const EqualStages& row) { return row.cells.at(place); }};
  };
  return "\nStage by stage: what it computes in an iteration, and its memory\n" +
         text_table<EqualStages>(
             {Column{"  stage", -12,
                     [](const EqualStages& row) {
                       return row.first == row.last
                                  ? fmt::format("  {}", row.first + 1)
                                  : fmt::format("  {} to {}", row.first + 1, row.last + 1);
                     }},
              cell("A [s]", 0), cell("B [s]", 1), cell("A [GiB]", 2), cell("B [GiB]", 3)},
             stage_rows(comparison));
}

std::string to_text(const PlanComparison& comparison) {
  const auto title = [&](std::size_t which, const char* letter) {
    const NamedPlan& named = comparison.plans.at(which);
    return paragraph(fmt::format("{}  {}: {} with {}", letter, named.name,
                                 named.plan.scenario.job.model_name, to_string(named.plan.config)),
                     "");
  };
  return paragraph(verdict_of(comparison), "") + title(0, "A") + title(1, "B") +
         keys_text("Inputs that differ", comparison.inputs) +
         keys_text("Keys that differ", comparison.config) + figures_text(comparison) +
         terms_text(comparison) + stages_text(comparison);
}

std::vector<ObjectWriter> keys_json(const std::vector<ComparedKey>& keys) {
  std::vector<ObjectWriter> list;
  for (const ComparedKey& key : keys) {
    ObjectWriter& json = list.emplace_back();
    json.text("key", std::string(key.key));
    json.text("first", key.values[0]);
    json.text("second", key.values[1]);
  }
  return list;
}

ObjectWriter plan_json(const NamedPlan& named) {
  const Plan& plan = named.plan;
  ObjectWriter json;
  json.text("file", named.name);
  json.name("model", plan.scenario.job.model_name);
  json.count("global_batch_size", plan.scenario.job.global_batch_size);
  json.count("gpus", plan.gpus);
  json.count("gpus_used", plan.config.world_size());
  json.name("cluster", plan.scenario.cluster.name);
  json.name("stack", plan.scenario.stack.name);
  json.object("config", plan.config);
  json.number("iteration_time_s", plan.predicted.iteration_time.value.value());
  json.number("tokens_per_s", plan.predicted.tokens_per_second.value);
  json.number("mfu", plan.predicted.mfu.value);
  json.number("peak_GiB", plan.memory.peak().value() / kGibi);
  json.number("usable_GiB",
              usable_memory(plan.scenario.cluster.gpu, plan.memory_headroom).value() / kGibi);
  if (plan.memory.beyond.is_known()) {
    json.number("probability_of_fitting", plan.memory.probability_of_fitting);
  }
  return json;
}

std::vector<ObjectWriter> terms_json(const PlanComparison& comparison) {
  std::vector<ObjectWriter> terms;
  for (const CostTerm& term : kCostTerms) {
    const Seconds first = plan_of(comparison, 0).predicted.breakdown.*term.time;
    const Seconds second = plan_of(comparison, 1).predicted.breakdown.*term.time;
    if (term.is_optional && first == Seconds(0.0) && second == Seconds(0.0)) {
      continue;
    }
    ObjectWriter& json = terms.emplace_back();
    json.text("term", std::string(term.name));
    json.number("first_s", first.value());
    json.number("second_s", second.value());
    json.number("difference_s", (second - first).value());
  }
  return terms;
}

std::vector<ObjectWriter> stages_json(const PlanComparison& comparison) {
  std::vector<ObjectWriter> rows;
  const auto& [first, second] = comparison.stages;
  for (std::size_t stage = 0; stage < std::max(first.size(), second.size()); ++stage) {
    ObjectWriter& json = rows.emplace_back();
    json.count("stage", static_cast<std::int64_t>(stage));
    const auto add = [&](const std::string& name, const std::vector<ComparedStage>& stages) {
      if (stage < stages.size()) {
        json.number(name + "_passes_s", stages[stage].passes.value());
        json.number(name + "_GiB", stages[stage].memory.value() / kGibi);
      }
    };
    add("first", first);
    add("second", second);
  }
  return rows;
}

std::string to_json(const PlanComparison& comparison) {
  ObjectWriter json;
  json.text("schema", "ptdp.comparison/1");
  json.text("tool_version", PTDP_VERSION);
  json.flag("one_job", comparison.is_one_job());
  if (comparison.first_faster) {
    json.number("first_faster", *comparison.first_faster);
  } else {
    json.text("reason", comparison.reason);
  }
  std::vector<ObjectWriter> plans;
  for (const NamedPlan& named : comparison.plans) {
    plans.push_back(plan_json(named));
  }
  json.children("plans", std::move(plans));
  json.children("inputs", keys_json(comparison.inputs));
  json.children("config", keys_json(comparison.config));
  json.children("terms", terms_json(comparison));
  json.children("stages", stages_json(comparison));
  return json.dump();
}

}  // namespace

std::string verdict_of(const PlanComparison& comparison) {
  const auto rate = [&](std::size_t which) {
    return plan_of(comparison, which).predicted.tokens_per_second.value;
  };
  const double ratio = std::max(rate(0), rate(1)) / std::min(rate(0), rate(1));
  const char* const faster = rate(0) > rate(1) ? "A" : "B";
  const std::string difference =
      ratio < 1.0005 ? "A and B train equally many tokens a second"
      : ratio < 2.0 ? fmt::format("{} trains {} more tokens a second", faster, percent(ratio - 1.0))
                    : fmt::format("{} trains {:.3g} times as many tokens a second", faster, ratio);
  if (plan_of(comparison, 0).scenario.job.model != plan_of(comparison, 1).scenario.job.model) {
    return "These plans train different models: their iterations do other work, and tokens a "
           "second "
           "say nothing of which is better.";
  }
  if (!comparison.is_one_job()) {
    return fmt::format("These plans train different jobs, so their iterations do other work. {}.",
                       difference);
  }
  if (!comparison.first_faster) {
    return fmt::format("{}; how likely it is faster cannot be said: {}.", difference,
                       comparison.reason);
  }
  const double likely = 100.0 * *comparison.first_faster;
  if (plan_of(comparison, 0).config == plan_of(comparison, 1).config && rate(0) == rate(1)) {
    return "A and B are the same plan.";
  }
  return fmt::format("{}; A is faster with {} % probability.", difference,
                     likely > 99.0  ? "over 99"
                     : likely < 1.0 ? "under 1"
                                    : fmt::format("{:.0f}", likely));
}

std::string in_format(AnswerFormat format, const PlanComparison& comparison) {
  return format == AnswerFormat::kJson ? to_json(comparison) : to_text(comparison);
}

}  // namespace ptdp
