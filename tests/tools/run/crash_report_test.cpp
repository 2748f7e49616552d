// Tests what a process says when its memory faults, and how it ends.
#include "tools/run/crash_report.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

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

}  // namespace
}  // namespace ptdp
