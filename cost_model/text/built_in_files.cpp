#include "cost_model/text/built_in_files.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace {

/// A file of the table that tools/cmake/BuiltInFiles.cmake writes.
struct BuiltInFile {
  const char* path;
  const char* begin;
  const char* end;
};

}  // namespace

extern "C" {
extern const BuiltInFile kPtdpBuiltInFiles[];     // sorted by path
extern const std::uint64_t kPtdpNumBuiltInFiles;  // their number
}

namespace ptdp {
namespace {

std::span<const BuiltInFile> built_in_files() {
  return {kPtdpBuiltInFiles, kPtdpNumBuiltInFiles};
}

}  // namespace

std::optional<std::string_view> built_in_file(std::string_view path) {
  const auto files = built_in_files();
  const auto found = std::ranges::lower_bound(
      files, path, {}, [](const BuiltInFile& file) { return std::string_view(file.path); });
  if (found == files.end() || found->path != path) {
    return std::nullopt;
  }
  return std::string_view(found->begin, found->end);
}

std::vector<std::string> built_in_names(std::string_view folder) {
  std::vector<std::string> names;
  const std::string start = std::string(folder) + '/';
  for (const BuiltInFile& file : built_in_files()) {
    const std::string_view path = file.path;
    if (path.starts_with(start)) {
      names.emplace_back(path.substr(start.size()));
    }
  }
  return names;
}

}  // namespace ptdp
