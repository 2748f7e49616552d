// Preloaded into a program: one call of the C library, the k-th of its kind, fails. By environment:
//
//   PTDP_FAIL=malloc|write|fsync|rename|close|open   what fails (malloc: every way to memory)
//   PTDP_FAIL_AT=K                                   from 1
//   PTDP_FAIL_ERRNO=ENOSPC|EIO|EINTR                 of what is no memory (default: EIO)
//   PTDP_FAIL_COUNT=FILE                             written when the K-th call came: that it
//   failed
//
// Calls count from main on: what libraries do before it is not the program's. Of files, only calls
// that touch a regular file or a directory count: pipes and terminals are not what is tested.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace {

enum class Kind { kNone, kMalloc, kWrite, kFsync, kRename, kClose, kOpen };

struct Settings {
  Kind kind = Kind::kNone;
  long at = 0;
  int error = EIO;
};

Settings settings;
std::atomic<long> calls = 0;
std::atomic<bool> has_begun = false;

__attribute__((constructor)) void read_settings() {
  const char* const what = std::getenv("PTDP_FAIL");
  const char* const at = std::getenv("PTDP_FAIL_AT");
  const char* const error = std::getenv("PTDP_FAIL_ERRNO");
  if (what == nullptr || at == nullptr) {
    return;
  }
  constexpr const char* kNames[] = {"", "malloc", "write", "fsync", "rename", "close", "open"};
  Settings read;
  for (int kind = 1; kind < 7; ++kind) {
    if (std::strcmp(kNames[kind], what) == 0) {
      read.kind = static_cast<Kind>(kind);
    }
  }
  read.at = std::strtol(at, nullptr, 10);
  if (error != nullptr) {
    read.error = std::strcmp(error, "ENOSPC") == 0  ? ENOSPC
                 : std::strcmp(error, "EINTR") == 0 ? EINTR
                                                    : EIO;
  }
  settings = read;
}

/// Counts a call of this kind. Returns true for the one that fails.
bool fails(Kind kind) {
  if (settings.kind != kind || !has_begun || calls.fetch_add(1) + 1 != settings.at) {
    return false;
  }
  if (const char* const file = std::getenv("PTDP_FAIL_COUNT")) {
    // System calls themselves: the wrappers below are not to see it.
    const auto descriptor = static_cast<int>(
        ::syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    ::syscall(SYS_write, descriptor, "failed\n", 7);
    ::syscall(SYS_close, descriptor);
  }
  return true;
}

bool is_file(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

using Main = int (*)(int, char**, char**);
Main real_main = nullptr;

int begin_main(int argc, char** argv, char** environment) {
  has_begun = true;
  return real_main(argc, argv, environment);
}

}  // namespace

extern "C" {

// NOLINTNEXTLINE(bugprone-reserved-identifier): glibc's
int __libc_start_main(Main main, int argc, char** argv, void (*init)(), void (*fini)(),
                      void (*linker_fini)(), void* stack_end) {
  real_main = main;
  return next<int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*)>(
      "__libc_start_main")(begin_main, argc, argv, init, fini, linker_fini, stack_end);
}

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  if (fails(Kind::kMalloc)) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  if (fails(Kind::kMalloc)) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_calloc(count, size);
}

void* realloc(void* memory, size_t size) {
  if (fails(Kind::kMalloc)) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_realloc(memory, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  if (fails(Kind::kMalloc)) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** memory, size_t alignment, size_t size) {
  if (fails(Kind::kMalloc)) {
    return ENOMEM;
  }
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}

ssize_t write(int descriptor, const void* from, size_t count) {
  if (settings.kind == Kind::kWrite && is_file(descriptor) && fails(Kind::kWrite)) {
    errno = settings.error;
    return -1;
  }
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  return real(descriptor, from, count);
}

int fsync(int descriptor) {
  if (fails(Kind::kFsync)) {
    errno = settings.error;
    return -1;
  }
  static const auto real = next<int (*)(int)>("fsync");
  return real(descriptor);
}

int rename(const char* from, const char* to) {
  if (fails(Kind::kRename)) {
    errno = settings.error;
    return -1;
  }
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return real(from, to);
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to,
              unsigned int flags) {
  if (fails(Kind::kRename)) {
    errno = settings.error;
    return -1;
  }
  static const auto real =
      next<int (*)(int, const char*, int, const char*, unsigned int)>("renameat2");
  return real(from_directory, from, to_directory, to, flags);
}

int close(int descriptor) {
  const bool is_one = settings.kind == Kind::kClose && is_file(descriptor);
  static const auto real = next<int (*)(int)>("close");
  const int result = real(descriptor);
  if (is_one && fails(Kind::kClose)) {  // it is closed all the same, as on Linux
    errno = settings.error;
    return -1;
  }
  return result;
}

}  // extern "C"
