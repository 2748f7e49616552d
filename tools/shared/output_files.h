// What a command writes must not be what it reads.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/shared/command_line.h"

namespace ptdp {

/// A file that a command reads or writes, and what a message calls it: "the plan", "--trace".
struct NamedFile {
  std::string name;
  std::filesystem::path path;
};

/// The files that these flags name, of those that are there.
[[nodiscard]] std::vector<NamedFile> files_of_flags(const CommandLine& line,
                                                    const std::vector<std::string>& flags);

/// Throws Error for an output that is an input, by whatever name or link.
void refuse_overwriting(const std::vector<NamedFile>& inputs, const NamedFile& output);

/// Throws Error for an output that is an input or another output, and Error(kOutputFailed) for one
/// that could not be written.
void check_output_files(std::vector<NamedFile> inputs, const std::vector<NamedFile>& outputs);

}  // namespace ptdp
