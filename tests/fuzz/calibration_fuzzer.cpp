// A calibration of any bytes is refused, or reads back as it was written and gives a factor.
#include <cmath>

#include "planner/accuracy/calibration_file.h"
#include "tests/fuzz/fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ptdp::fuzz(data, size, [](std::string_view text) {
    const ptdp::StackCalibration calibration = ptdp::parse_calibration(text, "calibration.json");
    const std::string written = to_json(calibration);
    ptdp::require(to_json(ptdp::parse_calibration(written, "written.json")) == written);
    const ptdp::LevelModel model = {.job = 0.5, .noise = 0.5, .scatter = 0.1, .scatter_runs = 2.0};
    const ptdp::Calibration found =
        fit_calibration(model, {}, calibration.unnamed_runs(), "a job").at({});
    ptdp::require(found.is_calibrated() && std::isfinite(found.factor));
    ptdp::require(0.0 < found.interval.low && found.interval.low < found.interval.high);
  });
}
