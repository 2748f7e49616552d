// Checks that a command does not overwrite what it reads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/shared/command_line.h"

namespace ptdp {

/// A file that a command reads or writes, with its name in messages: "the plan", "--trace".
struct NamedFile {
  std::string name;
  std::filesystem::path path;
};

/// Returns the files that those of `flags` name which are on the command line.
[[nodiscard]] std::vector<NamedFile> files_of_flags(const CommandLine& line,
                                                    const std::vector<std::string>& flags);

/// Throws Error when the output is also an input, by whatever name or link.
void refuse_overwriting(const std::vector<NamedFile>& inputs, const NamedFile& output);

/// Throws Error for an output that is also an input or another output. Throws Error(kOutputFailed)
/// for an output that cannot be written.
void check_output_files(std::vector<NamedFile> inputs, const std::vector<NamedFile>& outputs);

}  // namespace ptdp
