// Prints times, sizes, rates, fractions and rows for people.
#include "planner/formatting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/text/object_writer.h"
#include "cost_model/text/plural.h"

namespace ptdp {
namespace {

constexpr double kHour = 3600.0;
constexpr double kDay = 86400.0;
constexpr int kBarWidth = 30;

}  // namespace

std::string duration(Seconds time) {
  // Whole nanoseconds often lie halfway between two roundings. Rounding as files do makes a time
  // that was read back from a file print as the time that was written.
  const double seconds = as_written(time.value());
  if (seconds < 1.0) {
    return fmt::format("{:.4g} ms", seconds * 1e3);
  }
  if (seconds < 2.0 * kHour) {
    return fmt::format("{:.4g} s", seconds);
  }
  return seconds < 2.0 * kDay ? fmt::format("{:.4g} hours", seconds / kHour)
                              : fmt::format("{:.4g} days", seconds / kDay);
}

std::string bytes(Bytes size) {
  const double value = size.value();
  if (value >= 1e12) {
    return fmt::format("{:.3g} TB", value / 1e12);
  }
  return value >= 1e9 ? fmt::format("{:.3g} GB", value / 1e9)
                      : fmt::format("{:.3g} MB", value / 1e6);
}

std::string binary_size(Bytes size) {
  constexpr double mebi = kGibi / 1024.0;
  constexpr double fewest = 0.1;   // GiB
  constexpr double least = 0.005;  // MiB
  if (size.value() >= fewest * kGibi) {
    return fmt::format("{:.2f} GiB", size.value() / kGibi);
  }
  const double mebibytes = size.value() / mebi;
  return mebibytes > 0.0 && mebibytes < least ? "under 0.01 MiB"
                                              : fmt::format("{:.2f} MiB", mebibytes);
}

std::string rate(FlopsPerSecond flops) {
  const double value = flops.value();
  if (value >= kTera) {
    return fmt::format("{:.4g} TFLOP/s", value / kTera);
  }
  return value >= kGiga ? fmt::format("{:.4g} GFLOP/s", value / kGiga)
                        : fmt::format("{:.4g} MFLOP/s", value / kMega);
}

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::size_t first = text.starts_with('-') ? 1 : 0;
  for (std::size_t place = text.size(); place > first + 3;) {
    place -= 3;
    text.insert(place, 1, ',');
  }
  return text;
}

std::string grouped(double number) {
  constexpr double digits = 5.0;
  const double unit =
      number >= 1.0 ? std::pow(10.0, std::max(std::floor(std::log10(number)) + 1.0 - digits, 0.0))
                    : 1.0;
  return with_commas(std::llround(std::round(number / unit) * unit));
}

std::string short_number(double number) {
  struct Unit {
    double value;
    const char* name;
  };
  constexpr double almost = 0.9995;  // rounds to 1 of the unit
  for (const Unit unit : {Unit{1e12, "T"}, Unit{1e9, "B"}, Unit{1e6, "M"}, Unit{1e3, "K"}}) {
    if (number >= almost * unit.value) {
      return fmt::format("{:.3g} {}", number / unit.value, unit.name);
    }
  }
  return fmt::format("{:.3g}", number);
}

bool is_core(const GpuSpec& gpu) {
  return gpu.num_multiprocessors == 1;
}

std::string_view device(const GpuSpec& gpu) {
  return is_core(gpu) ? "core" : "GPU";
}

std::string devices(std::int64_t count, const GpuSpec& gpu) {
  return plural(count, device(gpu));
}

std::string percent(double fraction) {
  return fmt::format("{:.1f} %", 100.0 * fraction);
}

std::string signed_percent(double fraction) {
  const std::string text = fmt::format("{:+.1f} %", 100.0 * fraction);
  return text == "+0.0 %" || text == "-0.0 %" ? "0.0 %" : text;
}

std::string row(std::string_view name, std::string_view value) {
  return fmt::format("  {:<22} {}\n", name, value);
}

std::string titled(std::string_view title, const std::vector<std::string>& lines) {
  std::string text = lines.empty() ? "" : fmt::format("\n{}\n", title);
  for (const std::string& line : lines) {
    text += "  " + line + "\n";
  }
  return text;
}

std::string paragraph(std::string_view text, std::string_view indent, std::size_t width) {
  std::string lines;
  std::string line;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (!line.empty() && indent.size() + line.size() + 1 + word.size() > width) {
      lines += std::string(indent) + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + std::string(word);
  }
  return line.empty() ? lines : lines + std::string(indent) + line + "\n";
}

std::string share_row(std::string_view name, Seconds time, Seconds whole) {
  const double share = time / whole;
  return fmt::format("  {:<22} {:>10} {:>7}  {}\n", name, duration(time), percent(share),
                     std::string(static_cast<std::size_t>(std::lround(share * kBarWidth)), '#'));
}

std::string zero_remark(const ParallelConfig& config) {
  return config.zero_stage >= 2 && !shards_gradients(config)
             ? " (with a pipeline this is ZeRO-1: weights stay whole, gradients until the last "
               "microbatch)"
             : "";
}

}  // namespace ptdp
