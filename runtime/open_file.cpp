#include "runtime/open_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace ptdp {

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
      fail_to_read(path_, "ends at byte " + std::to_string(offset) + ", expected " +
                              std::to_string(bytes.size()) + " bytes more");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

}  // namespace ptdp
