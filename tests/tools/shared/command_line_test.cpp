#include "tools/shared/command_line.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstddef>
#include <exception>
#include <new>
#include <stdexcept>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

constexpr std::size_t kMoreThanThereIs = std::size_t{1} << 62;

/// What a function that does not throw does when an exception passes: it is not caught, and
/// std::current_exception() does not have it.
struct EndsWhereAnExceptionPasses {
  EndsWhereAnExceptionPasses() = default;
  EndsWhereAnExceptionPasses(const EndsWhereAnExceptionPasses&) = delete;
  EndsWhereAnExceptionPasses& operator=(const EndsWhereAnExceptionPasses&) = delete;
  ~EndsWhereAnExceptionPasses() { std::terminate(); }
};

void allocate_too_much() {
  ::operator delete(::operator new(kMoreThanThereIs));
}

void fail_otherwise() {
  throw std::runtime_error("a bug");
}

TEST(RunCommand, EndsWithItsStatusWhereALibraryLetsNoLackOfMemoryPass) {
  if (kIsSanitized) {
    GTEST_SKIP() << "a sanitizer ends the program where memory lacks";
  }
  const auto end_while_passing = [] {
    (void)run_command("ptdp-plan", [] {
      const EndsWhereAnExceptionPasses end;
      allocate_too_much();
      return 0;
    });
  };
  EXPECT_EXIT(end_while_passing(), ::testing::ExitedWithCode(4), ": out of memory");
  const auto end_in_noexcept = [] {
    (void)run_command("ptdp-plan", [] {
      []() noexcept { allocate_too_much(); }();
      return 0;
    });
  };
  EXPECT_EXIT(end_in_noexcept(), ::testing::ExitedWithCode(4), ": out of memory");
}

TEST(RunCommand, AbortsWhereAnythingElsePasses) {
  const auto end = [] {
    (void)run_command("ptdp-plan", []() -> int {
      if (!kIsSanitized) {
        try {
          allocate_too_much();
        } catch (const std::bad_alloc&) {
          // It was in hand, and is no reason of what follows.
        }
      }
      []() noexcept { fail_otherwise(); }();
      return 0;
    });
  };
  EXPECT_EXIT(end(), ::testing::KilledBySignal(SIGABRT), "");
}

}  // namespace
}  // namespace ptdp
