// Tests of the shipped profiles, and of how a profile is found by name or path.
#include "cost_model/inputs/catalog/catalog.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <type_traits>

#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/text/files.h"
#include "cost_model/text/strict_json.h"
#include "tests/support/profiles_variable.h"
#include "tests/support/round_trip.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::EndsWith;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

/// A kind of profile with its directory under profiles/.
struct Kind {
  ProfileKind kind;
  std::string directory;
};
std::vector<Kind> kinds() {
  return {{ProfileKind::kModel, "models"},
          {ProfileKind::kCluster, "clusters"},
          {ProfileKind::kStack, "stacks"},
          {ProfileKind::kGpu, "gpus"},
          {ProfileKind::kCurve, "curves"}};
}

/// Tests of the source tree's catalog, whatever the environment says.
class ShippedProfiles : public testing::Test {
 private:
  ProfilesVariable unset_{std::nullopt};
};

constexpr const char* kModelText = R"({
  "schema": "ptdp.model/1",
  "name": "mine",
  "source": "a test",
  "num_layers": 2,
  "hidden_size": 8,
  "num_attention_heads": 2,
  "vocab_size": 16,
  "seq_length": 4,
  "global_batch_size": 6
})";

TEST_F(ShippedProfiles, ArePartOfTheProgramByteByByte) {
  EXPECT_EQ(profiles_directory(), std::nullopt);
  const fs::path source = PTDP_SOURCE_DIR "/profiles";
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    if (!entry.is_regular_file() || entry.path().filename() == "README.md") {
      continue;
    }
    const std::string path = fs::relative(entry.path(), source).string();
    const ProfileFile file = file_of_profiles(path);
    ASSERT_TRUE(file.content.has_value()) << path;
    EXPECT_EQ(file.text(), read_file(entry.path())) << path;
  }
}

// ObjectReader::from_checked_text() reads them without a check of its own.
TEST_F(ShippedProfiles, AreStrictJson) {
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(PTDP_SOURCE_DIR "/profiles")) {
    if (entry.path().extension() == ".json") {
      EXPECT_NO_THROW(check_json(read_file(entry.path()), entry.path().string()));
      ++files;
    }
  }
  EXPECT_GT(files, 100);
}

TEST_F(ShippedProfiles, AreListedFileByFile) {
  for (const Kind& kind : kinds()) {
    std::vector<std::string> names;
    for (const auto& entry :
         fs::directory_iterator(fs::path(PTDP_SOURCE_DIR "/profiles") / kind.directory)) {
      names.push_back(entry.path().stem().string());
    }
    EXPECT_THAT(list_profiles(kind.kind), testing::UnorderedElementsAreArray(names))
        << kind.directory;
    EXPECT_THAT(names, Not(IsEmpty())) << kind.directory;
  }
}

TEST_F(ShippedProfiles, AreListedByName) {
  for (const Kind& kind : kinds()) {
    const std::vector<std::string> names = list_profiles(kind.kind);
    EXPECT_TRUE(std::is_sorted(names.begin(), names.end())) << kind.directory;
  }
}

TEST_F(ShippedProfiles, AreNamedLikeTheirFiles) {
  for (const Kind& kind : kinds()) {
    for (const std::string& name : list_profiles(kind.kind)) {
      ObjectReader reader = ObjectReader::from_file(fs::path(PTDP_SOURCE_DIR "/profiles") /
                                                    kind.directory / (name + ".json"));
      std::string written;
      reader.name("name", written);
      EXPECT_EQ(written, name) << kind.directory;
    }
  }
}

TEST_F(ShippedProfiles, GoByTheNamesThatTheFieldUses) {
  EXPECT_EQ(find_gpu("A100-80GB-SXM").name, "a100-80gb-sxm");
  EXPECT_EQ(find_gpu("GB200-NVL72").name, "gb200-nvl72");
  EXPECT_EQ(find_model("GPT3-175B").name, "gpt3-175b");
  for (const char* name : {"175B", "gpt3", "GPT-3"}) {
    EXPECT_EQ(find_model(name).name, "gpt3-175b") << name;
  }
  EXPECT_EQ(find_model("Llama-3.1-70B").name, "llama-3-70b");
  EXPECT_EQ(find_model("llama-3.3-70b").name, "llama-3-70b");
  EXPECT_EQ(find_model("llama-3.1-8b").name, "llama-3-8b");
  for (const char* name : {"llama3-405b", "LLAMA_3.1_405B", "Llama3.1-405b", "llama3405b"}) {
    EXPECT_EQ(find_model(name).name, "llama-3.1-405b") << name;
  }
  EXPECT_EQ(find_cluster("dgxh100").name, "dgx-h100");
  EXPECT_THROW((void)find_model("17B"), Error) << "1.7B is another";
}

