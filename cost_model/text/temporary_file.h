// Temporary files beside those that they are to replace. However a process ends, none stays for
// good.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace ptdp {

/// A file with a hidden name, removed with its owner unless it is renamed. A lock on it tells other
/// processes that its writer lives.
class TemporaryFile {
 public:
  /// Creates a file of mode 0600 in `directory`, after removing what killed writers left there. On
  /// failure descriptor() is −1 and errno says why.
  explicit TemporaryFile(const std::filesystem::path& directory);
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  TemporaryFile(TemporaryFile&&) = delete;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();

  /// Returns the file's descriptor, which this object owns; −1 if the file could not be created.
  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// Renames the file to `target`, replacing what was there. Returns false on failure; errno says
  /// why.
  [[nodiscard]] bool rename_onto(const std::filesystem::path& target);

 private:
  std::string path_;   ///< Path of the file; empty once renamed, or if it was not created.
  std::size_t place_;  ///< Index among the names that remove_temporary_files() goes through.
  int descriptor_ = -1;
};

/// Removes all temporary files of this process. A signal handler may call it.
void remove_temporary_files() noexcept;

}  // namespace ptdp
