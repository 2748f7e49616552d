// Joins ranks to NCCL, after comparing their GPUs and versions over the host side.
#include "runtime/transport/nccl/nccl_world.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <vector>

#include "cost_model/error.h"
#include "kernels/cuda/check.h"
#include "runtime/transport/gathering.h"
#include "runtime/transport/nccl/nccl_communicator.h"
#include "runtime/transport/nccl/nccl_library.h"
#include "runtime/transport/nccl/nccl_world_state.h"

namespace ptdp {
namespace {

int library_version() {
  int version = 0;
  static_cast<void>(nccl_library().get_version(&version));
  return version;
}

std::string host_name() {
  std::array<char, 256> name{};
  static_cast<void>(::gethostname(name.data(), name.size() - 1));
  return name.data();
}

/// Returns the bus address of the calling thread's GPU: "0000:1b:00.0".
std::string bus_address() {
  int device = 0;
  std::array<char, 32> address{};
  PTDP_CUDA_CHECK(cudaGetDevice(&device));
  PTDP_CUDA_CHECK(cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), device));
  return address.data();
}

/// Returns the limits of NCCL's kernels on the calling thread's GPU.
NcclBlocks blocks_of_gpu() {
  int device = 0;
  cudaDeviceProp properties{};
  PTDP_CUDA_CHECK(cudaGetDevice(&device));
  PTDP_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return blocks_beside_compute(properties.multiProcessorCount);
}

/// What ranks must have in common (the version) or not (the GPU) before NCCL starts.
struct Seat {
  std::string gpu;      ///< "GPU 0000:1b:00.0 of node7".
  std::string version;  ///< Version of NCCL, such as "2.28.9".
};

/// Checks the seats of all ranks, on rank 0. Throws Error(kBadInput) when two ranks have one GPU or
/// versions differ.
void check_seats(const std::vector<Seat>& seats) {
  std::map<std::string, int> taken;
  for (int rank = 0; rank < static_cast<int>(seats.size()); ++rank) {
    const Seat& seat = seats[static_cast<std::size_t>(rank)];
    if (const auto [other, is_free] = taken.emplace(seat.gpu, rank); !is_free) {
      throw Error("ranks " + std::to_string(other->second) + " and " + std::to_string(rank) +
                  " are both on " + seat.gpu +
                  ", which NCCL refuses: expected a GPU for each rank; run a plan of fewer ranks, "
                  "give each process a GPU of its own, or let ranks share a GPU as threads "
                  "(--transport threads)");
    }
    if (seat.version != seats.front().version) {
      throw Error("rank " + std::to_string(rank) + ", " + seat.gpu + ": NCCL " + seat.version +
                  ", expected " + seats.front().version + " as rank 0 has");
    }
  }
}

/// Gathers the seats of all ranks on rank 0 and checks them there; all ranks call it.
void compare_seats(const HostSide& host) {
  const std::string own =
      bus_address() + "\n" + host_name() + "\n" + nccl_version_name(library_version());
  const std::vector<std::string> all = gather_bytes(host.world, host.backend, own);
  std::vector<Seat> seats;
  for (const std::string& line : all) {
    const std::size_t first = line.find('\n');
    const std::size_t second = line.find('\n', first + 1);
    seats.push_back({.gpu = "GPU " + line.substr(0, first) + " of " +
                            line.substr(first + 1, second - first - 1),
                     .version = line.substr(second + 1)});
  }
  check_seats(seats);
  host.world.barrier();  // No rank goes on when rank 0 threw.
}

}  // namespace

bool has_nccl() {
  return true;
}

std::string nccl_version() {
  return nccl_version_name(library_version());
}

void prepare_nccl_environment() {
  constexpr int keeps_what_is_set = 0;
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", keeps_what_is_set);
  ::setenv("CUDA_MODULE_LOADING", "EAGER", keeps_what_is_set);
  ::setenv("NCCL_RUNTIME_CONNECT", "0", keeps_what_is_set);
  ::unsetenv("NCCL_COMM_BLOCKING");  // It would make the world's calls block, too.
}

NcclId make_nccl_id() {
  const NcclLibrary& nccl = nccl_library();
  ncclUniqueId unique = {};
  if (const ncclResult_t result = nccl.get_unique_id(&unique); result != ncclSuccess) {
    throw Error(std::string("NCCL: ncclGetUniqueId: ") + nccl.get_error_string(result) + " (" +
                    nccl.get_last_error(nullptr) + ")",
                ExitStatus::kRuntimeFault);
  }
  NcclId id;
  std::memcpy(id.bytes.data(), &unique, sizeof(unique));
  return id;
}

NcclWorld::NcclWorld(const NcclId& id, int size, NcclOptions options)
    : state_(std::make_shared<NcclWorldState>(id, size, options)) {}

NcclWorld::~NcclWorld() = default;

std::unique_ptr<Communicator> NcclWorld::communicator(int rank, Backend& backend,
                                                      const HostSide& host) {
  backend.use_lane(0);  // The backend's GPU is the calling thread's GPU from here on.
  if (backend.native_lane() == nullptr) {
    throw Error("rank " + std::to_string(rank) + " is on a host: expected a GPU for NCCL");
  }
  compare_seats(host);
  const std::shared_ptr<NcclEnd> end = state_->add(rank, "the world");
  const NcclBlocks blocks = blocks_of_gpu();
  end->join(state_->id(), state_->size(), rank, blocks.collective);
  NcclCommunicator::Place place{
      .members = std::vector<int>(static_cast<std::size_t>(state_->size())), .rank = rank};
  std::iota(place.members.begin(), place.members.end(), 0);
  return std::make_unique<NcclCommunicator>(state_, std::move(place), blocks, end, backend,
                                            host.world);
}

void NcclWorld::abort() noexcept {
  state_->abort();
}

bool NcclWorld::is_aborted() const noexcept {
  return state_->is_aborted();
}

}  // namespace ptdp