TEST_F(ShippedProfiles, AreNamedOnceByAllNames) {
  const nlohmann::json file =
      nlohmann::json::parse(read_file(PTDP_SOURCE_DIR "/profiles/aliases.json"));
  for (const Kind& kind : kinds()) {
    std::vector<std::string> names = list_profiles(kind.kind);
    const std::set<std::string> shipped(names.begin(), names.end());
    for (const auto& alias : file.value(kind.directory, nlohmann::json::array())) {
      EXPECT_TRUE(shipped.contains(alias["profile"])) << alias;
      names.push_back(alias["name"]);
    }
    std::set<std::string> seen;
    for (const std::string& name : names) {
      std::string bare;
      std::ranges::copy_if(name, std::back_inserter(bare),
                           [](char c) { return c != '-' && c != '_'; });
      std::ranges::transform(bare, bare.begin(), [](unsigned char c) { return std::tolower(c); });
      EXPECT_TRUE(seen.insert(bare).second) << name;
    }
  }
}

TEST_F(ShippedProfiles, OfModelsAreResolvedAndHaveABatch) {
  for (const std::string& name : list_profiles(ProfileKind::kModel)) {
    const ModelProfile profile = find_model(name);
    EXPECT_EQ(profile.name, name);
    EXPECT_GT(profile.global_batch_size, 0) << name;
    EXPECT_EQ(resolved(profile.config, name), profile.config) << name;
  }
}

