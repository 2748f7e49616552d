// Loads libnccl.so.2 and looks up its functions.
#include "runtime/transport/nccl/nccl_library.h"

#include <dlfcn.h>

#include "cost_model/error.h"

namespace ptdp {
namespace {

/// Loads libnccl.so.2 by its name, from the system or LD_LIBRARY_PATH, or else from where it was
/// when this program was built. Throws Error(kRuntimeFault) when it is in none of them.
void* open_library() {
  void* library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  std::string reason = library == nullptr ? ::dlerror() : "";
  if (library == nullptr) {
    library = ::dlopen(PTDP_NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    throw Error("cannot load NCCL: " + reason + "; expected libnccl.so.2 (" +
                    nccl_version_name(kOldestNccl) +
                    " or later), of the system or in a folder of LD_LIBRARY_PATH",
                ExitStatus::kRuntimeFault);
  }
  return library;
}

/// Looks up a function. Throws Error(kRuntimeFault) when the library lacks it.
template <class Function>
void find(void* library, const char* name, Function& function) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): what dlsym is for
  function = reinterpret_cast<Function>(::dlsym(library, name));
  if (function == nullptr) {
    throw Error(std::string("libnccl.so.2 has no ") + name + ": expected NCCL " +
                    nccl_version_name(kOldestNccl) + " or later",
                ExitStatus::kRuntimeFault);
  }
}

/// Loads the library and all functions. Throws Error(kRuntimeFault) when it is too old.
NcclLibrary load() {
  void* const file = open_library();
  NcclLibrary library;
  find(file, "ncclGetVersion", library.get_version);
  int version = 0;
  if (library.get_version(&version) != ncclSuccess || version < kOldestNccl) {
    throw Error("libnccl.so.2 is NCCL " + nccl_version_name(version) + ": expected " +
                    nccl_version_name(kOldestNccl) + " or later",
                ExitStatus::kRuntimeFault);
  }
  find(file, "ncclGetUniqueId", library.get_unique_id);
  find(file, "ncclGetErrorString", library.get_error_string);
  find(file, "ncclGetLastError", library.get_last_error);
  find(file, "ncclCommInitRankConfig", library.comm_init_rank_config);
  find(file, "ncclCommSplit", library.comm_split);
  find(file, "ncclCommGetAsyncError", library.comm_get_async_error);
  find(file, "ncclCommFinalize", library.comm_finalize);
  find(file, "ncclCommDestroy", library.comm_destroy);
  find(file, "ncclCommAbort", library.comm_abort);
  find(file, "ncclGroupStart", library.group_start);
  find(file, "ncclGroupEnd", library.group_end);
  find(file, "ncclGroupSimulateEnd", library.group_simulate_end);
  find(file, "ncclAllReduce", library.all_reduce);
  find(file, "ncclReduceScatter", library.reduce_scatter);
  find(file, "ncclAllGather", library.all_gather);
  find(file, "ncclReduce", library.reduce);
  find(file, "ncclBroadcast", library.broadcast);
  find(file, "ncclSend", library.send);
  find(file, "ncclRecv", library.receive);
  return library;
}

}  // namespace

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = load();
  return library;
}

std::string nccl_version_name(int version) {
  return std::to_string(version / 10'000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace ptdp
