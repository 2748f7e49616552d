// Files that are part of the program: those of profiles/, as they were when it was built.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// Returns the content of a file that is part of the program, by its path below profiles/:
/// "clusters/dgx-h100.json". Returns nullopt where there is none.
[[nodiscard]] std::optional<std::string_view> built_in_file(std::string_view path);

/// Returns the names of the files of a folder below profiles/ that are part of the program, sorted.
[[nodiscard]] std::vector<std::string> built_in_names(std::string_view folder);

}  // namespace ptdp