// The released weights (model cards); DeepSeek-V3's README_WEIGHTS: 671.0 B without the module that
// predicts one more token.
TEST_F(ShippedProfiles, OfModelsWithExpertsHaveTheParametersThatWereReleased) {
  for (const auto& [name, parameters] :
       {std::pair("mixtral-8x7b", 46'702'792'704), std::pair("mixtral-8x22b", 140'620'634'112),
        std::pair("qwen3-30b-a3b", 30'532'122'624), std::pair("qwen3-235b-a22b", 235'093'634'560),
        std::pair("deepseek-v3", 671'026'419'200), std::pair("kimi-k2", 1'026'408'232'448),
        std::pair("gpt-oss-120b", 116'829'156'672), std::pair("gpt-oss-20b", 20'914'757'184)}) {
    EXPECT_EQ(parameter_count(find_model(name).config), parameters) << name;
  }
  EXPECT_EQ(find_model("deepseek-v3").config.mtp_num_layers, 1);
}

// Counted by hand from the papers' shapes: a layer has 12 h² + 13 h, the last norm 2 h. BLOOM's
// model card has 176,247,271,424; the 28,672 fewer are the norm of its embedding. OPT's table has 2
// positions more than its sequences are long. Megatron-LM's README says 462 B.
TEST_F(ShippedProfiles, OfDenseModelsHaveTheParametersOfTheirPapers) {
  struct Row {
    const char* name;
    std::int64_t layers;
    std::int64_t width;
    std::int64_t rows;  // of tables of tokens and positions
    double published;   // [10⁹]
    double tolerance;   // of its digits
  };
  for (const Row& row : {Row{"bloom-176b", 70, 14336, 250880, 176.247271424, 3e-5},
                         Row{"opt-175b", 96, 12288, 50272 + 2048, 175.0, 0.5},
                         Row{"jurassic-1-178b", 76, 13824, 256000 + 2048, 178.0, 0.5},
                         Row{"megatron-core-462b", 112, 18432, 2 * 131072 + 4096, 462.0, 0.5},
                         Row{"gpt3-175b", 96, 12288, 51200 + 2048, 175.0, 0.5}}) {
    const std::int64_t by_hand = row.layers * (12 * row.width * row.width + 13 * row.width) +
                                 row.rows * row.width + 2 * row.width;
    const std::int64_t counted = parameter_count(find_model(row.name).config);
    EXPECT_EQ(counted, by_hand) << row.name;
    EXPECT_NEAR(static_cast<double>(counted) / 1e9, row.published, row.tolerance) << row.name;
  }
}

// By hand: a layer has 13 h² and biases, norms and vectors of 10 h, the model one table and one
// norm.
TEST_F(ShippedProfiles, OfGopherAndChinchillaHaveAMatrixOfPositionsInEachLayer) {
  for (const auto& [name, width, published] :
       {std::tuple("gopher-280b", 16384L, 280.0), std::tuple("chinchilla-70b", 8192L, 70.0)}) {
    const std::int64_t counted = parameter_count(find_model(name).config);
    EXPECT_EQ(counted, 80 * (13 * width * width + 10 * width) + 32001 * width) << name;
    EXPECT_NEAR(static_cast<double>(counted) / 1e9, published, 0.5) << name;
  }
  EXPECT_EQ(find_model("gopher").global_batch_size * 2048, 6 << 20);
  EXPECT_EQ(find_model("chinchilla").global_batch_size * 2048, 3 << 20);
}

// arXiv:2508.10925, table 1 [10⁹ parameters]: total 116.83 and 20.91, of which 114.71 and 19.12 are
// the MLP's (experts and router), 0.96 and 0.64 attention's, 1.16 and 1.16 the embeddings'; active
// 5.13 and 3.61, for which the report leaves out the embedding, 0.58.
TEST_F(ShippedProfiles, OfGptOssHaveTheParametersOfTheReport) {
  struct Row {
    std::string name;
    double total;
    double mlp;
    double attention;
    double active;
  };
  for (const Row& row : std::vector<Row>{{"gpt-oss-120b", 116.83, 114.71, 0.96, 5.13},
                                         {"gpt-oss-20b", 20.91, 19.12, 0.64, 3.61}}) {
    const TransformerConfig model = find_model(row.name).config;
    const LayerParameters layer = layer_parameters(model, true);
    const double norms = 2.0 * model.hidden_size;
    const double router = model.num_experts * (model.hidden_size + 1.0);
    const double ends = 1.0 * model.vocab_size * model.hidden_size;
    const double layers = model.num_layers;
    const auto billions = [](auto count) { return static_cast<double>(count) / 1e9; };
    EXPECT_NEAR(billions(parameter_count(model)), row.total, 0.005) << row.name;
    EXPECT_NEAR(billions(layers * (static_cast<double>(layer.experts) + router)), row.mlp, 0.005);
    EXPECT_NEAR(
        billions(layers * (static_cast<double>(layer.split + layer.replicated) - router - norms)),
        row.attention, 0.005)
        << row.name;
    EXPECT_NEAR(billions(static_cast<double>(active_parameter_count(model)) - ends), row.active,
                0.005)
        << row.name;
  }
}

TEST_F(ShippedProfiles, OfClustersNameAStackThatIsThere) {
  for (const std::string& name : list_profiles(ProfileKind::kCluster)) {
    const std::string stack = find_cluster(name).default_stack;
    EXPECT_EQ(find_stack(stack).name, stack) << name;
  }
}

/// Calls `check` with every shipped value that has describe() and the name of its profile.
template <class Check>
void for_every_profile(const Check& check) {
  for (const std::string& name : list_profiles(ProfileKind::kModel)) {
    check(find_model(name).config, name);
  }
  for (const std::string& name : list_profiles(ProfileKind::kCluster)) {
    check(find_cluster(name), name);
  }
  for (const std::string& name : list_profiles(ProfileKind::kStack)) {
    check(find_stack(name), name);
  }
  for (const std::string& name : list_profiles(ProfileKind::kGpu)) {
    check(find_gpu(name), name);
  }
  for (const std::string& name : list_profiles(ProfileKind::kCurve)) {
    for (const AllReduceCurve& curve : find_all_reduce_curves(name)) {
      check(curve, name);
    }
  }
}

TEST_F(ShippedProfiles, ReadBackAsTheyWere) {
  for_every_profile([](const auto& value, const std::string& name) {
    using Value = std::remove_cvref_t<decltype(value)>;
    EXPECT_EQ(parse<Value>(dump(value)), value) << name;
  });
}

TEST_F(ShippedProfiles, AreWrittenAgainAsTheSameBytes) {
  for_every_profile([](const auto& value, const std::string& name) {
    using Value = std::remove_cvref_t<decltype(value)>;
    const std::string once = dump(value);
    EXPECT_EQ(dump(parse<Value>(once)), once) << name;
  });
}

// SC21 (arXiv:2104.04473), table 1, last row.
TEST_F(ShippedProfiles, HoldThePublishedTrillion) {
  const ModelProfile model = find_model("1T");
  EXPECT_EQ(model.config.num_layers, 128);
  EXPECT_EQ(model.config.hidden_size, 25600);
  EXPECT_EQ(model.config.num_attention_heads, 160);
  EXPECT_EQ(model.global_batch_size, 3072);
}

TEST(Catalog, ReadsTheDirectoryOfTheEnvironment) {
  const TemporaryDirectory directory;
  (void)directory.file("models/mine.json", kModelText);
  (void)directory.file("models/notes.txt", "no profile");
  const ProfilesVariable variable(directory.path().string());
  EXPECT_EQ(profiles_directory(), directory.path());
  EXPECT_THAT(list_profiles(ProfileKind::kModel), ElementsAre("mine"));
  EXPECT_EQ(find_model("mine").global_batch_size, 6);
}

TEST(Catalog, DoesNotFallBackFromTheDirectoryOfTheEnvironment) {
  const TemporaryDirectory directory;
  (void)directory.file("models/mine.json", kModelText);
  const ProfilesVariable variable(directory.path().string());
  EXPECT_THAT(message_of([] { return find_model("1T"); }), StartsWith("unknown model \"1T\""));
  EXPECT_EQ(message_of([] { return list_profiles(ProfileKind::kStack); }),
            (directory.path() / "stacks").string() + ": expected a directory of profiles");
}

// Profiles of $PTDP_PROFILES may change between two plans of one process; shipped ones are read
// once.
TEST(Catalog, ReadsAgainWhatLiesInTheDirectoryOfTheEnvironment) {
  const StackSpec shipped = find_stack("megatron-lm-2021");
  const auto with_overhead = [&](double microseconds) {
    StackSpec stack = shipped;
    stack.microbatch_overhead = Seconds(1e-6 * microseconds);
    ObjectWriter json;
    json.schema(schema_of(ProfileKind::kStack));
    describe(json, stack);
    return json.dump();
  };
  const TemporaryDirectory directory;
  const ProfilesVariable variable(directory.path().string());
  for (const double microseconds : {123.0, 456.0}) {
    (void)directory.file("stacks/megatron-lm-2021.json", with_overhead(microseconds));
    EXPECT_DOUBLE_EQ(find_stack("megatron-lm-2021").microbatch_overhead.value(),
                     1e-6 * microseconds);
  }
}

// A link without an end is there, and cannot be read: it is not suggested in its own place.
TEST(Catalog, SaysOfALinkWithoutAnEndThatItCannotBeRead) {
  const TemporaryDirectory directory;
  (void)directory.file("models/mine.json", kModelText);
  std::filesystem::create_symlink("nowhere.json", directory.path() / "models/lost.json");
  const ProfilesVariable variable(directory.path().string());
  EXPECT_TRUE(has_profile(ProfileKind::kModel, "lost"));
  EXPECT_FALSE(has_profile(ProfileKind::kModel, ""));
  EXPECT_THAT(message_of([] { return find_model("lost"); }),
              StartsWith((directory.path() / "models/lost.json").string()));
}

TEST(Catalog, FollowsAnAliasToAProfileAndNoFurther) {
  const TemporaryDirectory directory;
  (void)directory.file("models/mine.json", kModelText);
  (void)directory.file("aliases.json",
                       R"({"schema": "ptdp.aliases/1", "models": [
                           {"name": "ours", "profile": "mine"},
                           {"name": "a", "profile": "b"}, {"name": "b", "profile": "a"}]})");
  const ProfilesVariable variable(directory.path().string());
  EXPECT_EQ(find_model("ours").global_batch_size, 6);
  EXPECT_THAT(message_of([] { return find_model("a"); }), StartsWith("unknown model \"b\""));
  (void)directory.file("aliases.json", R"({"schema": "ptdp.aliases/1", "model": []})");
  EXPECT_THAT(message_of([] { return find_model("ours"); }), testing::HasSubstr("unknown key"));
}

