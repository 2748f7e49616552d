// Words about a measured profile: how it was measured, and why its times may be wrong.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/profiling/machine_profile.h"

namespace ptdp {
namespace {

constexpr double kUnsteady = 0.25;     // a larger spread gives a warning
constexpr double kOthersShare = 0.95;  // a smaller share of a core gives a warning
constexpr double kClockDrop = 0.05;    // a larger drop of the clock gives a warning

std::string names_of(const std::vector<Precision>& precisions) {
  std::string names;
  for (const Precision precision : precisions) {
    names += (names.empty() ? "" : ", ") + std::string(name_of(precision));
  }
  return names;
}

/// Returns "; messages, and collectives of up to 8 ranks, between steps of compute", or "" when no
/// links were measured.
std::string links_text(const ProfiledDevice& device) {
  if (device.link_ranks.empty()) {
    return "";
  }
  return fmt::format("; messages, and collectives of up to {} ranks, between steps of compute",
                     device.link_ranks.back());
}

std::string launches_text(const MachineProfile& profile) {
  const LaunchTimes& times = profile.launches;
  return fmt::format(
      " Passes were launched as graphs. The smallest operation: {:.2f} us in a graph, {:.2f} us "
      "one "
      "by one; launching it takes {:.2f} us of the host's thread, as part of a graph {:.2f} us.",
      times.device / kMicro, times.by_one / kMicro, times.of_host / kMicro,
      times.in_graph / kMicro);
}

std::string products_text(const MachineProfile& profile) {
  std::string text;
  for (const auto& [precision, rate] : profile.products) {
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", name_of(precision),
                        rate.value() / kTera);
  }
  return text.empty() ? "" : fmt::format(" Large products: {} TFLOP/s.", text);
}

std::string host_copies_text(const MachineProfile& profile) {
  std::string text;
  for (const HostCopyRates& rates : profile.host_copies) {
    text += fmt::format(" {:.3g} MB from the host (not pinned): {:.1f} GB/s, to it {:.1f} GB/s.",
                        static_cast<double>(rates.bytes) / kMega, rates.in.value() / kGiga,
                        rates.out.value() / kGiga);
  }
  return text;
}

std::string steadiness_text(const ProfileOptions& options, const MachineProfile& profile) {
  std::string text =
      profile.spread ? fmt::format(" Repeated times lay {:.1f} % apart (quartiles, in the median)",
                                   100.0 * *profile.spread)
                     : " Steps were repeated too few times to say how far apart they lay";
  if (options.device.computes_in_threads) {
    text += fmt::format("; a rank had {:.1f} % of its core", 100.0 * profile.processor_share);
  }
  text += ".";
  if (const std::string conditions = describe_conditions(profile.conditions); !conditions.empty()) {
    text += " While measuring: " + conditions + ".";
  }
  return text;
}

std::string remarks_text(const ProfiledDevice& device) {
  std::string text;
  for (const std::string& remark : device.remarks ? device.remarks() : std::vector<std::string>()) {
    text += " Remarked: " + remark + ".";
  }
  return text;
}

std::string omissions_text(const MachineProfile& profile) {
  std::string text;
  if (!profile.left_out.empty()) {
    text += fmt::format(" Left out, since they contradict the others: {} times.",
                        profile.left_out.size());
  }
  if (!profile.too_large.empty()) {
    text += fmt::format(" Too large for its memory: {} of the models.", profile.too_large.size());
  }
  if (!profile.too_late.empty()) {
    text += fmt::format(" Not reached in that time: {} of the models.", profile.too_late.size());
  }
  return text;
}

}  // namespace

std::string describe_measurement(const ProfileOptions& options, const MachineProfile& profile) {
  const ProfiledDevice& device = options.device;
  const std::string busy = device.busy_cores.empty() ? ""
                                                     : fmt::format(", alone and with all {} busy",
                                                                   device.busy_cores.back());
  return fmt::format(
      "{} Measured: the operations of {}'s layers in {} on one {}{}, as training steps of small "
      "models "
      "ran them; copies{}.{}{}{} Peaks are {}; the other constants are fitted to the measured "
      "operations, which correct them.{}{}{} {}",
      options.description, profile.cluster.default_stack, names_of(options.precisions), device.kind,
      busy, links_text(device), device.queues_work ? launches_text(profile) : "",
      device.queues_work ? products_text(profile) : "", host_copies_text(profile), device.peaks,
      steadiness_text(options, profile), remarks_text(device), omissions_text(profile),
      device.unmeasured);
}

std::string MachineProfile::warning() const {
  if (processor_share < kOthersShare) {
    return fmt::format("other processes took {:.0f} % of the core; expected a quiet machine",
                       100.0 * (1.0 - processor_share));
  }
  if (spread && *spread > kUnsteady) {
    return fmt::format("repeated times lay {:.0f} % apart; expected a steady machine",
                       100.0 * *spread);
  }
  const double drop = rounds.size() < 2 ? 0.0 : clock_drop(rounds.front(), rounds.back());
  if (drop > kClockDrop) {
    return fmt::format(
        "its clock fell by {:.0f} % from the first round of models to the last: "
        "{}; expected a device that is as warm as in training",
        100.0 * drop, describe_conditions(rounds.back()));
  }
  if (conditions.held_by_heat + conditions.held_by_hardware > 0.0) {
    return "it was too hot or short of power: " + describe_conditions(conditions);
  }
  return "";
}

}  // namespace ptdp
