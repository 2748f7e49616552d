// Tests of ranks over NCCL that die, hang or never come (F32, F33), and of calls that fail: all
// ranks end, and one says why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/emulated_nccl/emulation.h"
#include "tests/runtime/emulated_nccl/nccl_ranks.h"
#include "tests/runtime/transport/device_values.h"

namespace ptdp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class NcclFaults : public testing::Test {
 protected:
  void SetUp() override { emulated_nccl::reset(); }

  /// Returns the message that the ranks end with.
  static std::string failure_of(const GpuLaunch& launch,
                                const std::function<void(const GpuRank&)>& body) {
    try {
      on_gpus(launch, body);
      return "done";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::kRuntimeFault);
      return error.what();
    } catch (const Aborted& aborted) {
      return aborted.what();
    } catch (const std::exception& error) {
      return std::string("thrown: ") + error.what();
    }
  }
  /// Runs an all-reduce in which a rank sleeps until its GPU has done it.
  static void reduce(const GpuRank& rank) {
    const Tensor x = uploaded(rank.backend, DataType::kFloat32, {1.0, 2.0});
    rank.all.all_reduce(x, Reduction::kSum);
    static_cast<void>(downloaded(rank.backend, x));
    rank.all.check();
  }
  /// Has rank 0 of three send to rank 1, which does not come, while rank 2 runs `meanwhile`. Calls
  /// of a part of the world block, and the first message waits for its receiver to ask for it.
  static void send_in_vain(const GpuRank& rank, const std::function<void()>& meanwhile) {
    const int number = rank.all.rank();
    const auto group =
        number == 2 ? rank.all.group(std::array{2}, 0) : rank.all.group(std::array{0, 1}, 0);
    if (number == 0) {
      const Tensor x = uploaded(rank.backend, DataType::kFloat32, {1.0});
      static_cast<void>(group->send(x, 1));
      ADD_FAILURE();
    } else if (number == 1) {
      rank.all.barrier();
    } else {
      meanwhile();
    }
  }
};

TEST_F(NcclFaults, ADeadPeerThatNcclHearsOfEndsARankThatSleeps) {
  const std::string failure = failure_of({.size = 2}, [](const GpuRank& rank) {
    const Tensor x = uploaded(rank.backend, DataType::kFloat32, {1.0});
    if (rank.all.rank() == 0) {
      rank.all.all_reduce(x, Reduction::kSum);
    }
    rank.host.world.barrier();
    if (rank.all.rank() == 1) {
      emulated_nccl::change([](auto& plan) { plan.broken_device = 0; });
      rank.host.world.barrier();
    }
    static_cast<void>(downloaded(rank.backend, x));  // for rank 0 it never comes
    rank.all.check();
  });
  EXPECT_EQ(failure,
            "NCCL, the world: ncclCommGetAsyncError: remote process exited or there was a network "
            "error (emulated)");
}

TEST_F(NcclFaults, ARankThatThrowsEndsThoseThatWaitForIt) {
  for (const bool is_told : {false, true}) {
    emulated_nccl::reset({.reports_aborts = is_told});
    const std::string failure = failure_of({.size = 3}, [](const GpuRank& rank) {
      const auto group = rank.all.group(std::array{0, 1, 2}, 0);
      if (rank.all.rank() == 1) {
        throw std::runtime_error("rank 1 dies");
      }
      reduce(rank);
    });
    if (!is_told || failure.find("remote process exited") == std::string::npos) {
      EXPECT_EQ(failure, "thrown: rank 1 dies");
    }
  }
}

// Behind NVLink or shared memory NCCL hears of nothing: the watchdog does.
TEST_F(NcclFaults, AnAbortWakesRanksThatSleepInCollectivesAndMessages) {
  constexpr std::array links = {MessageLink{.from = 0, .to = 2}, MessageLink{.from = 2, .to = 1}};
  for (const bool sends : {false, true}) {
    EXPECT_EQ(
        failure_of({.size = 3},
                   [&](const GpuRank& rank) {
                     const auto messages = rank.all.message_group(std::array{0, 1, 2}, 0, links);
                     if (rank.all.rank() == 2) {
                       std::this_thread::sleep_for(std::chrono::milliseconds(20));
                       rank.all.abort(ExitStatus::kRuntimeFault);
                     } else if (sends) {
                       const Tensor x = uploaded(rank.backend, DataType::kFloat32, {1.0});
                       messages->wait(rank.all.rank() == 0 ? messages->send(x, 2)
                                                           : messages->receive(x, 2));
                       rank.backend.synchronize();
                       rank.all.check();
                       ADD_FAILURE();
                     } else {
                       reduce(rank);
                       ADD_FAILURE();
                     }
                   }),
        "another rank failed");
  }
}

