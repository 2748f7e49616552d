// The functions of NCCL, found when they are needed: programs start where there is no NCCL.
#pragma once

#include <nccl.h>

#include <string>

namespace ptdp {

/// The oldest library that has all of it: 2.22, as NCCL numbers versions.
inline constexpr int kOldestNccl = 22'200;

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

/// Loaded once. Throws Error(kRuntimeFault) where libnccl.so.2 is not found, or is too old.
[[nodiscard]] const NcclLibrary& nccl_library();

/// 22809 as "2.28.9".
[[nodiscard]] std::string nccl_version_name(int version);

}  // namespace ptdp
