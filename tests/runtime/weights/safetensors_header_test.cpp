// Tests of headers: what the reference reads is read, and every fault is refused in one line.
#include "runtime/weights/safetensors_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/weights/safetensors_file.h"
#include "tests/runtime/weights/hand_made.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

/// Returns a header of tensor "a" with these fields.
std::string tensor_a(const std::string& type, const std::string& shape,
                     const std::string& offsets) {
  return R"({"a":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

std::string two_tensors(const std::string& offsets_a, const std::string& offsets_b) {
  return R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + offsets_a +
         R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + offsets_b + "}}";
}

/// A file that must be refused, and what must be said of it after its name.
struct Damaged {
  std::string bytes;
  std::string message;
};

/// Returns a damaged file with `num_bytes` bytes of data behind the header.
Damaged damaged(const std::string& header, std::size_t num_bytes, const std::string& message) {
  return {safetensors_bytes(header, std::string(num_bytes, '\1')), message};
}

void expect_refused(const std::vector<Damaged>& files) {
  const TemporaryDirectory directory;
  const auto path = directory.path() / "x.safetensors";
  for (const Damaged& file : files) {
    (void)directory.file("x.safetensors", file.bytes);
    const std::string message = message_of([&] { return SafetensorsFile(path).header(); });
    EXPECT_EQ(message, path.string() + file.message);
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

const std::string kGood = tensor_a("F32", "[2]", "[0,8]");

TEST(SafetensorsHeader, ReadsTensorsAndMetadata) {
  const SafetensorsHeader header = parse_safetensors_header(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},)"
      R"("a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}} )",
      16, "x");
  EXPECT_THAT(header.metadata, ElementsAre(Pair("format", "pt")));
  ASSERT_EQ(header.tensors.size(), 2);
  EXPECT_EQ(header.tensors.at("b").type, "BF16");
  EXPECT_THAT(header.tensors.at("b").shape, ElementsAre(2, 3));
  EXPECT_EQ(header.tensors.at("b").begin, 4);
  EXPECT_EQ(header.tensors.at("b").end, 16);
  EXPECT_TRUE(header.tensors.at("a").shape.empty());
}

// safetensors 0.8.0 opens each of these; empty tensors may lie between others, not inside one.
TEST(SafetensorsHeader, ReadsWhatTheReferenceReads) {
  EXPECT_TRUE(parse_safetensors_header("{}", 0, "x").tensors.empty());
  EXPECT_TRUE(parse_safetensors_header("{}      ", 0, "x").tensors.empty());
  EXPECT_EQ(parse_safetensors_header(kGood + "\n\t ", 8, "x").tensors.size(), 1);
  EXPECT_EQ(parse_safetensors_header(tensor_a("F32", "[0,5]", "[0,0]"), 0, "x").tensors.size(), 1);
  EXPECT_EQ(parse_safetensors_header(tensor_a("F4", "[4]", "[0,2]"), 2, "x").tensors.size(), 1);
  EXPECT_EQ(parse_safetensors_header(R"({"a":{"dtype":"F32","shape":[0,5],"data_offsets":[4,4]},)"
                                     R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                     4, "x")
                .tensors.size(),
            2);
  EXPECT_EQ(parse_safetensors_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                     R"("b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
                                     5, "x")
                .tensors.size(),
            2);
}