TEST_F(NcclFaults, AnAbortEndsACallThatWaitsForARankThatDoesNotCome) {
  EXPECT_EQ(failure_of({.size = 3},
                       [](const GpuRank& rank) {
                         send_in_vain(rank, [&] {
                           std::this_thread::sleep_for(std::chrono::milliseconds(20));
                           rank.all.abort(ExitStatus::kRuntimeFault);
                         });
                       }),
            "another rank failed");
}

TEST_F(NcclFaults, ACallThatBlocksIsGivenUpAtTheDeadline) {
  EXPECT_THAT(
      failure_of({.size = 3, .options = {.deadline = Seconds(0.05)}},
                 [](const GpuRank& rank) { send_in_vain(rank, [&] { rank.all.barrier(); }); }),
      AllOf(HasSubstr("NCCL, group 0 of ranks 0, 1: a call: not done after 0 s"),
            HasSubstr("expected all of its ranks to make it")));
}

TEST_F(NcclFaults, ARankThatNeverCallsIsWaitedForNoLongerThanTheDeadline) {
  EXPECT_THAT(failure_of({.size = 2, .options = {.deadline = Seconds(0.05)}},
                         [](const GpuRank& rank) {
                           if (rank.all.rank() == 0) {
                             static_cast<void>(rank.all.group(std::array{0, 1}, 7));
                           } else {
                             rank.all.barrier();
                           }
                         }),
              AllOf(HasSubstr("NCCL, the world: ncclCommSplit: still in progress after"),
                    HasSubstr("expected all of its ranks to make this call")));
}

TEST_F(NcclFaults, AStartThatDoesNotEndIsGivenUp) {
  emulated_nccl::reset({.never_starts = true});
  EXPECT_THAT(failure_of({.size = 2, .options = {.deadline = Seconds(0.05)}},
                         [](const GpuRank& /*rank*/) { ADD_FAILURE(); }),
              HasSubstr("NCCL, the world: ncclCommInitRankConfig: still in progress after"));
}

TEST_F(NcclFaults, CallsAfterTheEndSayWhatEndedIt) {
  static_cast<void>(failure_of({.size = 1}, [](const GpuRank& rank) {
    emulated_nccl::change([](auto& plan) { plan.broken_device = 0; });
    while (!rank.world.is_aborted()) {
      std::this_thread::yield();
    }
    const Tensor x = uploaded(rank.backend, DataType::kFloat32, {1.0});
    for (int call = 0; call < 2; ++call) {
      EXPECT_THAT([&] { rank.all.all_reduce(x, Reduction::kSum); },
                  testing::ThrowsMessage<Error>(HasSubstr("remote process exited")));
      EXPECT_THAT([&] { rank.all.check(); },
                  testing::ThrowsMessage<Error>(HasSubstr("remote process exited")));
    }
  }));
}

void do_everything(const GpuRank& rank) {
  const auto group = rank.all.group(std::array{1, 0}, 0);
  const auto messages = rank.all.message_group(
      std::array{0, 1}, 1,
      std::array{MessageLink{.from = 0, .to = 1}, MessageLink{.from = 1, .to = 0}});
  const Tensor x = uploaded(rank.backend, DataType::kFloat32, {1.0, 2.0, 3.0});
  group->all_reduce(x, Reduction::kSum);
  group->reduce_scatter(x);
  group->wait(group->begin_all_gather(x));
  const int other = 1 - rank.all.rank();
  const Tensor y(rank.backend, DataType::kFloat32, 3);
  const Request expected = messages->receive(y, other);
  messages->wait(messages->send(x, other));
  messages->wait(expected);
  static_cast<void>(group->estimate(CollectiveKind::kAllReduce, x));
  static_cast<void>(downloaded(rank.backend, y));
  rank.all.check();
}

// One call after the other fails, until there is none left.
TEST_F(NcclFaults, NoFailingCallHangsOrLeaksOrIsKeptQuiet) {
  int failures = 0;
  for (std::int64_t k = 1;; ++k) {
    SCOPED_TRACE("call " + std::to_string(k));
    emulated_nccl::reset({.failing_call = k});
    const std::string failure = failure_of({.size = 2}, &do_everything);
    if (emulated_nccl::calls() < k) {
      EXPECT_EQ(failure, "done");
      break;
    }
    if (failure != "done") {
      ++failures;
      EXPECT_THAT(failure, testing::AnyOf(AllOf(HasSubstr("NCCL"), HasSubstr("nccl"),
                                                HasSubstr("unhandled system error (emulated)")),
                                          "another rank failed"));
    }
  }
  EXPECT_GT(failures, 30);
}

}  // namespace
}  // namespace ptdp