TEST(Catalog, TakesNamesInAnyCaseOfLetters) {
  const TemporaryDirectory directory;
  (void)directory.file("models/Mine.json", kModelText);
  (void)directory.file("models/mine.json",
                       replaced(kModelText, "\"num_layers\": 2", "\"num_layers\": 3"));
  (void)directory.file("aliases.json", R"({"schema": "ptdp.aliases/1",
                                           "models": [{"name": "Ours", "profile": "Mine"}]})");
  const ProfilesVariable variable(directory.path().string());
  EXPECT_EQ(find_model("Mine").config.num_layers, 2);
  EXPECT_EQ(find_model("mine").config.num_layers, 3);
  EXPECT_EQ(find_model("OURS").config.num_layers, 2);
  EXPECT_EQ(find_model("MINE").config.num_layers, 2) << "the first of the list";
}

TEST(Catalog, RefusesAnEnvironmentThatNamesNoDirectory) {
  for (const std::string value : {"/missing", "/dev/null"}) {
    const ProfilesVariable variable(value);
    EXPECT_EQ(message_of([] { return profiles_directory(); }),
              "PTDP_PROFILES: expected a directory, got \"" + value + '"');
  }
}

TEST(Catalog, TakesAnEmptyVariableForOneThatIsNotSet) {
  const ProfilesVariable variable("");
  EXPECT_EQ(profiles_directory(), std::nullopt);
  EXPECT_EQ(find_model("1T").config.num_layers, 128);  // SC21, table 1
}

