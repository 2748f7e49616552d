#include "planner/clusters/smi_report.h"

#include <fmt/format.h>

#include <cstdlib>
#include <pugixml.hpp>

#include "cost_model/error.h"

namespace ptdp {
namespace {

/// Returns the number that an element's text begins with, "81559 MiB"; nullopt: there is none.
std::optional<double> leading_number(const pugi::xml_node& node) {
  const char* const text = node.text().get();
  char* end = nullptr;
  const double number = std::strtod(text, &end);
  return end != text ? std::optional(number) : std::nullopt;
}

/// Returns a power limit under one of its names, old or new.
std::optional<double> power_limit(const pugi::xml_node& gpu,
                                  const std::vector<const char*>& names) {
  for (const char* section : {"gpu_power_readings", "power_readings"}) {
    for (const char* name : names) {
      if (const auto limit = leading_number(gpu.child(section).child(name))) {
        return limit;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

SmiReport read_smi_report(std::string_view text, const std::string& place) {
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(text.data(), text.size());
  if (!parsed) {
    throw Error(fmt::format("{}: expected the XML of `nvidia-smi -q -x`: {} at byte {}", place,
                            parsed.description(), parsed.offset));
  }
  const pugi::xml_node log = document.child("nvidia_smi_log");
  const pugi::xml_node first = log.child("gpu");
  if (first.empty()) {
    throw Error(place + ": expected nvidia_smi_log with a gpu, got none");
  }
  SmiReport report{.product = first.child("product_name").text().get(),
                   .architecture = first.child("product_architecture").text().get()};
  const auto memory = leading_number(first.child("fb_memory_usage").child("total"));
  constexpr double least_mebibytes = 512.0;
  constexpr double most_mebibytes = 1e8;
  if (report.product.empty() || !memory ||
      !(*memory >= least_mebibytes && *memory <= most_mebibytes)) {
    throw Error(place +
                ": gpu: expected a product_name, and memory in fb_memory_usage.total [MiB]");
  }
  report.memory = gibibytes(*memory / 1024.0);
  report.power_limit_watts =
      power_limit(first, {"enforced_power_limit", "current_power_limit", "power_limit"});
  report.usual_limit_watts = power_limit(first, {"default_power_limit"});
  const pugi::xml_node link = first.child("pci").child("pci_gpu_link_info");
  const auto generation = leading_number(link.child("pcie_gen").child("max_link_gen"));
  const auto lanes = leading_number(link.child("link_widths").child("max_link_width"));
  const auto small_count = [](const std::optional<double>& number) {
    return number && *number >= 1.0 && *number <= 64.0 ? static_cast<int>(*number) : 0;
  };
  report.pcie_generation = small_count(generation);
  report.pcie_lanes = small_count(lanes);
  for (const pugi::xml_node& gpu : log.children("gpu")) {
    ++report.gpus;
    if (report.product != gpu.child("product_name").text().get()) {
      report.warnings.push_back(fmt::format("GPU {} is another one: {}", report.gpus - 1,
                                            gpu.child("product_name").text().get()));
    }
    if (std::string_view(gpu.child("mig_mode").child("current_mig").text().get()) == "Enabled") {
      report.warnings.push_back(
          fmt::format("MIG is on for GPU {}: plans are for whole GPUs", report.gpus - 1));
    }
  }
  if (report.power_limit_watts && report.usual_limit_watts &&
      *report.power_limit_watts < 0.99 * *report.usual_limit_watts) {
    report.warnings.push_back(fmt::format(
        "GPUs are limited to {:.0f} of {:.0f} W: products run slower than measured ones",
        *report.power_limit_watts, *report.usual_limit_watts));
  }
  return report;
}

std::optional<BytesPerSecond> pcie_bandwidth(int generation, int lanes) {
  // Transfers per second of a lane after 128b/130b (PCI-SIG); from 6.0 on flits, about as dense.
  constexpr double generation_3_lane = 8e9 * 128.0 / 130.0 / 8.0;
  if (generation < 3 || generation > 7 || lanes < 1) {
    return std::nullopt;
  }
  return BytesPerSecond(generation_3_lane * static_cast<double>(1U << (generation - 3U)) * lanes);
}

}  // namespace ptdp
