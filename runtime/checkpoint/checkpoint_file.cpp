#include "runtime/checkpoint/checkpoint_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/text/files.h"
#include "runtime/open_file.h"

namespace ptdp {
namespace {

/// Number of bytes read at a time for a checksum.
constexpr std::int64_t kBlock = std::int64_t{1} << 20;

/// Creates a file for writing. Throws Error(kOutputFailed) when it exists already or cannot be
/// made.
Descriptor create(const std::filesystem::path& path) {
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): open(2) is what it is
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.is_open()) {
    fail_to_write(path, "create", std::strerror(errno));
  }
  return file;
}

}  // namespace

void ChecksumDeleter::operator()(XXH64_state_s* state) const noexcept {
  XXH64_freeState(state);
}

Checksum::Checksum() : state_(XXH64_createState()) {
  if (state_ == nullptr) {
    throw std::bad_alloc();
  }
  XXH64_reset(state_.get(), 0);
}

void Checksum::add(std::span<const std::byte> bytes) {
  XXH64_update(state_.get(), bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const {
  return XXH64_digest(state_.get());
}

std::uint64_t checksum_of(std::string_view content) {
  return XXH64(content.data(), content.size(), 0);
}

FileDigest digest_of(const std::filesystem::path& path) {
  const OpenFile file(path);
  Checksum checksum;
  std::vector<std::byte> block;
  for (std::int64_t offset = 0; offset < file.size(); offset += kBlock) {
    block.resize(static_cast<std::size_t>(std::min(kBlock, file.size() - offset)));
    file.read(offset, block);
    checksum.add(block);
  }
  return {.name = path.filename().string(), .bytes = file.size(), .xxh64 = checksum.value()};
}

ChecksummedFile::ChecksummedFile(std::filesystem::path path)
    : path_(std::move(path)), file_(create(path_)) {}

void ChecksummedFile::append(std::span<const std::byte> bytes) {
  checksum_.add(bytes);
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      fail_to_write(path_, "write", std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    size_ += written;
  }
}

FileDigest ChecksummedFile::close() {
  if (::fsync(file_.get()) != 0) {
    fail_to_write(path_, "sync", std::strerror(errno));
  }
  if (!file_.close()) {
    fail_to_write(path_, "close", std::strerror(errno));
  }
  return {.name = path_.filename().string(), .bytes = size_, .xxh64 = checksum_.value()};
}

FileDigest write_checksummed(const std::filesystem::path& path, std::string_view content) {
  ChecksummedFile file(path);
  file.append(std::as_bytes(std::span(content)));
  return file.close();
}

void replace_directory(const std::filesystem::path& from, const std::filesystem::path& to,
                       const std::filesystem::path& aside) {
  namespace fs = std::filesystem;
  std::error_code error;
  const auto move = [&](const fs::path& source, const fs::path& target) {
    fs::rename(source, target, error);
    if (error) {
      fail_to_write(to, "rename onto it", error.message());
    }
  };
  if (!fs::exists(to, error)) {
    move(from, to);
  } else if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) {
    move(from, aside);
  } else {
    move(to, aside);
    move(from, to);
  }
  sync_directory(to.parent_path());
  fs::remove_all(aside, error);
}

}  // namespace ptdp
