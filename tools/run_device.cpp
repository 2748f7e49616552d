#include "tools/run_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "cost_model/error.h"
#include "cost_model/spec/in_quotes.h"

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

std::string sharing_note(const RunDevice& device, int ranks_here) {
  if (!device.is_gpu() || ranks_here <= static_cast<int>(device.gpus.size())) {
    return "";
  }
  return fmt::format("{} ranks share {} GPU{}: functional, timing not representative", ranks_here,
                     device.gpus.size(), device.gpus.size() == 1 ? "" : "s");
}

}  // namespace ptdp
