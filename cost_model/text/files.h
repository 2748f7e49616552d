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

/// Largest file that a reader accepts unless it says otherwise. The largest plan (4096 stages) is
/// below 2 MiB; a file beyond this is not one of ours.
inline constexpr std::size_t kLargestInputFile = std::size_t{8} * 1024 * 1024;

/// Throws Error, bad input: "path: why".
[[noreturn]] void fail_to_read(const std::filesystem::path& path, const std::string& why);

/// Throws Error(kOutputFailed): "path: cannot step: cause".
[[noreturn]] void fail_to_write(const std::filesystem::path& path, const char* step,
                                const std::string& cause);

/// A file that is open for reading, with its size at that moment [B].
struct RegularFile {
  Descriptor descriptor;
  std::int64_t size = 0;
};
/// Throws Error where `path` is missing, unreadable, a directory, a pipe or a device; never blocks
/// on one.
[[nodiscard]] RegularFile open_regular_file(const std::filesystem::path& path);

/// The whole of a regular file. Throws Error as above, and where it is larger than `limit` bytes.
[[nodiscard]] std::string read_file(const std::filesystem::path& path,
                                    std::size_t limit = kLargestInputFile);

/// Replaces `path` by `content`: written beside it, synced, renamed, so that a reader sees the old
/// or the new file and never a part. Keeps the mode of an existing file and follows links. Throws
/// Error(kOutputFailed), leaving the old file as it was; also where `path` is a directory, a pipe
/// or a device.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

/// Puts the directory's entries on the disk, where the file system can.
void sync_directory(const std::filesystem::path& path) noexcept;

/// New content of a file, made piece by piece beside it until it is renamed onto it, as above;
/// removed if it never is. All throw Error(kOutputFailed).
class StagedFile {
 public:
  explicit StagedFile(const std::filesystem::path& path);

  void append(std::string_view content);
  /// After the last piece: syncs.
  void seal();
  void rename_onto_target();

 private:
  std::filesystem::path path_;    ///< As given, for messages.
  std::filesystem::path target_;  ///< What it names.
  std::optional<TemporaryFile> temporary_;
};

/// A file and what it is to hold.
struct FileContent {
  std::filesystem::path path;
  std::string content;
};

/// The same for several: none is replaced before all are written and synced beside their places.
void write_files_atomically(std::span<const FileContent> files);

}  // namespace ptdp
