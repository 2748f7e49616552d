#include "planner/logs/logged_arguments.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "cost_model/error.h"
#include "planner/import/launched_program.h"
#include "planner/import/reader.h"
#include "planner/logs/log_lines.h"

namespace ptdp {
namespace {

// Arguments come before the first iteration; what a log says behind that is none of them.
constexpr std::size_t kMostOfStart = std::size_t{4} << 20;

std::string start_of(const std::filesystem::path& log) {
  LogLines lines(log);
  std::string start;
  std::string line;
  while (start.size() < kMostOfStart && lines.next(line)) {
    start += line;
    start += '\n';
  }
  return start;
}

}  // namespace

std::optional<std::string> logged_arguments(const std::filesystem::path& log) {
  std::string start = start_of(log);
  return lists_arguments(start) ? std::optional(std::move(start)) : std::nullopt;
}

void check_logged_arguments(const std::filesystem::path& log, const Plan& plan) {
  const std::optional<std::string> start = logged_arguments(log);
  if (!start) {
    return;
  }
  ImportedRun run;
  try {
    run = read_megatron({.text = *start, .place = log.string(), .gpus = plan.config.world_size()});
  } catch (const Error&) {
    return;  // a fork's arguments: the log's batch is compared all the same
  }
  const ParallelConfig& found = run.config;
  const ParallelConfig& expected = plan.config;
  const std::array<std::pair<std::string_view, std::pair<std::int64_t, std::int64_t>>, 6> values = {
      {{"tensor-parallel", {found.tp, expected.tp}},
       {"pipeline-parallel", {found.pp, expected.pp}},
       {"data-parallel", {found.dp, expected.dp}},
       {"context-parallel", {found.cp, expected.cp}},
       {"micro batch", {found.micro_batch_size, expected.micro_batch_size}},
       {"global batch", {run.global_batch_size, plan.scenario.job.global_batch_size}}}};
  for (const auto& [name, pair] : values) {
    if (pair.first != pair.second) {
      throw Error(fmt::format("{}: its arguments: {} size: found {}, expected the {} of the plan",
                              log.string(), name, pair.first, pair.second));
    }
  }
}

}  // namespace ptdp
