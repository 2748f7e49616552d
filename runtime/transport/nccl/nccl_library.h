// Functions of NCCL, looked up when they are first needed, so that programs start without NCCL.
#pragma once

#include <nccl.h>

#include <string>

namespace ptdp {

/// The oldest NCCL version that has all these functions: 2.22, in NCCL's numbering.
inline constexpr int kOldestNccl = 22'200;

/// The functions of a loaded NCCL library.
struct NcclLibrary {
  decltype(&ncclGetVersion) get_version = nullptr;
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclGetErrorString) get_error_string = nullptr;
  decltype(&ncclGetLastError) get_last_error = nullptr;
  decltype(&ncclCommInitRankConfig) comm_init_rank_config = nullptr;
  decltype(&ncclCommSplit) comm_split = nullptr;
  decltype(&ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&ncclCommFinalize) comm_finalize = nullptr;
  decltype(&ncclCommDestroy) comm_destroy = nullptr;
  decltype(&ncclCommAbort) comm_abort = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclGroupSimulateEnd) group_simulate_end = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclReduce) reduce = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
};

/// Returns the library, which is loaded once. Throws Error(kRuntimeFault) when libnccl.so.2 is
/// missing or too old.
[[nodiscard]] const NcclLibrary& nccl_library();

/// Returns NCCL's version number as text: 22809 gives "2.28.9".
[[nodiscard]] std::string nccl_version_name(int version);

}  // namespace ptdp
