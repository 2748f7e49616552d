// Replaces nccl_*.cpp in builds without CUDA or NCCL.
#include "cost_model/error.h"
#include "runtime/transport/nccl/nccl_world.h"

namespace ptdp {
namespace {

[[noreturn]] void throw_not_built() {
  throw Error(
      "built without NCCL: ranks on GPUs are threads that share one, or processes that copy "
      "through "
      "the host; for NCCL install CUDA 13 with libnccl and build again with -DPTDP_CUDA=ON "
      "-DPTDP_NCCL=ON");
}

}  // namespace

class NcclWorldState {};

bool has_nccl() {
  return false;
}

NcclId make_nccl_id() {
  throw_not_built();
}

std::string nccl_version() {
  throw_not_built();
}

void prepare_nccl_environment() {}

NcclWorld::NcclWorld(const NcclId& /*id*/, int /*size*/, NcclOptions /*options*/) {
  throw_not_built();
}

// No object of the class can be made.

NcclWorld::~NcclWorld() = default;

std::unique_ptr<Communicator> NcclWorld::communicator(int /*rank*/, Backend& /*backend*/,
                                                      const HostSide& /*host*/) {
  return nullptr;
}

void NcclWorld::abort() noexcept {}

bool NcclWorld::is_aborted() const noexcept {
  return false;
}

}  // namespace ptdp
