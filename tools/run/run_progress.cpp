#include "tools/run/run_progress.h"

#include <fmt/format.h>

#include <cstdio>

#include "cost_model/text/shown_text.h"
#include "planner/formatting.h"

namespace ptdp {

void tell(const std::string& text) {
  const std::string shown = shown_text(text);
  static_cast<void>(std::fwrite(shown.data(), 1, shown.size(), stderr));
}

Progress::Progress(const PreparedRun& run, Flops flops)
    : tokens_(static_cast<double>(run.settings.global_batch_size) * run.settings.model.seq_length),
      flops_per_rank_(flops / static_cast<double>(run.settings.config.world_size())) {}

void Progress::operator()(const StepProgress& step) {
  total_ += step.time.value();
  const auto now = std::chrono::steady_clock::now();
  const bool is_last = step.done == step.steps;
  if (step.done > 1 && !is_last && now - last_ < std::chrono::seconds(1)) {
    return;
  }
  last_ = now;
  const double each = total_ / static_cast<double>(step.done);
  const std::int64_t left = step.steps - step.done;
  const std::int64_t steps = step.step + 1 + left;
  tell(
      fmt::format("step {:>{}}/{}  loss {:.4f}  norm {:.3g}  {}  {} per rank  {:.0f} "
                  "tokens/s  {} left{}\n",
                  step.step + 1, std::to_string(steps).size(), steps, step.loss, step.gradient_norm,
                  duration(step.time), rate(flops_per_rank_ / step.time),
                  tokens_ / step.time.value(), duration(Seconds(each * static_cast<double>(left))),
                  step.is_skipped ? "  skipped: gradients overflowed" : ""));
}

}  // namespace ptdp
