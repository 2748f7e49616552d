// Tests outputs that would replace an input or could not be written, before any work is done.
#include "tools/shared/output_files.h"

#include <gtest/gtest.h>

#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

/// Returns the message that checking the files throws; "" if it does not throw.
std::string complaint_about(const std::vector<NamedFile>& inputs,
                            const std::vector<NamedFile>& outputs) {
  try {
    check_output_files(inputs, outputs);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(OutputFiles, MayBeNewOrReplaceAFileThatIsNoInput) {
  const TemporaryDirectory directory;
  const fs::path input = directory.file("input", "");
  const fs::path other = directory.file("other", "");
  EXPECT_EQ(complaint_about({{"--in", input}}, {{"--out", other}}), "");
  EXPECT_EQ(complaint_about({{"--in", input}}, {{"--out", directory.path() / "new"}}), "");
  EXPECT_EQ(complaint_about({{"--in", directory.path() / "nowhere"}},
                            {{"--out", directory.path() / "new"}}),
            "");
  EXPECT_EQ(complaint_about({{"--in", input}}, {}), "");
}

// By whichever name: a link, or a path that goes in and out of a directory.
TEST(OutputFiles, AreNoInputByAnyName) {
  const TemporaryDirectory directory;
  const fs::path first = directory.file("first", "");
  const fs::path second = directory.file("second", "");
  fs::create_directory(directory.path() / "below");
  fs::create_symlink(second, directory.path() / "link");
  for (const fs::path& name :
       {second, directory.path() / "link", directory.path() / "below" / ".." / "second"}) {
    EXPECT_EQ(complaint_about({{"--first", first}, {"--second", second}}, {{"--out", name}}),
              "--out: expected another file than --second, got \"" + name.string() + '"');
  }
  // Outputs may not replace one another either, even if they do not exist yet.
  const fs::path made = directory.path() / "made";
  const fs::path again = directory.path() / "below" / ".." / "made";
  EXPECT_EQ(complaint_about(
                {}, {{"--out", made}, {"--trace", directory.path() / "x"}, {"--more", again}}),
            "--more: expected another file than --out, got \"" + again.string() + '"');
}

TEST(OutputFiles, NeedANameAPlaceAndARegularFile) {
  const TemporaryDirectory directory;
  const std::string place = directory.path().string();
  EXPECT_EQ(complaint_about({}, {{"--out", ""}}), "--out: expected the name of a file, got \"\"");
  EXPECT_EQ(complaint_about({}, {{"--out", directory.path()}}),
            "--out: \"" + place + "\" is no regular file");
  EXPECT_EQ(complaint_about({}, {{"--out", "/dev/null"}}),
            "--out: \"/dev/null\" is no regular file");
  const std::string file = (directory.path() / "no" / "x").string();
  EXPECT_EQ(complaint_about({}, {{"--out", file}}),
            "--out: no directory \"" + fs::weakly_canonical(directory.path() / "no").string() +
                "\" for \"" + file + '"');
}

}  // namespace
}  // namespace ptdp
