// Tests that the emulated NCCL notices what the real one does not survive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "tests/runtime/emulated_nccl/emulation.h"

namespace ptdp::emulated_nccl {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Two ranks on one thread, because no call of the emulation blocks.
class EmulatedNccl : public testing::Test {
 protected:
  void SetUp() override {
    reset();
    emulated_gpu::set_devices(2);
    ncclUniqueId id{};
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    for (int rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
      ASSERT_EQ(cudaStreamCreateWithPriority(&stream(rank), cudaStreamNonBlocking, 0), cudaSuccess);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      ASSERT_EQ(ncclCommInitRankConfig(&end(rank), 2, id, rank, &config), ncclInProgress);
    }
    settle();
  }
  void TearDown() override {
    for (int rank = 0; rank < 2; ++rank) {
      if (end(rank) != nullptr) {
        EXPECT_EQ(ncclCommAbort(end(rank)), ncclSuccess);
      }
      EXPECT_EQ(cudaStreamDestroy(stream(rank)), cudaSuccess);
    }
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    EXPECT_EQ(communicators(), 0);
  }

  /// Polls until no communicator is in progress.
  void settle() {
    for (ncclComm_t end : ends_) {
      ncclResult_t state = ncclInProgress;
      while (end != nullptr && state == ncclInProgress) {
        ASSERT_EQ(ncclCommGetAsyncError(end, &state), ncclSuccess);
      }
    }
  }
  ncclResult_t reduce(int rank, std::size_t count) {
    static_cast<void>(cudaSetDevice(rank));
    return ncclAllReduce(values(rank).data(), values(rank).data(), count, ncclFloat32, ncclSum,
                         end(rank), stream(rank));
  }

  [[nodiscard]] ncclComm_t& end(int rank) { return ends_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] cudaStream_t& stream(int rank) { return streams_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] std::array<float, 4>& values(int rank) {
    return values_[static_cast<std::size_t>(rank)];
  }

 private:
  std::array<ncclComm_t, 2> ends_{};
  std::array<cudaStream_t, 2> streams_{};
  std::array<std::array<float, 4>, 2> values_{{{1, 2, 3, 4}, {10, 20, 30, 40}}};
};

TEST_F(EmulatedNccl, RunsWhatAllAskedForWhenOneWaitsForIt) {
  EXPECT_EQ(reduce(0, 4), ncclInProgress);
  EXPECT_EQ(reduce(1, 4), ncclInProgress);
  EXPECT_THAT(values(0), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(cudaStreamSynchronize(stream(0)), cudaSuccess);
  EXPECT_THAT(values(0), ElementsAre(11, 22, 33, 44));
  EXPECT_THAT(values(1), ElementsAre(11, 22, 33, 44));
  EXPECT_THAT(faults(), ElementsAre());
}

TEST_F(EmulatedNccl, NotesUnequalCollectives) {
  static_cast<void>(reduce(0, 4));
  static_cast<void>(reduce(1, 3));
  EXPECT_EQ(cudaStreamSynchronize(stream(0)), cudaSuccess);
  EXPECT_THAT(faults(), ElementsAre(HasSubstr("different collective calls")));
}

TEST_F(EmulatedNccl, NotesMessagesOfAnotherSize) {
  static_cast<void>(ncclSend(values(0).data(), 4, ncclFloat32, 1, end(0), stream(0)));
  static_cast<void>(ncclRecv(values(1).data(), 2, ncclFloat32, 0, end(1), stream(1)));
  EXPECT_EQ(cudaStreamSynchronize(stream(1)), cudaSuccess);
  EXPECT_THAT(faults(), ElementsAre("a message of 4 elements is received as 2"));
}

// So a thread that polls for its first message waits for the other's thread.
TEST_F(EmulatedNccl, ConnectsTwoRanksWhenBothHaveAsked) {
  ncclResult_t state = ncclSuccess;
  static_cast<void>(ncclSend(values(0).data(), 4, ncclFloat32, 1, end(0), stream(0)));
  for (int poll = 0; poll < 3; ++poll) {
    EXPECT_EQ(ncclCommGetAsyncError(end(0), &state), ncclSuccess);
    EXPECT_EQ(state, ncclInProgress);
  }
  static_cast<void>(ncclRecv(values(1).data(), 4, ncclFloat32, 0, end(1), stream(1)));
  EXPECT_EQ(ncclCommGetAsyncError(end(0), &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream(1)), cudaSuccess);
}

TEST_F(EmulatedNccl, NotesACallBeforeTheLastIsDone) {
  EXPECT_EQ(reduce(0, 4), ncclInProgress);
  EXPECT_EQ(reduce(0, 4), ncclInvalidArgument);
  EXPECT_THAT(faults(), ElementsAre("ncclAllReduce: before the last call was done"));
}

TEST_F(EmulatedNccl, NotesASecondThread) {
  std::thread([&] { static_cast<void>(reduce(0, 4)); }).join();
  settle();
  static_cast<void>(reduce(0, 4));
  EXPECT_THAT(faults(), ElementsAre("ncclAllReduce: a second thread calls for device 0"));
}

TEST_F(EmulatedNccl, NotesWhatIsUsedAfterItsEnd) {
  EXPECT_EQ(ncclCommAbort(end(0)), ncclSuccess);
  EXPECT_EQ(reduce(0, 4), ncclInvalidArgument);
  end(0) = nullptr;
  EXPECT_THAT(faults(), ElementsAre("ncclAllReduce: of a communicator that is gone"));
}

TEST_F(EmulatedNccl, NotesTheEndOfOneWithWorkToDo) {
  static_cast<void>(reduce(0, 4));
  settle();
  EXPECT_EQ(ncclCommDestroy(end(0)), ncclSuccess);
  EXPECT_THAT(faults(), ElementsAre("ncclCommDestroy: with work that is not done"));
  static_cast<void>(reduce(1, 4));
  EXPECT_EQ(cudaStreamSynchronize(stream(0)), cudaSuccess);
  end(0) = nullptr;
}

TEST_F(EmulatedNccl, LaunchesWhatOneThatDoesNotBlockShouldSimulate) {
  ncclSimInfo_t information = NCCL_SIM_INFO_INITIALIZER;
  for (int rank = 0; rank < 2; ++rank) {
    static_cast<void>(ncclGroupStart());
    static_cast<void>(reduce(rank, 4));
    EXPECT_EQ(ncclGroupSimulateEnd(&information), ncclInProgress);
  }
  EXPECT_EQ(cudaStreamSynchronize(stream(0)), cudaSuccess);
  EXPECT_THAT(values(0), ElementsAre(11, 22, 33, 44));
}

}  // namespace
}  // namespace ptdp::emulated_nccl
