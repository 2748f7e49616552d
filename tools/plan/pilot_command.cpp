#include "tools/plan/pilot_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "planner/answer/plans_document.h"
#include "planner/export/exporter.h"
#include "planner/pilot/pilot.h"
#include "planner/pilot/probe_work.h"
#include "planner/pilot/short_runs.h"
#include "tools/plan/probe_program.h"
#include "tools/shared/output_files.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

constexpr double kUsualBudget = 16.0;  // GPU-hours
constexpr std::size_t kMostPlans = 12;
constexpr int kToldSamples = 20'000;
constexpr std::uint64_t kToldSeed = 1;
constexpr const char* kClusterFile = "cluster.json";  // the cluster of the plans

/// Reads --budget: "4gpu-hours" or "4". Throws Error for anything else.
double read_pilot_budget(const CommandLine& line) {
  std::string text = line.text("budget").value_or(fmt::format("{}", kUsualBudget));
  const std::string given = text;
  constexpr std::string_view unit = "gpu-hours";
  if (text.ends_with(unit)) {
    text.resize(text.size() - unit.size());
  }
  char* end = nullptr;
  const double hours = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(hours > 0.0) || hours > 1e9) {
    throw Error("--budget: expected GPU-hours, such as 4gpu-hours, got " + in_quotes(given));
  }
  return hours;
}

/// Returns the framework of --to; nullopt without the flag: its files are left to the user.
std::optional<const Exporter*> framework_of(const CommandLine& line) {
  std::vector<NamedValue<const Exporter*>> names;
  names.reserve(kExporters.size());
  for (const Exporter& exporter : kExporters) {
    names.push_back({&exporter, exporter.name});
  }
  return line.choice<const Exporter*>("to", names);
}

std::vector<Plan> read_plans(const std::vector<std::string>& files) {
  if (files.size() < 2 || files.size() > kMostPlans) {
    throw Error(fmt::format("pilot: expected the files of 2 to {} plans, got {}", kMostPlans,
                            files.size()));
  }
  std::vector<Plan> plans;
  plans.reserve(files.size());
  for (const std::string& file : files) {
    plans.push_back(read_best_plan(file));
  }
  check_alike(plans, files);
  return plans;
}

/// Returns what a framework is told of a run, in its folder. Throws Error for a refused plan.
std::vector<FileContent> files_of_run(const PossibleRun& run, const fs::path& folder,
                                      const std::optional<const Exporter*>& framework) {
  std::vector<FileContent> files = {{folder / "plan.json", to_json(run.plan)}};
  if (framework) {
    for (ExportedFile& file : export_plan(run.plan, **framework)) {
      files.push_back({folder / file.name, std::move(file.content)});
    }
  }
  return files;
}

/// Leaves out the runs of plans that the framework refuses; says so in `text`.
std::vector<PossibleRun> runs_of_framework(std::vector<PossibleRun> runs,
                                           const std::optional<const Exporter*>& framework,
                                           std::string& text) {
  if (framework) {
    std::erase_if(runs, [&](const PossibleRun& run) {
      const std::vector<ExportRefusal> refusals = (*framework)->find_refusals(run.plan);
      if (!refusals.empty()) {
        text += fmt::format("left out: plan {}{}: {}\n", run.run.plan + 1,
                            run.run.is_smaller ? " as a smaller job" : "",
                            text_of(**framework, refusals));
      }
      return !refusals.empty();
    });
  }
  return runs;
}

/// Says why no run was chosen: the budget pays for none, or none would teach much.
std::string why_no_run(const std::vector<ShortRun>& possible, double budget) {
  const auto cheapest = std::min_element(
      possible.begin(), possible.end(),
      [](const ShortRun& a, const ShortRun& b) { return a.gpu_hours < b.gpu_hours; });
  if (cheapest == possible.end()) {
    return "  no run: the framework runs none of the plans\n";
  }
  return 2.0 * cheapest->gpu_hours > budget
             ? fmt::format("  no run: two runs cost {:.1f} GPU-hours at least\n",
                           2.0 * cheapest->gpu_hours)
             : "  no run: none within the budget would teach much about which plan is the "
               "fastest\n";
}

std::string told_of_run(const PilotRun& run, const PossibleRun& possible) {
  return fmt::format("  {}: plan {}{}, {}, {:.1f} GPU-hours\n", run.folder, run.run.plan + 1,
                     run.run.is_smaller ? " as a smaller job" : "",
                     plural(possible.plan.config.world_size(), "GPU"), run.run.gpu_hours);
}

std::string next_steps(const std::string& directory, bool has_runs) {
  if (!has_runs) {
    return fmt::format(
        "Next\n"
        "  1. on one GPU, or under torchrun on a node or two: python3 {0}/probe.py -o probe.json\n"
        "  2. {2} new-cluster --from {0}/{1} --probe probe.json -o mine.json\n",
        directory, kClusterFile, as_typed("ptdp-plan"));
  }
  return fmt::format(
      "Next\n"
      "  1. on one GPU, or under torchrun on a node or two: python3 {0}/probe.py -o probe.json\n"
      "  2. start each run for {1} iterations; put its log into its folder as {2}\n"
      "  3. {4} --pilot {0} --probe probe.json -o calibration, which says how to plan\n"
      "     again; without runs, {5} new-cluster --from {0}/{3} --probe probe.json\n",
      directory, kShortRunIterations, kPilotLog, kClusterFile, as_typed("ptdp-calibrate"),
      as_typed("ptdp-plan"));
}