// Bytes of eight elements of each type, as safetensors 0.8.0 demands them.
TEST(SafetensorsHeader, KnowsEveryTypeOfTheReference) {
  struct Row {
    const char* type;
    std::int64_t bytes;
  };
  for (const Row& row :
       {Row{"BOOL", 8},     {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
        {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
        {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
        {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
        {"I64", 64},        {"U64", 64}}) {
    const std::string header = tensor_a(row.type, "[2,4]", "[0," + std::to_string(row.bytes) + "]");
    EXPECT_EQ(parse_safetensors_header(header, row.bytes, "x").tensors.size(), 1) << row.type;
  }
}

TEST(DamagedSafetensors, AreRefusedWhenTheLengthOfTheHeaderCannotBe) {
  const std::string whole = safetensors_bytes(kGood, std::string(8, '\1'));
  const auto with_length = [](std::uint64_t length, std::size_t behind) {
    std::string bytes;
    for (std::size_t i = 0; i < 8; ++i, length >>= 8U) {
      bytes += static_cast<char>(length & 0xFFU);
    }
    return bytes + std::string(behind, ' ');
  };
  expect_refused({
      {"", ": 0 bytes, expected the length of a header in the first 8"},
      {whole.substr(0, 7), ": 7 bytes, expected the length of a header in the first 8"},
      {whole.substr(0, 8), ": header of 54 bytes, expected at most 0 in a file of 8"},
      {whole.substr(0, 58), ": header of 54 bytes, expected at most 50 in a file of 58"},
      {with_length(~std::uint64_t{0}, 4),
       ": header of 18446744073709551615 bytes, expected at most 4 in a file of 12"},
      {with_length(std::uint64_t{1} << 63U, 4),
       ": header of 9223372036854775808 bytes, expected at most 4 in a file of 12"},
      {with_length(0, 0), R"(: header: expected a JSON object that begins with "{", got "")"},
      {with_length(0, 8), R"(: header: expected a JSON object that begins with "{", got "")"},
  });
}

// The largest header is one of 100,000,000 bytes, also in a file that has room for more: holes cost
// the test nothing.
TEST(DamagedSafetensors, AreRefusedWhenTheHeaderIsLargerThanTheReferenceReads) {
  const TemporaryDirectory directory;
  const auto path = directory.file("x.safetensors", std::string("\x01\xE1\xF5\x05\0\0\0\0", 8));
  std::filesystem::resize_file(path, 200'000'000);
  EXPECT_EQ(message_of([&] { return SafetensorsFile(path).header(); }),
            path.string() +
                ": header of 100000001 bytes, expected at most 100000000 in a file of 200000000");
}

TEST(DamagedSafetensors, AreRefusedWhenTheHeaderIsNoStrictJson) {
  expect_refused({
      damaged("[]", 0, R"(: header: expected a JSON object that begins with "{", got "[]")"),
      damaged(" " + kGood, 8,
              R"(: header: expected a JSON object that begins with "{", got " )" + kGood + "\""),
  });
}

TEST(DamagedSafetensors, AreRefusedWhenTheDataAreCutOrTooLong) {
  const std::string place = ": tensor \"a\": data_offsets: ";
  expect_refused({
      damaged(kGood, 0, place + "ends at byte 8, expected at most 0, where the file ends"),
      damaged(kGood, 7, place + "ends at byte 8, expected at most 7, where the file ends"),
      damaged(kGood, 9, ": 9 bytes behind the header, expected 8, where tensor \"a\" ends"),
      damaged("{}", 1, ": 1 bytes behind the header, expected 0, where the data begin"),
  });
}

TEST(DamagedSafetensors, AreRefusedWhenTensorsLeaveGapsOrOverlap) {
  const std::string b = ": tensor \"b\": data_offsets: begins at byte ";
  expect_refused({
      damaged(tensor_a("F32", "[1]", "[4,8]"), 8,
              ": tensor \"a\": data_offsets: begins at byte 4, expected 0, where the data begin"),
      damaged(two_tensors("[0,4]", "[0,4]"), 4, b + "0, expected 4, where tensor \"a\" ends"),
      damaged(two_tensors("[0,4]", "[2,6]"), 6, b + "2, expected 4, where tensor \"a\" ends"),
      damaged(two_tensors("[0,4]", "[5,9]"), 9, b + "5, expected 4, where tensor \"a\" ends"),
      damaged(two_tensors("[0,4]", "[4,8]"), 7,
              ": tensor \"b\": data_offsets: ends at byte 8, expected at most 7, where the file "
              "ends"),
      // The reference refuses an empty tensor inside another, too.
      damaged(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[2,2]},)"
              R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
              4,
              ": tensor \"a\": data_offsets: begins at byte 2, expected 4, where tensor \"b\" "
              "ends"),
  });
}

TEST(DamagedSafetensors, AreRefusedWhenSizesAreNoSizes) {
  const std::string shape = ": tensor \"a\": shape";
  const std::string offsets = ": tensor \"a\": data_offsets";
  const std::string range = "]: expected a whole number from 0 to 9223372036854775807, got ";
  expect_refused({
      damaged(tensor_a("F32", "[-2]", "[0,8]"), 8, shape + "[0" + range + "\"-2\""),
      damaged(tensor_a("F32", "[1,2.0]", "[0,8]"), 8, shape + "[1" + range + "\"2.0\""),
      damaged(tensor_a("F32", "[\"2\"]", "[0,8]"), 8, shape + "[0" + range + R"(""2"")"),
      damaged(tensor_a("F32", "[null]", "[0,8]"), 8, shape + "[0" + range + "\"null\""),
      damaged(tensor_a("F32", "[9223372036854775808]", "[0,8]"), 8,
              shape + "[0" + range + "\"9223372036854775808\""),
      damaged(tensor_a("F32", "[100000000000000000000]", "[0,8]"), 8,
              shape + "[0" + range + "\"1e+20\""),
      damaged(tensor_a("F32", "2", "[0,8]"), 8,
              shape + ": expected an array of whole numbers, got \"2\""),
      damaged(tensor_a("F32", "[2]", "[-8,0]"), 8, offsets + "[0" + range + "\"-8\""),
      damaged(tensor_a("F32", "[2]", "[0,8.0]"), 8, offsets + "[1" + range + "\"8.0\""),
      damaged(tensor_a("F32", "[2]", "[0]"), 8,
              offsets + ": expected a begin and an end, got \"[0]\""),
      damaged(tensor_a("F32", "[2]", "[0,8,8]"), 8,
              offsets + ": expected a begin and an end, got \"[0,8,8]\""),
      damaged(tensor_a("F32", "[2]", "{}"), 8,
              offsets + ": expected an array of whole numbers, got \"{}\""),
      damaged(tensor_a("F32", "[2]", "[8,0]"), 8,
              offsets + ": end 0, expected at least the begin, 8"),
  });
}

TEST(DamagedSafetensors, AreRefusedWhenSizesContradictEachOther) {
  const std::string offsets = ": tensor \"a\": data_offsets: ";
  const std::string bits = ", expected a whole number of bytes, at most 9223372036854775807 bits";
  expect_refused({
      damaged(tensor_a("F32", "[2]", "[0,4]"), 4,
              offsets + "0 to 4 are 4 bytes, expected 8 for shape [2] of F32"),
      damaged(tensor_a("F64", "[2,3]", "[0,24]"), 24,
              offsets + "0 to 24 are 24 bytes, expected 48 for shape [2, 3] of F64"),
      damaged(tensor_a("F32", "[]", "[0,0]"), 0,
              offsets + "0 to 0 are 0 bytes, expected 4 for shape [] of F32"),
      damaged(tensor_a("F32", "[2]", "[0,9223372036854775807]"), 8,
              offsets + "0 to 9223372036854775807 are 9223372036854775807 bytes, expected 8 for "
                        "shape [2] of F32"),
      // 2^32 · 2^32 and 2^62 · 32 do not fit 64 bits: they would wrap around to 0.
      damaged(tensor_a("F32", "[4294967296,4294967296]", "[0,0]"), 0,
              ": tensor \"a\": shape [4294967296, 4294967296] of F32" + bits),
      damaged(tensor_a("F32", "[4611686018427387904]", "[0,0]"), 0,
              ": tensor \"a\": shape [4611686018427387904] of F32" + bits),
      damaged(tensor_a("F4", "[3]", "[0,2]"), 2, ": tensor \"a\": shape [3] of F4" + bits),
      damaged(tensor_a("F32", "[1,1,1,1,1,1,1,1,3]", "[0,4]"), 4,
              offsets + "0 to 4 are 4 bytes, expected 12 for shape [1, 1, 1, 1, 1, 1, 1, 1, ...] "
                        "of F32"),
  });
}

TEST(DamagedSafetensors, AreRefusedWhenATensorIsNone) {
  const std::string place = ": tensor \"a\": expected ";
  const std::string keys = "dtype, shape and data_offsets";
  const std::string types =
      ": tensor \"a\": dtype: expected one of BOOL, F4, F6_E2M3, F6_E3M2, U8, I8, F8_E5M2, "
      "F8_E4M3, F8_E8M0, F8_E4M3FNUZ, F8_E5M2FNUZ, I16, U16, F16, BF16, I32, U32, F32, C64, F64, "
      "I64, U64, got ";
  expect_refused({
      damaged(R"({"a":7})", 0, place + "an object with " + keys + ", got \"7\""),
      damaged(R"({"a":null})", 0, place + "an object with " + keys + ", got \"null\""),
      damaged(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4, place + keys + ", found no dtype"),
      damaged(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4,
              place + keys + ", found no shape"),
      damaged(R"({"a":{"dtype":"F32","shape":[1]}})", 4, place + keys + ", found no data_offsets"),
      damaged(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"strides":[1]}})", 4,
              place + keys + " alone, got \"strides\""),
      damaged(tensor_a("FP32", "[1]", "[0,4]"), 4, types + "\"FP32\""),
      damaged(tensor_a("f32", "[1]", "[0,4]"), 4, types + "\"f32\""),
      damaged(R"({"a":{"dtype":5,"shape":[1],"data_offsets":[0,4]}})", 4, types + "\"5\""),
      damaged(R"({"__metadata__":7})", 0, ": __metadata__: expected an object of texts, got \"7\""),
      damaged(R"({"__metadata__":{"n":1}})", 0, R"(: __metadata__: "n": expected a text, got "1")"),
  });
}

TEST(DamagedSafetensors, AreRefusedWhenJsonIsFaulty) {
  const std::string here = ": header: line 1, column ";
  expect_refused({
      damaged(kGood.substr(0, 30), 8, here + "31: not valid JSON"),
      damaged(kGood + "}", 8, here + "55: not valid JSON"),
      damaged(kGood + std::string(1, '\0'), 8, here + "55: not valid JSON: a NUL character"),
      damaged(tensor_a("F32", "[NaN]", "[0,8]"), 8, here + "30: not valid JSON"),
      damaged(tensor_a("F32", "[02]", "[0,8]"), 8, here + "31: not valid JSON"),
      damaged(tensor_a("F32", "[2,]", "[0,8]"), 8, here + "32: not valid JSON"),
      damaged(tensor_a("F32", "[1e400]", "[0,8]"), 8,
              here + "30: number \"1e400\" is out of range"),
      damaged("{\"\xFF\":" + kGood.substr(5), 8, here + "3: not valid JSON"),
      damaged("{\"\xC3\":" + kGood.substr(5), 8, here + "4: not valid JSON"),
      damaged(kGood.substr(0, kGood.size() - 1) + "," + kGood.substr(1), 8,
              ": header: duplicate key \"a\""),
      damaged(R"({"a":{"dtype":"F32","dtype":"F64","shape":[1],"data_offsets":[0,4]}})", 4,
              ": header: duplicate key \"a.dtype\""),
      damaged(R"({"a":)" + std::string(100, '['), 0, ": header: nested deeper than 64 levels"),
  });
}

// A name is shown without what a terminal would act upon, and not at any length.
TEST(DamagedSafetensors, ShowNamesThatAreSafeForATerminal) {
  const std::string name = "\\u001b[31m" + std::string(100, 'x');
  expect_refused({damaged("{\"" + name + "\":7}", 0,
                          ": tensor \"\\x1b[31m" + std::string(55, 'x') +
                              "...\": expected an object with dtype, shape and data_offsets, got "
                              "\"7\"")});
}

// Every cut of a good file is refused, wherever it is.
TEST(DamagedSafetensors, AreRefusedAtEveryLength) {
  const TemporaryDirectory directory;
  const std::string whole = safetensors_bytes(two_tensors("[0,4]", "[4,8]"), "12345678");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto path = directory.file("x.safetensors", whole.substr(0, length));
    EXPECT_NE(message_of([&] { return SafetensorsFile(path).header(); }), "nothing was thrown")
        << length;
  }
  EXPECT_EQ(SafetensorsFile(directory.file("x.safetensors", whole)).header().tensors.size(), 2);
}

// The expected bytes are those of huggingface/safetensors' own test of its writer, with the
// metadata of PyTorch: the header is filled up with spaces, so that data begin at 8·n bytes.
TEST(SafetensorsHead, IsFilledUpToAMultipleOfEight) {
  const std::string head =
      safetensors_head({{"attn.0", {.type = "F32", .shape = {1, 1, 2, 3}, .begin = 0, .end = 24}}});
  EXPECT_EQ(head,
            safetensors_bytes(
                R"({"__metadata__":{"format":"pt"},"attn.0":{"dtype":"F32","shape":[1,1,2,3],)"
                R"("data_offsets":[0,24]}}       )",
                ""));
  EXPECT_EQ(head.size() % 8, 0);
}

}  // namespace
}  // namespace ptdp
