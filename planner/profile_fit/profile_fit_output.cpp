// Prints a refit of profiles for people, and writes it as files.
#include <fmt/format.h>

#include <cmath>

#include "cost_model/measured/calibration.h"
#include "cost_model/text/files.h"
#include "cost_model/text/object_writer.h"
#include "cost_model/text/plural.h"
#include "planner/formatting.h"
#include "planner/profile_fit/profile_fit.h"

namespace ptdp {
namespace {

std::string knob_line(const KnobFit& knob) {
  const ProfileKnobText& text = kProfileKnobs[static_cast<std::size_t>(knob.knob)];
  std::string line = fmt::format("  {:<26}", text.name);
  if (knob.num_runs == 0) {
    line += knob.time_share > 0.0
                ? fmt::format("left as it was: at most {:.2g} % of a run's time\n",
                              100.0 * knob.time_share)
                : "left as it was: no run spent time on it\n";
    return line;
  }
  line += fmt::format("takes {:.3g} times as long as the profile says ({})", knob.factor,
                      plural(knob.num_runs, "run"));
  line += knob.is_at_bound ? fmt::format(
                                 "; stopped at the limit of {:.0f} times: is this the machine "
                                 "that the profile describes?",
                                 text.largest)
                           : "";
  return line + '\n';
}

std::string errors_line(const ProfileFit& refit) {
  std::vector<double> before;
  std::vector<double> after;
  std::vector<double> left_out;
  for (const RunFit& run : refit.runs) {
    before.push_back(run.before / run.measured - 1.0);
    after.push_back(run.after / run.measured - 1.0);
    if (run.leave_one_out) {
      left_out.push_back(*run.leave_one_out / run.measured - 1.0);
    }
  }
  const auto mean = [](const std::vector<double>& errors) {
    return fmt::format("{:.1f} %", 100.0 * summarized(errors).mean_absolute);
  };
  return fmt::format("{:>14}{:>12}{:>12}{:>15}  mean absolute error\n", "", mean(before),
                     mean(after), left_out.empty() ? "-" : mean(left_out));
}

template <class Profile>
std::string document(const char* schema, const Profile& profile) {
  ObjectWriter json;
  json.schema(schema);
  describe(json, profile);
  return json.dump();
}

}  // namespace

std::string to_text(const ProfileFit& refit) {
  std::string text = "Corrections of the profile\n";
  for (const KnobFit& knob : refit.knobs) {
    text += knob_line(knob);
  }
  text +=
      fmt::format("\nPredicted against measured, per iteration\n{:>14}{:>12}{:>12}{:>15}  run\n",
                  "measured", "before", "after", "leave-one-out");
  for (const RunFit& run : refit.runs) {
    text +=
        fmt::format("{:>14}{:>12}{:>12}{:>15}  {}\n", duration(run.measured),
                    error_of(run.before, run.measured), error_of(run.after, run.measured),
                    run.leave_one_out ? error_of(*run.leave_one_out, run.measured) : "-", run.name);
  }
  return text + errors_line(refit);
}

std::string to_json(const ClusterSpec& cluster) {
  return document("ptdp.cluster/1", cluster);
}

std::string to_json(const StackSpec& stack) {
  return document("ptdp.stack/1", stack);
}

std::filesystem::path stack_file_beside(std::filesystem::path cluster) {
  return cluster.replace_extension(".stack.json");
}

void write_profiles(const std::filesystem::path& cluster, const ProfileFit& refit) {
  write_files_atomically(std::vector<FileContent>{
      {cluster, to_json(refit.cluster)}, {stack_file_beside(cluster), to_json(refit.stack)}});
}

}  // namespace ptdp
