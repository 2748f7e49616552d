// Prints lines of predicted and measured values.
#include "planner/runs/measured.h"

#include <fmt/format.h>

#include "planner/formatting.h"

namespace ptdp {
namespace {

std::string time_or_dash(Seconds time) {
  return time > Seconds(0.0) ? duration(time) : "-";
}

}  // namespace

std::string measured_row(std::string_view name, std::string_view predicted,
                         std::string_view measured, std::string_view error) {
  std::string text = fmt::format("  {:<26}{:>16}{:>16}{:>11}", name, predicted, measured, error);
  text.erase(text.find_last_not_of(' ') + 1);
  return text + '\n';
}

std::string measured_row(std::string_view name, const Measured<Seconds>& time) {
  return measured_row(name, time_or_dash(time.predicted), time_or_dash(time.measured),
                      error_of(time.predicted, time.measured));
}

std::string measured_row(std::string_view name, const Measured<Bytes>& size) {
  return measured_row(name, size.predicted > Bytes(0.0) ? bytes(size.predicted) : "-",
                      bytes(size.measured), error_of(size.predicted, size.measured));
}

}  // namespace ptdp
