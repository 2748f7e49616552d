// A file that is open for reading at any place, by several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

namespace ptdp {

/// A regular file, open for reading; closed with the object.
class OpenFile {
 public:
  /// Throws Error where `path` is missing, unreadable, a directory, a pipe or a device; never
  /// blocks on one.
  explicit OpenFile(const std::filesystem::path& path);
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;
  ~OpenFile();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// When it was opened [B].
  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Fills `bytes` with what is at `offset`. Throws Error where the file ends before, or cannot be
  /// read.
  void read(std::int64_t offset, std::span<std::byte> bytes) const;

 private:
  void close() noexcept;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace ptdp
