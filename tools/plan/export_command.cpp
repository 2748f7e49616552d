#include "tools/plan/export_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "cost_model/error.h"
#include "cost_model/text/files.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"
#include "planner/answer/planning.h"
#include "planner/answer/plans_document.h"
#include "planner/export/exportable.h"
#include "planner/export/exporter.h"
#include "tools/shared/output_files.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

/// Returns the exporters that --to names; nullptr stands for "all".
std::vector<NamedValue<const Exporter*>> exporter_names() {
  std::vector<NamedValue<const Exporter*>> names;
  names.reserve(kExporters.size() + 1);
  for (const Exporter& exporter : kExporters) {
    names.push_back({&exporter, exporter.name});
  }
  names.push_back({nullptr, "all"});
  return names;
}

/// Writes the files of one export into `directory`, which is made where it is missing.
void write_export(const fs::path& plan, const std::vector<ExportedFile>& files,
                  const fs::path& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!fs::is_directory(directory)) {
    throw Error("--output: expected a directory, got " + in_quotes(directory.string()),
                ExitStatus::kOutputFailed);
  }
  std::vector<FileContent> contents;
  for (const ExportedFile& file : files) {
    contents.push_back({directory / file.name, file.content});
    refuse_overwriting({{"the plan", plan}}, {"--output", contents.back().path});
  }
  write_files_atomically(contents);
}

std::string written_line(const Exporter& exporter, const std::vector<ExportedFile>& files,
                         const fs::path& directory) {
  std::string names;
  for (const ExportedFile& file : files) {
    names += (names.empty() ? "" : ", ") + file.name;
  }
  return fmt::format("{}: wrote {} into {}", exporter.name, names, directory.string());
}

/// Returns the exporter that --exportable names.
std::optional<const Exporter*> exporter_of_search(const CommandLine& line) {
  std::vector<NamedValue<const Exporter*>> names = exporter_names();
  names.pop_back();  // "all" is no framework
  return line.choice<const Exporter*>("exportable", names);
}

}  // namespace

void add_export_flags(boost::program_options::options_description& flags) {
  const std::vector<NamedValue<const Exporter*>> exporters = exporter_names();
  const std::vector<std::string> names = names_of<const Exporter*>(exporters);
  auto option = flags.add_options();
  option("to", text_value("FRAMEWORK", names),
         fmt::format("export: what to write files for: {}", fmt::join(names, ", ")).c_str());
  option("exportable", text_value("FRAMEWORK", {names.begin(), names.end() - 1}),
         "search only plans that `export --to` this framework can write");
}

void keep_exportable(const CommandLine& line, PlanRequest& request, SearchOptions& options) {
  if (const auto exporter = exporter_of_search(line)) {
    options.is_left_out = refused_by(**exporter, request.scenario, request.gpus);
    request.assumptions.push_back(fmt::format("only plans that {} runs: --exportable {}",
                                              (*exporter)->target, (*exporter)->name));
  }
}

void refuse_export_flags(const CommandLine& line) {
  if (line.has("to")) {
    throw Error("--to: used by `export` only");
  }
}

std::string why_not_exportable(const CommandLine& line, const PlanRequest& request,
                               SearchOptions options, const CalibrationSource& calibration) {
  const auto exporter = exporter_of_search(line);
  if (!exporter) {
    return "";
  }
  options.is_left_out = nullptr;
  options.num_best = 1;
  options.tie = 0.0;
  const PlanningResult all = plan_training(request.scenario, options, calibration);
  if (all.plans.empty()) {
    return "";
  }
  const Plan& best = all.plans.front();
  return fmt::format("  without --exportable the best is {}; {}\n", to_string(best.config),
                     text_of(**exporter, (*exporter)->find_refusals(best)));
}

int run_export(const CommandLine& line) {
  line.allow_only({"to", "output"});
  if (line.words().size() != 2) {
    throw Error("export: expected the file of one plan");
  }
  const std::vector<NamedValue<const Exporter*>> names = exporter_names();
  const auto chosen = line.choice<const Exporter*>("to", names);
  if (!chosen) {
    throw Error("export: expected --to " + std::string(kExporters.front().name) +
                ", another framework's name, or all");
  }
  const auto output = line.text("output");
  if (!output || output->empty() || *output == "-") {
    throw Error("export: expected --output DIRECTORY");
  }
  const fs::path file = line.words()[1];
  const Plan plan = read_best_plan(file);
  if (*chosen != nullptr) {
    const std::vector<ExportedFile> files = export_plan(plan, **chosen);
    write_export(file, files, *output);
    print(written_line(**chosen, files, *output) + "\n");
    return 0;
  }
  bool is_any_written = false;
  for (const Exporter& exporter : kExporters) {
    const std::vector<ExportRefusal> refusals = exporter.find_refusals(plan);
    if (!refusals.empty()) {
      print(text_of(exporter, refusals) + "\n");
      continue;
    }
    const fs::path directory = fs::path(*output) / exporter.name;
    const std::vector<ExportedFile> files = export_plan(plan, exporter);
    write_export(file, files, directory);
    print(written_line(exporter, files, directory) + "\n");
    is_any_written = true;
  }
  return is_any_written ? 0 : static_cast<int>(ExitStatus::kBadInput);
}

}  // namespace ptdp
