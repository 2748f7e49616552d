// Tests what a process says when its memory faults, and how it ends.
#include "tools/run/crash_report.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <mutex>
#include <new>

#include "runtime/faults/action_log.h"

namespace ptdp {
namespace {

/// Faults in an action of rank 5, with this much address space.
void fault(rlim_t limit) {
  const rlimit space{.rlim_cur = limit, .rlim_max = RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &space);
  const rlimit no_core{};
  ::setrlimit(RLIMIT_CORE, &no_core);
  report_crashes();
  ActionLog log(4, 2);
  log.begin(5, Lane::kCompute, 3, {ActionKind::kForward, 2, 7});
  static_cast<void>(std::raise(SIGSEGV));
}

/// Exits with `status`, with this much address space, as libgomp does on a thread that computes.
[[noreturn]] void exit_in(rlim_t limit, int status) {
  const rlimit space{.rlim_cur = limit, .rlim_max = RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &space);
  report_crashes();
  std::exit(status);  // NOLINT(concurrency-mt-unsafe): there is one thread
}

/// Throws out of a callback of the C library when nothing more can be allocated, and exits with 0
/// where it catches that.
void throw_without_memory() {
  load_unwinder();
  const rlimit no_space{.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
  ::setrlimit(RLIMIT_AS, &no_space);
  for (std::size_t size = std::size_t{1} << 20; size > 0; size /= 2) {
    // The optimizer may leave out a block that nobody reads.
    // NOLINTNEXTLINE(cppcoreguidelines-no-malloc): it is to lack, so nothing is to own it
    while (void* volatile block = std::malloc(size)) {
      static_cast<void>(block);
    }
  }
  std::once_flag once;
  try {
    std::call_once(once, [] { throw std::bad_alloc(); });
  } catch (const std::bad_alloc&) {
    ::_exit(0);
  }
}

class CrashReport : public testing::Test {
 protected:
  void SetUp() override {
    struct sigaction before {};
    ::sigaction(SIGSEGV, nullptr, &before);
    if (before.sa_handler != SIG_DFL) {
      GTEST_SKIP() << "sanitizers report crashes themselves";
    }
  }
};
using CrashReportDeathTest = CrashReport;

TEST_F(CrashReportDeathTest, EndsWithStatus4WhereAddressSpaceIsLimited) {
  EXPECT_EXIT(fault(rlim_t{1} << 40), testing::ExitedWithCode(4),
              ": rank 5: 2F7 of step 4: out of memory: ");
}

TEST_F(CrashReportDeathTest, NamesThePlaceOfAnyOtherFault) {
  EXPECT_EXIT(fault(RLIM_INFINITY), testing::KilledBySignal(SIGSEGV),
              ": rank 5: 2F7 of step 4: segmentation fault");
}

TEST_F(CrashReportDeathTest, EndsWithStatus4WhereALibraryExitsInLimitedAddressSpace) {
  EXPECT_EXIT(exit_in(rlim_t{1} << 40, 1), testing::ExitedWithCode(4), ": out of memory: ");
  EXPECT_EXIT(exit_in(RLIM_INFINITY, 1), testing::ExitedWithCode(1), "^$");
  EXPECT_EXIT(exit_in(rlim_t{1} << 40, own_status(1)), testing::ExitedWithCode(1), "^$");
}

TEST_F(CrashReportDeathTest, LeavesExceptionsAWayThroughTheCLibraryWhereMemoryLacks) {
  EXPECT_EXIT(throw_without_memory(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace ptdp
