// Tests of paths that cannot be read as a file: missing, empty, a directory, a pipe, or far too
// large. Every way in which a file gets into a command is tried.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kHugeFile = std::int64_t{1} << 30;
constexpr std::int64_t kMebi = std::int64_t{1} << 20;

/// Expects a refusal by a command that does not run away. Memory may reach twice the largest size
/// that any reader takes, 64 MiB.
testing::AssertionResult is_refused_cheaply(const ProgramRun& run,
                                            const std::vector<std::string>& mentions) {
  if (run.cpu_seconds > kRunawaySeconds) {
    return testing::AssertionFailure() << run.command << " took " << run.cpu_seconds << " s";
  }
  if (!kIsSanitized && run.peak_memory > std::int64_t{128} * kMebi) {
    return testing::AssertionFailure() << run.command << " held " << run.peak_memory << " bytes";
  }
  return is_refused(run, mentions);
}

fs::path sparse_file(const TemporaryDirectory& directory, std::string_view beginning,
                     std::int64_t size) {
  fs::path path = directory.file("large.json", beginning);
  fs::resize_file(path, static_cast<std::uintmax_t>(size));
  return path;
}

/// Returns {"aaaa":0,"aaab":0,...}: an object of `count` different keys with four or more letters.
std::string object_of_keys(int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) {
    std::string key = "aaaa";
    for (int place = 0, rest = i; rest > 0; ++place, rest /= 26) {
      const auto letter = static_cast<char>('a' + rest % 26);
      if (place < 4) {
        key[static_cast<std::size_t>(place)] = letter;
      } else {
        key += letter;
      }
    }
    text += (i == 0 ? "\"" : ",\"") + key + "\":0";
  }
  return text + "}";
}

TEST(InputFile, ThatIsMissingIsRefusedNamingThePath) {
  for (const FileReader& reader : file_readers()) {
    EXPECT_TRUE(is_refused(run_reader(reader, "/nowhere/x.json"), {"/nowhere/x.json"}))
        << reader.what;
  }
}

TEST(InputFile, ThatIsEmptyOrBlankIsRefusedNamingThePath) {
  const TemporaryDirectory directory;
  for (const char* content : {"", " ", "\n", " \t\r\n \n", "\xEF\xBB\xBF", "\xEF\xBB\xBF\n"}) {
    const fs::path file = directory.file("blank.json", content);
    for (const FileReader& reader : file_readers()) {
      EXPECT_TRUE(is_refused(run_reader(reader, file), {"blank.json"}))
          << reader.what << " " << testing::PrintToString(std::string(content));
    }
  }
}

TEST(InputFile, ThatIsADirectoryIsRefusedSayingSo) {
  const TemporaryDirectory directory;
  fs::create_directory(directory.path() / "folder.json");
  for (const FileReader& reader : file_readers()) {
    const ProgramRun run = run_reader(reader, directory.path() / "folder.json");
    EXPECT_TRUE(is_refused(run, {"folder.json", "directory"})) << reader.what;
  }
}

TEST(InputFile, ThatIsAPipeIsRefusedAtOnce) {
  const TemporaryDirectory directory;
  const fs::path pipe = directory.path() / "pipe.json";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const FileReader& reader : file_readers()) {
    EXPECT_TRUE(is_refused(run_reader(reader, pipe), {"pipe.json"})) << reader.what;
  }
}

TEST(InputFile, ThatIsADeviceIsRefused) {
  for (const FileReader& reader : file_readers()) {
    for (const char* device : {"/dev/zero", "/dev/null", "/dev/stdin"}) {
      EXPECT_TRUE(is_refused(run_reader(reader, device), {device})) << reader.what;
    }
  }
}

TEST(InputFile, ThatMayNotBeReadIsRefused) {
  if (::geteuid() == 0) {
    GTEST_SKIP() << "root reads everything";
  }
  const TemporaryDirectory directory;
  const fs::path file = directory.file("secret.json", tiny_model());
  fs::permissions(file, fs::perms::none);
  for (const FileReader& reader : file_readers()) {
    EXPECT_TRUE(is_refused(run_reader(reader, file), {"secret.json"})) << reader.what;
  }
}

TEST(InputFile, BelowAPathThatIsNoDirectoryIsRefused) {
  const TemporaryDirectory directory;
  const fs::path file = directory.file("file", "") / "below.json";
  for (const FileReader& reader : file_readers()) {
    EXPECT_TRUE(is_refused(run_reader(reader, file), {"below.json"})) << reader.what;
  }
}

TEST(InputFile, ThatIsALinkToItselfIsRefused) {
  const TemporaryDirectory directory;
  const fs::path link = directory.path() / "loop.json";
  fs::create_symlink(link, link);
  for (const FileReader& reader : file_readers()) {
    EXPECT_TRUE(is_refused(run_reader(reader, link), {"loop.json"})) << reader.what;
  }
}