TEST(Catalog, SuggestsTheNameThatWasMeant) {
  const TemporaryDirectory directory;
  for (const std::string path : {"models/1T.json", "clusters/selene.json", "stacks/lm-2021.json",
                                 "gpus/a100.json", "curves/nvswitch.json"}) {
    (void)directory.file(path, "{}");
  }
  const ProfilesVariable variable(directory.path().string());
  EXPECT_EQ(message_of([] { return find_model("2T"); }),
            "unknown model \"2T\"; did you mean \"1T\"? (`ptdp-plan list models` shows all; a path "
            "to a .json file works too)");
  EXPECT_EQ(message_of([] { return find_cluster("Selena"); }),
            "unknown cluster \"Selena\"; did you mean \"selene\"? (`ptdp-plan list clusters` shows "
            "all; a path to a .json file works too)");
  EXPECT_EQ(message_of([] { return find_stack("megatron"); }),
            "unknown stack \"megatron\" (`ptdp-plan list stacks` shows all; a path to a .json file "
            "works too)");
  EXPECT_EQ(message_of([] { return find_gpu("b100"); }),
            "unknown GPU \"b100\"; did you mean \"a100\"? (`ptdp-plan list gpus` shows all; a "
            "path to a .json file works too)");
  EXPECT_EQ(message_of([] { return find_all_reduce_curves("nvlink"); }),
            "unknown curve \"nvlink\" (profiles/curves holds all)");
}

TEST(Catalog, ReadsAPath) {
  const TemporaryDirectory directory;
  EXPECT_EQ(find_model(directory.file("other.json", kModelText).string()).name, "mine");
  EXPECT_EQ(find_model(directory.file("other", kModelText).string()).name, "mine");
}

TEST(Catalog, TakesANameThatEndsInJsonForAPath) {
  EXPECT_EQ(message_of([] { return find_model("missing.json"); }),
            "missing.json: cannot be read: No such file or directory");
}

TEST(Catalog, RefusesAProfileOfAnotherKind) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("mine.json", kModelText).string();
  EXPECT_EQ(message_of([&] { return find_cluster(path); }),
            path + ": schema: expected \"ptdp.cluster/1\", got \"ptdp.model/1\"");
}

TEST(Catalog, RefusesAnotherVersion) {
  const TemporaryDirectory directory;
  const std::string path =
      directory.file("x.json", replaced(kModelText, "model/1", "model/2")).string();
  EXPECT_EQ(message_of([&] { return find_model(path); }),
            path + ": schema: expected \"ptdp.model/1\", got \"ptdp.model/2\"");
}

TEST(Catalog, NamesTheFileAndTheKeyThatItRefuses) {
  struct Row {
    std::string from;
    std::string to;
    std::string message;
  };
  const TemporaryDirectory directory;
  for (const Row& row : std::vector<Row>{
           {R"("schema": "ptdp.model/1",)", "", ": schema: missing"},
           {R"("source": "a test",)", "", ": source: missing"},
           {R"("global_batch_size": 6)", R"("global_batch_size": 0)",
            ": global_batch_size: expected a whole number from 1 to 1000000000, got 0"},
           {R"("num_layers": 2)", R"("num_layer": 2)", ": num_layers: missing"},
           {R"("num_layers": 2)", R"("num_layers": 2, "layers": 2)", ": \"layers\": unknown key"},
           {R"("num_attention_heads": 2)", R"("num_attention_heads": 3)",
            ": mine: num_attention_heads 3 does not divide hidden_size 8; give kv_channels if that "
            "is meant"}}) {
    const std::string path =
        directory.file("x.json", replaced(kModelText, row.from, row.to)).string();
    EXPECT_THAT(message_of([&] { return find_model(path); }), StartsWith(path + row.message));
  }
}

// 12·10^5·(2·10^6)²: the size is refused where it is read, not where it overflows.
TEST(Catalog, RefusesAModelThatCannotBeCounted) {
  const TemporaryDirectory directory;
  std::string text = replaced(kModelText, "\"num_layers\": 2", "\"num_layers\": 100000");
  text = replaced(text, "\"hidden_size\": 8", "\"hidden_size\": 2000000");
  const std::string path = directory.file("x.json", text).string();
  EXPECT_THAT(message_of([&] { return find_model(path); }),
              EndsWith("the model has more than 1e18 parameters"));
}

}  // namespace
}  // namespace ptdp
