// A file open for reading at any offset, by several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "cost_model/text/files.h"

namespace ptdp {

/// A regular file, open for reading until the object is destroyed.
class OpenFile {
 public:
  /// Opens `path`. Throws Error when it is missing, unreadable, a directory, a pipe or a device;
  /// never blocks on a pipe or device.
  explicit OpenFile(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Returns the file's size at opening [B].
  [[nodiscard]] std::int64_t size() const { return file_.size; }
  /// Fills `bytes` with the file's content from byte `offset` on. Throws Error when the file ends
  /// too early or cannot be read.
  void read(std::int64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  RegularFile file_;
};

}  // namespace ptdp
