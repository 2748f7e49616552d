#include "tools/shared/output_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <system_error>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

/// Returns the absolute path without links; empty for a path that no file can have.
fs::path whole_path(const fs::path& path) {
  std::error_code error;
  return fs::weakly_canonical(fs::absolute(path, error), error);
}

/// Whether two paths name one file, or would name one if they existed.
bool are_one_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  const fs::path file = whole_path(a);
  return fs::equivalent(a, b, error) || (!file.empty() && file == whole_path(b));
}

/// Whether a path names a standard stream of this process, which /dev/stdout and /dev/fd/1 do, or
/// the file that it is sent to.
bool is_standard_stream(const fs::path& path, int stream) {
  struct stat file {};
  struct stat standard {};
  return ::stat(path.c_str(), &file) == 0 && ::fstat(stream, &standard) == 0 &&
         file.st_dev == standard.st_dev && file.st_ino == standard.st_ino &&
         (S_ISREG(file.st_mode) || path.string().starts_with("/dev/std") ||
          path.string().find("/fd/") != std::string::npos);
}

void check_place(const NamedFile& output) {
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
    if (is_standard_stream(output.path, stream)) {
      throw Error(output.name + ": " + in_quotes(output.path.string()) + " is standard " +
                      (stream == STDOUT_FILENO ? "output, where the answer goes" : "error") +
                      "; expected a file of its own",
                  ExitStatus::kOutputFailed);
    }
  }
  std::error_code error;
  const fs::path file = whole_path(output.path);
  const std::string quoted = in_quotes(output.path.string());
  if (fs::exists(file, error) && !fs::is_regular_file(file, error)) {
    throw Error(output.name + ": " + quoted + " is no regular file", ExitStatus::kOutputFailed);
  }
  if (file.has_parent_path() && !fs::is_directory(file.parent_path(), error)) {
    throw Error(
        output.name + ": no directory " + in_quotes(file.parent_path().string()) + " for " + quoted,
        ExitStatus::kOutputFailed);
  }
}

}  // namespace

std::vector<NamedFile> files_of_flags(const CommandLine& line,
                                      const std::vector<std::string>& flags) {
  std::vector<NamedFile> files;
  for (const std::string& flag : flags) {
    if (const auto path = line.text(flag)) {
      files.push_back({"--" + flag, *path});
    }
  }
  return files;
}

void refuse_overwriting(const std::vector<NamedFile>& inputs, const NamedFile& output) {
  for (const NamedFile& input : inputs) {
    if (are_one_file(output.path, input.path)) {
      throw Error(output.name + ": expected another file than " + input.name + ", got " +
                  in_quotes(output.path.string()));
    }
  }
}

void check_output_files(std::vector<NamedFile> inputs, const std::vector<NamedFile>& outputs) {
  for (const NamedFile& output : outputs) {
    if (output.path.empty() || output.path == "-") {
      throw Error(output.name + ": expected the name of a file, got " +
                  in_quotes(output.path.string()));
    }
    refuse_overwriting(inputs, output);
    check_place(output);
    inputs.push_back(output);
  }
}

}  // namespace ptdp