TEST(InputFile, WithALongNameIsRefused) {
  const std::string name = "/" + std::string(5000, 'x') + ".json";
  for (const FileReader& reader : file_readers()) {
    EXPECT_TRUE(is_refused(run_reader(reader, name))) << reader.what;
  }
}

TEST(InputFile, OfOneGibibyteIsRefusedCheaply) {
  const TemporaryDirectory directory;
  // Nothing but zeros, and a string that never ends.
  for (const char* beginning : {"", R"({"schema": ")", "id,layers\n"}) {
    const fs::path file = sparse_file(directory, beginning, kHugeFile);
    for (const FileReader& reader : file_readers()) {
      EXPECT_TRUE(is_refused_cheaply(run_reader(reader, file), {"large.json", "limit"}))
          << reader.what << " " << beginning;
    }
  }
}

TEST(JsonFile, NestedAMillionDeepIsRefusedCheaply) {
  const TemporaryDirectory directory;
  constexpr int depth = 1'000'000;
  std::string objects;
  for (int i = 0; i < depth; ++i) {
    objects += "{\"a\":";
  }
  for (const std::string& text :
       {std::string(depth, '['), std::string(depth, '[') + std::string(depth, ']'), objects,
        replaced(tiny_model(), "4,", std::string(depth, '[') + std::string(depth, ']') + ",")}) {
    const fs::path file = directory.file("deep.json", text);
    for (const FileReader& reader : file_readers()) {
      EXPECT_TRUE(is_refused_cheaply(run_reader(reader, file), {"deep.json"})) << reader.what;
    }
  }
}

TEST(JsonFile, OfManyKeysIsRefusedCheaply) {
  const TemporaryDirectory directory;
  for (const int count : {900'000, 3'000'000}) {  // below and above the limit of bytes
    const fs::path file = directory.file("keys.json", object_of_keys(count));
    EXPECT_TRUE(is_refused_cheaply(run_reader(file_readers().front(), file), {"keys.json"}))
        << count;
  }
}

TEST(JsonFile, OfManyNumbersIsRefusedCheaply) {
  const TemporaryDirectory directory;
  std::string numbers = "0";
  for (int i = 1; i < 3'000'000; ++i) {
    numbers += ",0";
  }
  const std::string text = replaced(tiny_model(), "4,", "[" + numbers + "],");
  EXPECT_TRUE(is_refused_cheaply(
      run_reader(file_readers().front(), directory.file("numbers.json", text)), {"numbers.json"}));
}

TEST(JsonFile, WithAKeyOfMegabytesIsRefusedWithAShortMessage) {
  const std::string key(4 * kMebi, 'x');
  const ProgramRun run =
      run_plan_with({.model = replaced(tiny_model(), "\"num_layers\"", '"' + key + '"')});
  EXPECT_TRUE(is_refused_cheaply(run, {"model.json"}));
  EXPECT_LT(run.errors.size(), 1000U);
}

TEST(JsonFile, WithATextOfMegabytesIsRefusedWithAShortMessage) {
  const std::string text = replaced(tiny_model(), "gpt-tiny", std::string(4 * kMebi, '/'));
  const ProgramRun run = run_plan_with({.model = text});
  EXPECT_TRUE(is_refused_cheaply(run, {"model.json: name"}));
  EXPECT_LT(run.errors.size(), 1000U);
}

TEST(Profiles, ThatAreNowhereAreRefusedNamingTheVariable) {
  const TemporaryDirectory directory;
  const std::string file = directory.file("file", "").string();
  for (const std::string& place : {std::string("/nowhere"), file}) {
    const RunOptions options{.environment = {{"PTDP_PROFILES", place}}};
    EXPECT_TRUE(is_refused(run_plan({"list", "models"}, options), {"PTDP_PROFILES", place}));
    EXPECT_TRUE(is_refused(run_validate({}, options), {"PTDP_PROFILES", place}));
  }
}

TEST(Profiles, OfAnEmptyDirectoryAreRefused) {
  const TemporaryDirectory directory;
  const RunOptions options{.environment = {{"PTDP_PROFILES", directory.path().string()}}};
  EXPECT_TRUE(is_refused(run_plan({"list", "models"}, options), {directory.path().string()}));
  EXPECT_TRUE(is_refused(run_plan({"--gpus", "8", "--model", "1T"}, options)));
  EXPECT_TRUE(is_refused(run_validate({}, options), {directory.path().string()}));
}

TEST(Profiles, WithoutPublishedRunsAreRefusedWithOneLine) {
  const TemporaryDirectory directory;
  fs::copy(fs::path(PTDP_SOURCE_DIR) / "profiles", directory.path(), fs::copy_options::recursive);
  fs::remove_all(directory.path() / "published");
  const RunOptions options{.environment = {{"PTDP_PROFILES", directory.path().string()}}};
  EXPECT_TRUE(is_refused(
      run_plan({"--gpus", "8", "--model", "gpt-tiny", "--cluster", "selene-a100"}, options),
      {"published"}));
  EXPECT_TRUE(is_refused(run_validate({}, options), {"published"}));
}

}  // namespace
}  // namespace ptdp
