// What a directory of Hugging Face has beside a model, and a model that is trained from it keeps.
#pragma once

#include <filesystem>
#include <vector>

#include "cost_model/text/files.h"

namespace ptdp {

/// Returns the files of a directory that turn text into tokens and say how text is generated, by
/// their names, ascending. They are those of AutoTokenizer and generation_config.json. Files in
/// other directories below it, programs and weights are not among them. Throws Error for a file
/// that cannot be read or has more than 256 MiB.
[[nodiscard]] std::vector<FileContent> read_carried_files(const std::filesystem::path& directory);

}  // namespace ptdp
