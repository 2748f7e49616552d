#include "cost_model/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "cost_model/error.h"

namespace ptdp {
namespace {

/// Closes its descriptor when it goes out of scope; close_checked() reports a failure instead.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool close_checked() {
    const int fd = fd_;
    fd_ = -1;
    return ::close(fd) == 0;
  }

 private:
  int fd_;
};

Descriptor open_descriptor(const std::filesystem::path& path, int flags) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): open(2) is what it is
  return Descriptor(::open(path.c_str(), flags | O_CLOEXEC));
}

[[noreturn]] void fail_to_read(const std::filesystem::path& path, const std::string& why) {
  throw Error(path.string() + ": " + why);
}

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) {
        continue;
      }
      return false;
    }
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

std::string read_file(const std::filesystem::path& path, std::size_t limit) {
  // O_NONBLOCK: opening a pipe that nobody writes to would otherwise wait for ever.
  const Descriptor file = open_descriptor(path, O_RDONLY | O_NONBLOCK);
  if (file.get() < 0) {
    fail_to_read(path, std::string("cannot be read: ") + std::strerror(errno));
  }
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) {
    fail_to_read(path, std::string("cannot be read: ") + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    fail_to_read(path, S_ISDIR(status.st_mode) ? "expected a file, found a directory"
                                               : "expected a regular file, found a pipe or device");
  }

  const auto refuse_size = [&] {
    fail_to_read(path, "larger than the limit of " + std::to_string(limit) + " bytes");
  };
  if (static_cast<std::uintmax_t>(status.st_size) > limit) {
    refuse_size();
  }

  std::string content;
  std::string block(std::size_t{64} * 1024, '\0');
  while (true) {
    const ssize_t count = ::read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      fail_to_read(path, std::string("cannot be read: ") + std::strerror(errno));
    }
    if (count == 0) {
      return content;
    }
    content.append(block, 0, static_cast<std::size_t>(count));
    if (content.size() > limit) {  // it grew since
      refuse_size();
    }
  }
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  const auto fail = [&path](const char* step, const std::string& cause) {
    throw Error(path.string() + ": cannot " + step + ": " + cause, ExitStatus::kOutputFailed);
  };
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path target = fs::weakly_canonical(path, error);  // follows links to what they name
  if (error) {
    fail("write", error.message());
  }
  const fs::file_status existing = fs::status(target, error);
  if (fs::exists(existing) && !fs::is_regular_file(existing)) {
    fail("write", "it is no regular file");
  }

  const fs::path directory = target.parent_path();
  std::string temporary = (directory / ".ptdp.XXXXXX").string();
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) {
    fail("create a file beside it", std::strerror(errno));
  }
  const auto fail_and_clean_up = [&](const char* step) {
    const std::string cause = std::strerror(errno);
    ::unlink(temporary.c_str());
    fail(step, cause);
  };

  // mkostemp gives 0600; a plan is shared like any other file of the user's.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const mode_t mode = fs::exists(existing) ? static_cast<mode_t>(existing.permissions())
                                           : static_cast<mode_t>(0666 & ~mask);
  if (::fchmod(file.get(), mode) != 0 || !write_all(file.get(), content)) {
    fail_and_clean_up("write");
  }
  if (::fsync(file.get()) != 0) {
    fail_and_clean_up("sync");
  }
  if (!file.close_checked()) {
    fail_and_clean_up("close");
  }
  if (::rename(temporary.c_str(), target.c_str()) != 0) {
    fail_and_clean_up("rename onto it");
  }

  // The rename itself is durable only once the directory is synced. Some file systems refuse to
  // sync a directory; the file is whole either way, so that is no failure.
  const Descriptor synced = open_descriptor(directory, O_RDONLY | O_DIRECTORY);
  if (synced.get() >= 0) {
    (void)::fsync(synced.get());
  }
}

}  // namespace ptdp