/// Returns the runs without their plans.
std::vector<ShortRun> runs_of(const std::vector<PossibleRun>& possible) {
  std::vector<ShortRun> runs;
  runs.reserve(possible.size());
  std::transform(possible.begin(), possible.end(), std::back_inserter(runs),
                 [](const PossibleRun& run) { return run.run; });
  return runs;
}

/// Writes all files of a pilot. Throws Error if one would replace a plan that it is made from.
void write_pilot(const std::vector<FileContent>& contents, const std::vector<std::string>& plans,
                 const fs::path& directory) {
  std::vector<NamedFile> inputs;
  inputs.reserve(plans.size());
  for (const std::string& plan : plans) {
    inputs.push_back({"the plan", plan});
  }
  for (const FileContent& content : contents) {
    refuse_overwriting(inputs, {"--output", content.path});
    std::error_code error;
    fs::create_directories(content.path.parent_path(), error);
    if (error) {
      throw Error("--output: expected a directory, got " + in_quotes(directory.string()),
                  ExitStatus::kOutputFailed);
    }
  }
  write_files_atomically(contents);
}

/// Reads --output. Throws Error without it, and for a directory that holds a pilot.
fs::path read_pilot_directory(const CommandLine& line) {
  const auto output = line.text("output");
  if (!output || output->empty() || *output == "-") {
    throw Error("pilot: expected --output DIRECTORY");
  }
  if (fs::exists(fs::path(*output) / kPilotFile)) {
    throw Error("--output: " + in_quotes(*output) +
                " holds a pilot; its runs would be taken for those of this one");
  }
  return *output;
}

}  // namespace

void add_pilot_flags(boost::program_options::options_description& flags) {
  flags.add_options()("budget", text_value("COST"),
                      "pilot: what its runs may cost (default: 16gpu-hours)");
}

void refuse_pilot_flags(const CommandLine& line) {
  if (line.has("budget")) {
    throw Error("--budget: used by `pilot` only");
  }
}

int run_pilot(const CommandLine& line) {
  line.allow_only({"budget", "to", "output", "calibration"});
  const std::vector<std::string> files(line.words().begin() + 1, line.words().end());
  const fs::path directory = read_pilot_directory(line);
  const double budget = read_pilot_budget(line);
  const std::vector<Plan> plans = read_plans(files);
  const CalibrationSource calibration =
      CalibrationSource::parse(line.text("calibration").value_or("shipped"), "--calibration");
  const auto framework = framework_of(line);
  std::string text;
  const std::vector<PossibleRun> possible =
      runs_of_framework(possible_runs(plans, calibration), framework, text);
  const std::vector<ShortRun> runs = runs_of(possible);

  Pilot pilot{.model = pilot_model(calibration.fit(plans.front().scenario, plans.front().gpus)),
              .framework = framework ? std::string((*framework)->name) : ""};
  const PilotBelief belief = belief_of(pilot.model, plans);
  const std::vector<ShortRun> chosen = choose_short_runs(belief, runs, budget);
  std::vector<FileContent> contents = {
      {directory / "probe.py", probe_with_work(probe_program(), probe_work(plans))},
      {directory / kClusterFile, cluster_file(plans.front().scenario.cluster)}};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const std::string& name = pilot.plans.emplace_back(fmt::format("plan-{}.json", i + 1));
    contents.push_back({directory / name, to_json(plans[i])});
  }
  for (const ShortRun& run : chosen) {
    const auto place = std::find(runs.begin(), runs.end(), run) - runs.begin();
    const PossibleRun& planned = possible[static_cast<std::size_t>(place)];
    pilot.runs.push_back({run, fmt::format("run-{}", pilot.runs.size() + 1)});
    std::ranges::move(files_of_run(planned, directory / pilot.runs.back().folder, framework),
                      std::back_inserter(contents));
    text += told_of_run(pilot.runs.back(), planned);
  }
  if (chosen.empty()) {
    text += why_no_run(runs, budget);
  }
  contents.push_back({directory / kPilotFile, to_json(pilot)});
  write_pilot(contents, files, directory);
  print(fmt::format(
      "Pilot of {} into {}: the probe and {} of at most {:g} GPU-hours\n{}"
      "  the plan to choose is {:.2f} % slower than the fastest on average now, "
      "{:.2f} % after these runs\n{}",
      plural(std::ssize(plans), "plan"), directory.string(), plural(std::ssize(chosen), "run"),
      budget, text, 100.0 * belief.expected_regret({}, kToldSamples, kToldSeed),
      100.0 * belief.expected_regret(chosen, kToldSamples, kToldSeed),
      next_steps(directory.string(), !chosen.empty())));
  return 0;
}

}  // namespace ptdp
