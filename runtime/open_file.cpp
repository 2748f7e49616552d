#include "runtime/open_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>

namespace ptdp {
namespace {

/// Returns the size of an open file [B], or `otherwise` when the system does not say.
std::int64_t size_of(const Descriptor& file, std::int64_t otherwise) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 ? status.st_size : otherwise;
}

}  // namespace

OpenFile::OpenFile(const std::filesystem::path& path)
    : path_(path), file_(open_regular_file(path)) {}

void OpenFile::read(std::int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(file_.descriptor.get(), bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      fail_to_read(path_, std::string("cannot be read: ") + std::strerror(errno));
    }
    if (count == 0) {
      const std::int64_t wanted = offset + std::ssize(bytes);
      const std::int64_t end = std::min(offset, size_of(file_.descriptor, offset));
      fail_to_read(path_, "ends at byte " + std::to_string(end) + ", expected " +
                              std::to_string(wanted - end) + " bytes more");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

}  // namespace ptdp
