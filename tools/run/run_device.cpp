#include "tools/run/run_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/plural.h"

namespace ptdp {
namespace {

constexpr const char* kHowToGetCuda =
    "install CUDA 13 and build again with -DPTDP_CUDA=ON, or leave the flag out to run on the host";

[[noreturn]] void throw_no_gpu() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");  // NOLINT(concurrency-mt-unsafe)
  throw Error(
      "--device cuda: expected a GPU of compute capability 8.0 or later and a driver for CUDA 13, "
      "found none" +
          (visible == nullptr
               ? std::string()
               : " (CUDA_VISIBLE_DEVICES is " + in_quotes(std::string(visible)) + ")") +
          "; nvidia-smi shows what there is",
      ExitStatus::kRuntimeFault);
}

}  // namespace

std::string RunDevice::name() const {
  if (!is_gpu()) {
    return "cpu";
  }
  std::string names;
  std::vector<std::string> seen;
  for (const Gpu& gpu : gpus) {
    if (std::find(seen.begin(), seen.end(), gpu.name) == seen.end()) {
      seen.push_back(gpu.name);
      names += (names.empty() ? "" : ", ") + gpu.name;
    }
  }
  return "cuda: " + names;
}

Bytes RunDevice::memory() const {
  Bytes total;
  for (const Gpu& gpu : gpus) {
    total += gpu.memory;
  }
  return total;
}

RunDevice shared_by_threads(RunDevice device) {
  device.gpus.resize(std::min<std::size_t>(device.gpus.size(), 1));
  return device;
}

bool is_host_plan(const Plan& plan) {
  return plan.scenario.cluster.gpu.num_multiprocessors == 1;
}

RunDevice choose_device(std::optional<DeviceKind> asked, const Plan& plan, bool shrinks) {
  const bool may_use_gpus = asked ? *asked == DeviceKind::kCuda : !shrinks && !is_host_plan(plan);
  if (!may_use_gpus) {
    return {};
  }
  if (asked && !has_cuda()) {
    throw Error(std::string("--device cuda: this program was built without CUDA; ") +
                kHowToGetCuda);
  }
  RunDevice device{.kind = DeviceKind::kCuda, .gpus = usable_gpus()};
  if (!device.gpus.empty()) {
    return device;
  }
  if (asked) {
    throw_no_gpu();
  }
  return {};
}

bool is_planned_gpu(const RunDevice& device, const Plan& plan) {
  const GpuSpec& planned = plan.scenario.cluster.gpu;
  if (!device.is_gpu() || is_host_plan(plan)) {
    return device.is_gpu() != is_host_plan(plan);
  }
  constexpr double tolerance = 0.1;
  return std::all_of(device.gpus.begin(), device.gpus.end(), [&](const Gpu& gpu) {
    return gpu.num_multiprocessors == planned.num_multiprocessors &&
           std::abs(gpu.memory / planned.memory - 1.0) <= tolerance;
  });
}

void check_gpu_type(const RunDevice& device, const Plan& plan, bool allows_other) {
  if (allows_other || !device.is_gpu() || is_host_plan(plan) || is_planned_gpu(device, plan)) {
    return;
  }
  const GpuSpec& planned = plan.scenario.cluster.gpu;
  const Gpu& here = device.gpus.front();
  throw Error(fmt::format(
      "inputs.cluster.gpu: the plan is for {} ({} multiprocessors, {:.0f} GB), here is {} ({} "
      "multiprocessors, {:.0f} GB): expected GPUs of the plan's kind, or --allow-other-gpu to run "
      "without a prediction; --rehearse measures one rank of the plan on any GPU",
      planned.name, planned.num_multiprocessors, planned.memory.value() / 1e9, device.name(),
      here.num_multiprocessors, here.memory.value() / 1e9));
}

void check_nccl_placement(const RunDevice& device, const Plan& plan, const RankPlacement& rank) {
  if (!device.is_gpu()) {
    throw Error(
        "--transport nccl: the ranks run on the host; expected ranks on GPUs, or --transport " +
        std::string(rank.are_processes ? "mpi or tcp" : "threads"));
  }
  // A launcher may give each process one GPU of its own; then each process sees only that one.
  const bool sees_own = rank.are_processes && device.gpus.size() == 1;
  if (!sees_own && rank.ranks_here > static_cast<int>(device.gpus.size())) {
    throw Error(
        fmt::format("--transport nccl: {} on this machine and {}: expected a GPU for each rank, or "
                    "--transport {}, which lets ranks share one",
                    plural(rank.ranks_here, "rank"), plural(std::ssize(device.gpus), "GPU"),
                    rank.are_processes ? "mpi or tcp" : "threads"));
  }
  // NVLink spans several machines when an NVLink domain has more GPUs than one machine.
  constexpr int most_gpus_of_machine = 8;
  const int tp = plan.config.tp;
  const bool is_whole = rank.ranks_here % tp == 0 && rank.place % tp == rank.rank % tp;
  if (rank.are_processes && !is_whole &&
      plan.scenario.cluster.gpus_per_node <= most_gpus_of_machine) {
    throw Error(
        fmt::format("config.tp: rank {} is number {} of {} on its machine: its tensor-parallel "
                    "group of {} would "
                    "lie on several machines, without NVLink; expected ranks in blocks, a multiple "
                    "of {} on each "
                    "machine (srun --distribution=block, mpirun --map-by slot)",
                    rank.rank, rank.place, rank.ranks_here, tp, tp));
  }
}

std::string sharing_note(const RunDevice& device, int ranks_here, bool are_processes) {
  if (!device.is_gpu() || ranks_here <= static_cast<int>(device.gpus.size())) {
    return "";
  }
  return fmt::format("{} share {}: this works, but its times say nothing of the plan{}",
                     plural(ranks_here, "rank"), plural(std::ssize(device.gpus), "GPU"),
                     are_processes && device.gpus.size() == 1
                         ? "; where each process sees a GPU of its own give --transport nccl"
                         : "");
}

}  // namespace ptdp
