// Compares runs with their predictions, and prints that as tables and JSON.
#include "planner/runs/run_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cost_model/text/object_writer.h"
#include "cost_model/text/plural.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

double relative_error(const RunReport& report) {
  return report.predicted_time.value / report.measured_time - 1.0;
}

std::string job_of(const RunReport& report) {
  const Scenario& scenario = report.plan.scenario;
  return fmt::format("{}, batch {}, sequence {}, {}, {} of {}", scenario.job.model_name,
                     scenario.job.global_batch_size, scenario.job.model.seq_length,
                     name_of(scenario.stack.precision), plural(report.plan.gpus, "GPU"),
                     scenario.cluster.name);
}

std::vector<TermErrors> errors_by_term(const std::vector<NamedReport>& runs) {
  std::vector<TermErrors> terms;
  const double each = 1.0 / static_cast<double>(runs.size());
  for (const NamedReport& run : runs) {
    for (const TermComparison& term : run.report.terms) {
      auto found = std::find_if(terms.begin(), terms.end(),
                                [&](const TermErrors& errors) { return errors.name == term.name; });
      if (found == terms.end()) {
        found = terms.insert(terms.end(), {.name = term.name});
      }
      const double error = (term.time.predicted - term.time.measured) / run.report.measured_time;
      found->share += each * (term.time.measured / run.report.measured_time);
      found->bias += each * error;
      found->mean_absolute += each * std::abs(error);
    }
  }
  return terms;
}

std::vector<PlanOrder> orders_of(const std::vector<NamedReport>& runs) {
  std::map<std::string, std::vector<PlanTimes>> jobs;
  for (const NamedReport& run : runs) {
    jobs[job_of(run.report)].push_back({.predicted = run.report.predicted_time.value.value(),
                                        .measured = run.report.measured_time.value()});
  }
  std::vector<PlanOrder> orders;
  for (const auto& [job, plans] : jobs) {
    if (plans.size() >= 2) {
      orders.push_back(order_of(plans));
      orders.back().job = job;
    }
  }
  return orders;
}

}  // namespace

PlanOrder order_of(const std::vector<PlanTimes>& plans) {
  PlanOrder order{.runs = static_cast<int>(plans.size())};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    for (std::size_t j = i + 1; j < plans.size(); ++j) {
      const PlanTimes& a = plans[i];
      const PlanTimes& b = plans[j];
      if (std::max(a.measured, b.measured) >
          (1.0 + kClearDifference) * std::min(a.measured, b.measured)) {
        ++order.pairs;
        const bool is_ordered =
            a.predicted != b.predicted && (a.predicted < b.predicted) == (a.measured < b.measured);
        order.ordered += is_ordered ? 1 : 0;
      }
    }
  }
  const auto chosen =
      std::min_element(plans.begin(), plans.end(),
                       [](const auto& a, const auto& b) { return a.predicted < b.predicted; });
  const auto best = std::min_element(plans.begin(), plans.end(), [](const auto& a, const auto& b) {
    return a.measured < b.measured;
  });
  order.regret = plans.empty() ? 0.0 : chosen->measured / best->measured - 1.0;
  return order;
}

RunSet compare_runs(const std::vector<NamedReport>& runs) {
  RunSet set;
  std::vector<double> errors;
  for (const NamedReport& run : runs) {
    if (run.report.predicted_time.value.value() > 0.0) {
      set.runs.push_back(run);
      errors.push_back(relative_error(run.report));
    } else {
      set.not_predicted.push_back(run.name + ": " + run.report.execution.basis);
    }
  }
  if (!set.runs.empty()) {
    set.errors = summarized(errors);
    set.terms = errors_by_term(set.runs);
    set.orders = orders_of(set.runs);
  }
  return set;
}

std::string to_text(const RunSet& set) {
  std::string text =
      fmt::format("{:<28}{:>12}{:>12}{:>10}  plan\n", "run", "predicted", "measured", "error");
  for (const NamedReport& run : set.runs) {
    const RunReport& report = run.report;
    text += fmt::format("{:<28}{:>12}{:>12}{:>10}  {} {}\n", run.name,
                        duration(report.predicted_time.value), duration(report.measured_time),
                        signed_percent(relative_error(report)), report.plan.scenario.job.model_name,
                        to_string(report.plan.config));
  }
  text +=
      fmt::format("{}: mean absolute error {:.1f} %, median {:.1f} %, largest {:.1f} %, bias {}\n",
                  plural(set.errors.count, "run"), 100.0 * set.errors.mean_absolute,
                  100.0 * set.errors.median_absolute, 100.0 * set.errors.max_absolute,
                  signed_percent(set.errors.bias));
  text += fmt::format("\n{:<28}{:>12}{:>12}{:>12}   in % of the iteration\n", "term", "measured",
                      "bias", "mean error");
  for (const TermErrors& term : set.terms) {
    text += fmt::format("{:<28}{:>10.1f} %{:>12}{:>10.1f} %\n", term.name, 100.0 * term.share,
                        signed_percent(term.bias), 100.0 * term.mean_absolute);
  }
  for (const PlanOrder& order : set.orders) {
    text += fmt::format(
        "\n{}: {}; {} differing by more than {:.0f} %, {} in the measured order; the plan "
        "predicted fastest took {:.1f} % longer than the fastest (regret)\n",
        order.job, plural(order.runs, "plan"), plural(order.pairs, "pair"),
        100.0 * kClearDifference, order.ordered, 100.0 * order.regret);
  }
  for (const std::string& reason : set.not_predicted) {
    text += "not compared: " + reason + '\n';
  }
  return text;
}

std::string to_json(const RunSet& set) {
  std::vector<ObjectWriter> runs;
  for (const NamedReport& run : set.runs) {
    ObjectWriter& json = runs.emplace_back();
    json.text("run", run.name);
    json.object("config", run.report.plan.config);
    json.number("predicted_s", run.report.predicted_time.value.value());
    json.number("measured_s", run.report.measured_time.value());
    json.number("error_pct", 100.0 * relative_error(run.report));
  }
  std::vector<ObjectWriter> terms;
  for (const TermErrors& term : set.terms) {
    ObjectWriter& json = terms.emplace_back();
    json.name("term", term.name);
    json.number("share_pct", 100.0 * term.share);
    json.number("bias_pct", 100.0 * term.bias);
    json.number("mean_absolute_pct", 100.0 * term.mean_absolute);
  }
  std::vector<ObjectWriter> orders;
  for (const PlanOrder& order : set.orders) {
    ObjectWriter& json = orders.emplace_back();
    json.text("job", order.job);
    json.count("runs", order.runs);
    json.count("pairs", order.pairs);
    json.count("ordered", order.ordered);
    json.number("regret_pct", 100.0 * order.regret);
  }
  ObjectWriter json;
  json.text("schema", "ptdp.runs/1");
  json.children("runs", std::move(runs));
  json.number("mape_pct", 100.0 * set.errors.mean_absolute);
  json.number("max_pct", 100.0 * set.errors.max_absolute);
  json.number("bias_pct", 100.0 * set.errors.bias);
  json.children("terms", std::move(terms));
  json.children("orders", std::move(orders));
  json.texts("not_predicted", set.not_predicted);
  return json.dump();
}

std::string in_format(AnswerFormat format, const RunSet& set) {
  return format == AnswerFormat::kJson ? to_json(set) : to_text(set);
}

}  // namespace ptdp
