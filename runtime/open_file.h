// A file that is open for reading at any place, by several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "cost_model/text/files.h"

namespace ptdp {

/// A regular file, open for reading; closed with the object.
class OpenFile {
 public:
  /// Throws Error where `path` is missing, unreadable, a directory, a pipe or a device; never
  /// blocks on one.
  explicit OpenFile(const std::filesystem::path& path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// When it was opened [B].
  [[nodiscard]] std::int64_t size() const { return file_.size; }
  /// Fills `bytes` with what is at `offset`. Throws Error where the file ends before, or cannot be
  /// read.
  void read(std::int64_t offset, std::span<std::byte> bytes) const;

 private:
  std::filesystem::path path_;
  RegularFile file_;
};

}  // namespace ptdp
