// Stands in for runtime/transport/nccl/nccl_library.cpp: the emulated functions.
#include "runtime/transport/nccl/nccl_library.h"

namespace ptdp {

const NcclLibrary& nccl_library() {
  static const NcclLibrary library = {.get_version = &ncclGetVersion,
                                      .get_unique_id = &ncclGetUniqueId,
                                      .get_error_string = &ncclGetErrorString,
                                      .get_last_error = &ncclGetLastError,
                                      .comm_init_rank_config = &ncclCommInitRankConfig,
                                      .comm_split = &ncclCommSplit,
                                      .comm_get_async_error = &ncclCommGetAsyncError,
                                      .comm_finalize = &ncclCommFinalize,
                                      .comm_destroy = &ncclCommDestroy,
                                      .comm_abort = &ncclCommAbort,
                                      .group_start = &ncclGroupStart,
                                      .group_end = &ncclGroupEnd,
                                      .group_simulate_end = &ncclGroupSimulateEnd,
                                      .all_reduce = &ncclAllReduce,
                                      .reduce_scatter = &ncclReduceScatter,
                                      .all_gather = &ncclAllGather,
                                      .reduce = &ncclReduce,
                                      .broadcast = &ncclBroadcast,
                                      .send = &ncclSend,
                                      .receive = &ncclRecv};
  return library;
}

std::string nccl_version_name(int version) {
  return version == 22'809 ? "2.28.9" : std::to_string(version);
}

}  // namespace ptdp
