#include "cost_model/text/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <list>
#include <system_error>

#include "cost_model/error.h"

namespace ptdp {
namespace {

Descriptor open_descriptor(const std::filesystem::path& path, int flags) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): open(2) is what it is
  return Descriptor(::open(path.c_str(), flags | O_CLOEXEC));
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

void fail_to_read(const std::filesystem::path& path, const std::string& why) {
  throw Error(path.string() + ": " + why);
}

void fail_to_write(const std::filesystem::path& path, const char* step, const std::string& cause) {
  throw Error(path.string() + ": cannot " + step + ": " + cause, ExitStatus::kOutputFailed);
}

RegularFile open_regular_file(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a pipe that nobody writes to would otherwise wait forever.
  RegularFile file{.descriptor = open_descriptor(path, O_RDONLY | O_NONBLOCK)};
  struct stat status {};
  if (!file.descriptor.is_open() || ::fstat(file.descriptor.get(), &status) != 0) {
    fail_to_read(path, std::string("cannot be read: ") + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    fail_to_read(path, S_ISDIR(status.st_mode) ? "expected a file, found a directory"
                                               : "expected a regular file, found a pipe or device");
  }
  file.size = status.st_size;
  return file;
}

std::string read_file(const std::filesystem::path& path, std::size_t limit) {
  const RegularFile file = open_regular_file(path);
  const auto refuse_size = [&] {
    fail_to_read(path, "larger than the limit of " + std::to_string(limit) + " bytes");
  };
  if (static_cast<std::uintmax_t>(file.size) > limit) {
    refuse_size();
  }

  std::string content;
  std::string block(std::size_t{64} * 1024, '\0');
  while (true) {
    const ssize_t count = ::read(file.descriptor.get(), block.data(), block.size());
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
    if (content.size() > limit) {  // it grew since it was opened
      refuse_size();
    }
  }
}

void sync_directory(const std::filesystem::path& path) noexcept {
  const Descriptor directory = open_descriptor(path, O_RDONLY | O_DIRECTORY);
  if (directory.is_open()) {
    // Some file systems refuse to sync a directory; what is in it is whole either way.
    (void)::fsync(directory.get());
  }
}

StagedFile::StagedFile(const std::filesystem::path& path) : path_(path) {
  namespace fs = std::filesystem;
  std::error_code error;
  target_ = fs::weakly_canonical(path, error);  // follows links to what they name
  if (error) {
    fail_to_write(path, "write", error.message());
  }
  const fs::file_status existing = fs::status(target_, error);
  if (fs::exists(existing) && !fs::is_regular_file(existing)) {
    fail_to_write(path, "write", "it is no regular file");
  }

  temporary_.emplace(target_.parent_path());
  if (temporary_->descriptor() < 0) {
    fail_to_write(path, "create a file beside it", std::strerror(errno));
  }
  // The temporary file has mode 0600, but a plan is shared like any other file of the user's.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const mode_t mode = fs::exists(existing) ? static_cast<mode_t>(existing.permissions())
                                           : static_cast<mode_t>(0666 & ~mask);
  if (::fchmod(temporary_->descriptor(), mode) != 0) {
    fail_to_write(path, "write", std::strerror(errno));
  }
}

void StagedFile::append(std::string_view content) {
  if (!write_all(temporary_->descriptor(), content)) {
    fail_to_write(path_, "write", std::strerror(errno));
  }
}

void StagedFile::seal() {
  if (::fsync(temporary_->descriptor()) != 0) {
    fail_to_write(path_, "sync", std::strerror(errno));
  }
}

void StagedFile::rename_onto_target() {
  if (!temporary_->rename_onto(target_)) {
    fail_to_write(path_, "rename onto it", std::strerror(errno));
  }
  sync_directory(target_.parent_path());  // the rename itself is durable only then
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  StagedFile file(path);
  file.append(content);
  file.seal();
  file.rename_onto_target();
}

void write_files_atomically(std::span<const FileContent> files) {
  std::list<StagedFile> staged;
  for (const FileContent& file : files) {
    staged.emplace_back(file.path).append(file.content);
    staged.back().seal();
  }
  for (StagedFile& file : staged) {
    file.rename_onto_target();
  }
}

}  // namespace ptdp
