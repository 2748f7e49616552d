// Reading and writing of whole files, safe against what users' file systems do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cost_model/text/descriptor.h"
#include "cost_model/text/temporary_file.h"

namespace ptdp {

/// Largest file that a reader accepts unless it says otherwise [B]. The largest plan (4096 stages)
/// is below 2 MiB; a file beyond this bound is not one of ours.
inline constexpr std::size_t kLargestInputFile = std::size_t{8} * 1024 * 1024;

/// Throws Error of bad input with the message "path: why".
[[noreturn]] void fail_to_read(const std::filesystem::path& path, const std::string& why);

/// Throws Error(kOutputFailed) with the message "path: cannot step: cause".
[[noreturn]] void fail_to_write(const std::filesystem::path& path, const char* step,
                                const std::string& cause);

/// A regular file that is open for reading.
struct RegularFile {
  Descriptor descriptor;
  std::int64_t size = 0;  ///< Size when the file was opened [B].
};
/// Opens a regular file for reading. Throws Error if `path` is missing, unreadable, a directory, a
/// pipe or a device; never blocks on one.
[[nodiscard]] RegularFile open_regular_file(const std::filesystem::path& path);

/// Returns the content of a regular file. Throws Error as open_regular_file() does, and for a file
/// larger than `limit` bytes.
[[nodiscard]] std::string read_file(const std::filesystem::path& path,
                                    std::size_t limit = kLargestInputFile);

/// Replaces the file `path` by `content`, which is written beside it, synced and renamed: a reader
/// sees the old or the new file and never a part. Keeps the mode of an existing file and follows
/// links. Throws Error(kOutputFailed), also if `path` is a directory, a pipe or a device, and then
/// leaves the old file as it was.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// Puts a directory's entries on the disk, if the file system can. Reports no failure.
void sync_directory(const std::filesystem::path& path) noexcept;

/// Content that will replace a file, written piece by piece into a temporary file beside it. The
/// temporary file is removed unless it is renamed onto its target. All members throw
/// Error(kOutputFailed).
class StagedFile {
 public:
  /// Creates the temporary file beside what `path` names, following links. It gets the mode of an
  /// existing file, or else the usual mode of a file that is created.
  explicit StagedFile(const std::filesystem::path& path);

  /// Writes a further piece of the content.
  void append(std::string_view content);
  /// Syncs the content to the disk, after the last piece.
  void seal();
  /// Replaces the target by the content and syncs the directory. Call seal() first.
  void rename_onto_target();

 private:
  std::filesystem::path path_;    ///< Path as given, for messages.
  std::filesystem::path target_;  ///< File that path_ names, links followed.
  std::optional<TemporaryFile> temporary_;
};

/// A file's path and the content it is to have.
struct FileContent {
  std::filesystem::path path;
  std::string content;
};

/// Replaces several files as write_file_atomically() does. None is replaced before all are written
/// and synced beside their places. Throws Error(kOutputFailed).
void write_files_atomically(std::span<const FileContent> files);

}  // namespace ptdp
