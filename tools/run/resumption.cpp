#include "tools/run/resumption.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

/// Returns the line for a job that was queued again after its end: "nothing to do:
/// kept/step-00000008 is of step 8, and --steps 8 is the training's length". Such a job keeps the
/// report that it has.
std::string nothing_to_do(const CommandLine& line, const Checkpoint& checkpoint,
                          std::int64_t steps) {
  const auto report = line.text("output");
  return fmt::format("nothing to do: {} is of step {}, and --steps {} is the training's length{}",
                     checkpoint.path().string(), checkpoint.state().step, steps,
                     report ? "; " + in_quotes(*report) + " is not written" : "");
}

}  // namespace

std::optional<Checkpoint> open_checkpoint(const CommandLine& line) {
  const auto directory = line.text("resume");
  if (!directory) {
    return std::nullopt;
  }
  std::error_code error;
  const auto to = line.text("save");
  if (to && std::filesystem::equivalent(*directory, *to, error) &&
      !Checkpoint::newest_step(*directory)) {
    return std::nullopt;
  }
  return Checkpoint::open(*directory);
}

void leave_done_steps(RunRequest& request, std::int64_t done) {
  request.steps = std::max<std::int64_t>(request.steps - done, 0);
  request.warm_up = std::clamp<std::int64_t>(request.steps - 1, 0, request.warm_up);
}

std::vector<std::string> describe_start(const CommandLine& line, const RunRequest& request,
                                        const std::optional<Checkpoint>& resumed) {
  const auto directory = line.text("resume");
  if (!directory) {
    return {};
  }
  if (!resumed) {
    return {*directory + ": no checkpoint yet, beginning at step 0"};
  }
  std::vector<std::string> lines;
  for (const std::string& fault : resumed->passed_over()) {
    lines.push_back(fault + "; passed over");
  }
  const TrainingState& state = resumed->state();
  if (request.steps == 0) {
    lines.push_back(nothing_to_do(line, *resumed, request.training_steps));
    return lines;
  }
  if (!line.has("quiet") || !lines.empty()) {
    lines.push_back(fmt::format("going on from step {} of {}: {}", state.step,
                                state.step + request.steps, resumed->path().string()));
  }
  const std::int64_t decay_steps = request.learning_rate.decay_steps;
  if (state.decay_steps > 0 && state.decay_steps != decay_steps) {
    lines.push_back(
        fmt::format("the learning rate comes to its lowest at step {}; in the run that saved this "
                    "checkpoint it was to do so at step {} (--lr-decay, or else --steps)",
                    decay_steps, state.decay_steps));
  }
  return lines;
}

}  // namespace ptdp
