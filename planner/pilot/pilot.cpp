#include "planner/pilot/pilot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cost_model/error.h"
#include "cost_model/text/object_reader.h"
#include "cost_model/text/object_writer.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

constexpr int kReportSamples = 20'000;
constexpr std::uint64_t kReportSeed = 7;
constexpr double kNinetyPercent = 1.645;  // deviations of a normal on each side of its mean
constexpr Range kVarianceRange = {0.0, 100.0, "a variance of ln(time)"};

PilotState state_of(const PilotBelief& belief) {
  PilotState state{.best = belief.best()};
  const double deviation = std::sqrt(belief.variance(state.best));
  const auto at = [&](double deviations) {
    return Seconds(std::exp(belief.mean(state.best) + deviations * deviation));
  };
  state.time = at(0.0);
  state.low = at(-kNinetyPercent);
  state.high = at(kNinetyPercent);
  state.probability = belief.probabilities(kReportSamples, kReportSeed)[state.best];
  state.regret = belief.expected_regret({}, kReportSamples, kReportSeed);
  return state;
}

std::string state_line(const char* when, const PilotState& state, const Pilot& pilot) {
  return fmt::format(
      "  {:<7} {} is the fastest with {:.0f} %: {} ({} .. {}); the fastest of all is {:.2f} % "
      "faster on average\n",
      when, pilot.plans[state.best], 100.0 * state.probability, duration(state.time),
      duration(state.low), duration(state.high), 100.0 * state.regret);
}

}  // namespace

template <class Fields>
void describe(Fields& fields, Described<Fields, PilotModel>& model) {
  fields.exact_number("job_variance", model.job_variance, kVarianceRange);
  fields.exact_number("other_job", model.other_job, kVarianceRange);
  fields.exact_number("layout_variance", model.layout_variance, kVarianceRange);
}

template <class Fields>
void describe(Fields& fields, Described<Fields, PilotRun>& run) {
  auto plan = static_cast<std::int64_t>(run.run.plan);
  fields.count("plan", plan, 0, 1'000);
  fields.flag("is_smaller", run.run.is_smaller);
  fields.exact_number("gpu_hours", run.run.gpu_hours, {0.0, 1e12, "GPU-hours"});
  fields.name("folder", run.folder);
  if constexpr (Fields::kIsReading) {
    run.run.plan = static_cast<std::size_t>(plan);
  }
}

std::string to_json(const Pilot& pilot) {
  ObjectWriter json;
  json.schema(kPilotSchema);
  json.object("model", pilot.model);
  json.texts("plans", pilot.plans);
  json.objects("runs", pilot.runs);
  if (!pilot.framework.empty()) {
    json.name("framework", pilot.framework);
  }
  return json.dump();
}

Pilot parse_pilot(std::string_view text, const std::string& place) {
  ObjectReader reader = ObjectReader::from_text(text, place);
  reader.schema(kPilotSchema);
  Pilot pilot;
  reader.object("model", pilot.model);
  reader.texts("plans", pilot.plans);
  reader.objects("runs", pilot.runs);
  if (reader.has("framework")) {
    reader.name("framework", pilot.framework);
  }
  reader.finish();
  if (pilot.plans.size() < 2) {
    throw Error(reader.place_of("plans") + ": expected two plans at least");
  }
  for (const PilotRun& run : pilot.runs) {
    if (run.run.plan >= pilot.plans.size()) {
      throw Error(fmt::format("{}: expected a plan from 0 to {}, got {}", reader.place_of("runs"),
                              pilot.plans.size() - 1, run.run.plan));
    }
  }
  return pilot;
}

void check_alike(std::span<const Plan> plans, std::span<const std::string> files) {
  const Plan& first = plans.front();
  for (std::size_t i = 1; i < plans.size(); ++i) {
    const Plan& plan = plans[i];
    const char* const what = !(plan.scenario.job == first.scenario.job)           ? "job"
                             : !(plan.scenario.cluster == first.scenario.cluster) ? "cluster"
                             : !(plan.scenario.stack == first.scenario.stack)     ? "stack"
                             : plan.gpus != first.gpus                            ? "number of GPUs"
                                                                                  : nullptr;
    if (what != nullptr) {
      throw Error(fmt::format("{}: expected plans of one job, got another {} than in {}", files[i],
                              what, files.front()));
    }
    const auto same = std::find_if(plans.begin(), plans.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const Plan& other) { return other.config == plan.config; });
    if (same != plans.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw Error(fmt::format("{}: has the configuration of {}", files[i],
                              files[static_cast<std::size_t>(same - plans.begin())]));
    }
  }
}

PilotBelief belief_of(const PilotModel& model, std::span<const Plan> plans) {
  std::vector<double> log_times;
  log_times.reserve(plans.size());
  for (const Plan& plan : plans) {
    log_times.push_back(std::log(plan.predicted.iteration_time.value.value()));
  }
  return {model, std::move(log_times)};
}

PilotReport report_pilot(const Pilot& pilot, std::span<const Plan> plans,
                         std::vector<PilotResult> results, std::span<const ShortRun> possible) {
  PilotBelief belief = belief_of(pilot.model, plans);
  PilotReport report{.results = std::move(results), .before = state_of(belief)};
  for (const PilotResult& result : report.results) {
    belief.observe(result.run, std::log(result.measured / result.predicted));
  }
  report.after = state_of(belief);
  double best_rate = 0.0;
  for (const ShortRun& run : possible) {
    const bool is_done =
        std::any_of(report.results.begin(), report.results.end(), [&](const PilotResult& result) {
          return result.run.plan == run.plan && result.run.is_smaller == run.is_smaller;
        });
    if (is_done) {
      continue;  // again it would show the same
    }
    const double regret = belief.expected_regret({&run, 1}, kReportSamples, kReportSeed);
    const double fall = report.after.regret - regret;
    if (fall > 0.01 * report.before.regret && fall / run.gpu_hours > best_rate) {
      best_rate = fall / run.gpu_hours;
      report.next = run;
      report.regret_after_next = regret;
    }
  }
  return report;
}

std::string to_text(const PilotReport& report, const Pilot& pilot) {
  std::string text = fmt::format("Pilot of {} plans, {} of {} runs measured\n", pilot.plans.size(),
                                 report.results.size(), pilot.runs.size());
  for (const PilotResult& result : report.results) {
    text += fmt::format("  {}: {}{}: measured {}, predicted {} ({:+.1f} %)\n", result.folder,
                        pilot.plans[result.run.plan],
                        result.run.is_smaller ? ", a smaller job alike within a node" : "",
                        duration(result.measured), duration(result.predicted),
                        100.0 * (result.predicted / result.measured - 1.0));
  }
  text += state_line("before:", report.before, pilot);
  text += state_line("now:", report.after, pilot);
  if (!report.next) {
    return text + "No further run would teach much about which plan is the fastest.\n";
  }
  const double fall = report.after.regret - report.regret_after_next;
  return text + fmt::format(
                    "One more run, of {}{} ({:.1f} GPU-hours), would save {:.2f} % of training on "
                    "average: it pays for trainings of more than {:.0f} GPU-hours.\n",
                    pilot.plans[report.next->plan],
                    report.next->is_smaller ? " as a smaller job" : "", report.next->gpu_hours,
                    100.0 * fall, report.next->gpu_hours / fall);
}

}  // namespace ptdp
