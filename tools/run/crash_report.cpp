#include "tools/run/crash_report.h"

#include <execinfo.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include "cost_model/error.h"
#include "cost_model/text/temporary_file.h"
#include "runtime/faults/action_log.h"

namespace ptdp {
namespace {

/// The stack of the signal handler, for when the main thread's stack cannot grow.
std::array<char, std::size_t{64} * 1024> spare_stack;

void tell_by_write(std::string_view text) {
  [[maybe_unused]] const ::ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

/// Whether address space is limited, or 16 MiB more cannot be mapped.
bool lacks_address_space() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    return true;
  }
  constexpr std::size_t room = std::size_t{16} << 20;
  void* const probe =
      ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) {
    return true;
  }
  ::munmap(probe, room);
  return false;
}

/// Reports a memory fault and ends the process. It runs wherever a thread faults, and so takes no
/// lock and allocates no memory.
void report_crash(int signal) {
  std::array<char, 128> place{};
  tell_by_write(program_invocation_short_name);
  tell_by_write(": ");
  tell_by_write({place.data(), write_place_of_thread(place)});
  if (lacks_address_space()) {
    tell_by_write("out of memory: a library used memory that it did not get (see ulimit -v)\n");
    remove_temporary_files();
    ::_exit(static_cast<int>(ExitStatus::kRuntimeFault));
  }
  tell_by_write(signal == SIGSEGV ? "segmentation fault\n" : "bus error\n");
  remove_temporary_files();
  std::signal(signal, SIG_DFL);
  static_cast<void>(std::raise(signal));
}

std::atomic<bool> has_own_status = false;

/// Ends the process with status 4 where a library ends it with 1 for want of memory, as libgomp
/// does after a line of its own.
void end_for_library(int status, void* /*unused*/) {
  if (status == EXIT_FAILURE && !has_own_status && lacks_address_space()) {
    tell_by_write(program_invocation_short_name);
    tell_by_write(": out of memory: a library ended the process (see ulimit -v)\n");
    remove_temporary_files();
    ::_exit(static_cast<int>(ExitStatus::kRuntimeFault));
  }
}

}  // namespace

void report_crashes() {
  static_cast<void>(::on_exit(&end_for_library, nullptr));
  const ::stack_t spare{.ss_sp = spare_stack.data(), .ss_flags = 0, .ss_size = spare_stack.size()};
  static_cast<void>(::sigaltstack(&spare, nullptr));
  for (const int signal : {SIGSEGV, SIGBUS}) {
    struct sigaction handler {};
    if (::sigaction(signal, nullptr, &handler) == 0 && handler.sa_handler == SIG_DFL) {
      handler.sa_handler = report_crash;
      handler.sa_flags = SA_ONSTACK;
      static_cast<void>(::sigaction(signal, &handler, nullptr));
    }
  }
}

int own_status(int status) {
  has_own_status = true;
  return status;
}

void load_unwinder() {
  std::array<void*, 1> frame{};
  static_cast<void>(::backtrace(frame.data(), static_cast<int>(frame.size())));
}

}  // namespace ptdp
