#include "runtime/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/text/files.h"

namespace ptdp {
namespace {

[[noreturn]] void fail_with_errno(const std::filesystem::path& path) {
  fail_to_read(path, std::string("cannot be read: ") + std::strerror(errno));
}

int open_to_read(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe that nobody writes to would otherwise wait for ever.
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): open(2) is what it is
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) {
    fail_with_errno(path);
  }
  return descriptor;
}

}  // namespace

OpenFile::OpenFile(const std::filesystem::path& path)
    : path_(path), descriptor_(open_to_read(path)) {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) {
    const int cause = errno;
    close();
    errno = cause;
    fail_with_errno(path);
  }
  if (!S_ISREG(status.st_mode)) {
    close();
    fail_to_read(path, S_ISDIR(status.st_mode) ? "expected a file, found a directory"
                                               : "expected a regular file, found a pipe or device");
  }
  size_ = status.st_size;
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  if (this != &other) {
    close();
    path_ = std::move(other.path_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    size_ = other.size_;
  }
  return *this;
}

OpenFile::~OpenFile() {
  close();
}

void OpenFile::close() noexcept {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

void OpenFile::read(std::int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      fail_with_errno(path_);
    }
    if (count == 0) {
      fail_to_read(path_, "ends at byte " + std::to_string(offset) + ", expected " +
                              std::to_string(bytes.size()) + " bytes more");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

}  // namespace ptdp
