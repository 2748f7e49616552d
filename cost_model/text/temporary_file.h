// Files beside those that they are to replace, which no end of a process leaves for good.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace ptdp {

/// A new file with a hidden name, removed unless it is renamed. Its lock tells other processes that
/// its writer lives.
class TemporaryFile {
 public:
  /// Creates a file of mode 0600; where that fails, descriptor() is −1 and errno says why. Removes
  /// what killed writers left in the directory.
  explicit TemporaryFile(const std::filesystem::path& directory);
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  TemporaryFile(TemporaryFile&&) = delete;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();

  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// Returns whether it became `target`; else errno says why.
  [[nodiscard]] bool rename_onto(const std::filesystem::path& target);

 private:
  std::string path_;   ///< Empty once renamed.
  std::size_t place_;  ///< Among the names that a signal removes.
  int descriptor_ = -1;
};

/// Removes all temporary files of this process; a handler of signals may call it.
void remove_temporary_files() noexcept;

}  // namespace ptdp
