// Tests of token files in every format: read and refused.
#include "runtime/data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/error_of.h"
#include "tests/support/temporary_directory.h"

namespace ptdp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Numbers = std::vector<std::int64_t>;

/// Returns the numbers in `bytes` bytes each, little-endian.
std::string little(const Numbers& numbers, int bytes) {
  std::string text;
  for (const std::int64_t number : numbers) {
    for (int i = 0; i < bytes; ++i) {
      text.push_back(static_cast<char>((static_cast<std::uint64_t>(number) >> (8 * i)) & 0xFFU));
    }
  }
  return text;
}

Numbers numbers_up_to(int count, int step = 1) {
  Numbers numbers;
  for (int i = 0; i < count; ++i) {
    numbers.push_back(std::int64_t{i} * step);
  }
  return numbers;
}

/// Returns a header of llm.c: 256 int32.
std::string llm_c(std::int64_t magic, std::int64_t version, std::int64_t count) {
  return little({magic, version, count}, 4) + std::string(4 * 253, '\0');
}

/// Returns a .npy file of version `major`, whose data are 64-byte aligned as NumPy's are.
std::string npy(const std::string& dictionary, const std::string& numbers, int major = 1) {
  const int length_bytes = major == 1 ? 2 : 4;
  std::string text = dictionary;
  while ((8 + length_bytes + text.size() + 1) % 64 != 0) {
    text += ' ';
  }
  text += '\n';
  return "\x93NUMPY" + little({major, 0}, 1) +
         little({static_cast<std::int64_t>(text.size())}, length_bytes) + text + numbers;
}

std::string dictionary(const std::string& type, const std::string& shape) {
  return "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
}

struct Index {
  int version = 1;
  int code = 8;
  Numbers lengths;
  Numbers places;
  Numbers documents;
  std::string modes = {};
};

std::string to_text(const Index& index) {
  return std::string("MMIDIDX\0\0", 9) + little({index.version}, 8) + little({index.code}, 1) +
         little({std::ssize(index.lengths), std::ssize(index.documents)}, 8) +
         little(index.lengths, 4) + little(index.places, 8) + little(index.documents, 8) +
         index.modes;
}

/// The files of one test.
class TokenFiles {
 public:
  [[nodiscard]] std::filesystem::path file(const std::string& name, const std::string& text) const {
    return directory_.file(name, text);
  }
  /// Returns all tokens of a file with this content.
  [[nodiscard]] std::vector<std::int32_t> tokens(const std::string& text, int vocab_size,
                                                 std::optional<TokenType> type = {}) const {
    return tokens_of({.path = file("tokens.bin", text), .type = type}, vocab_size);
  }
  [[nodiscard]] static std::vector<std::int32_t> tokens_of(const TokenSource& source,
                                                           int vocab_size) {
    const TokenFile file(source, vocab_size);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
    file.read(0, tokens);
    return tokens;
  }
  [[nodiscard]] std::string message(const std::string& text, int vocab_size = 1000,
                                    std::optional<TokenType> type = {}) const {
    return error_of([&] { (void)tokens(text, vocab_size, type); });
  }
  /// Returns the message about a tokens.bin of `data_bytes` bytes with this index beside it.
  [[nodiscard]] std::string message_beside(const std::string& index, int data_bytes = 8) const {
    static_cast<void>(file("tokens.idx", index));
    return message(std::string(static_cast<std::size_t>(data_bytes), '\1'), 60'000);
  }

 private:
  TemporaryDirectory directory_;
};

TEST(TokenFile, ReadsRawNumbersAsTold) {
  const TokenFiles files;
  EXPECT_THAT(files.tokens(little({50256, 7, 40000, 3}, 2), 50257),
              ElementsAre(50256, 7, 40000, 3));
  EXPECT_THAT(files.tokens(little({5, 0}, 2), 10, TokenType::kUint16), ElementsAre(5, 0));
  EXPECT_THAT(files.tokens(little({5, 0}, 2), 10, TokenType::kUint32), ElementsAre(5));
  EXPECT_THAT(files.tokens(little({128'255, 1, 65'536}, 4), 128'256, TokenType::kUint32),
              ElementsAre(128'255, 1, 65'536));
  EXPECT_THAT(files.tokens(little({65'535, 1}, 2), 128'256, TokenType::kUint16),
              ElementsAre(65'535, 1));
}

// GPT-2's and Llama 3's: dev/data/data_common.py of llm.c.
TEST(TokenFile, ReadsTheHeadersOfLlmC) {
  const TokenFiles files;
  EXPECT_THAT(files.tokens(llm_c(20240520, 1, 3) + little({50256, 0, 7}, 2), 50257),
              ElementsAre(50256, 0, 7));
  EXPECT_THAT(files.tokens(llm_c(20240801, 7, 2) + little({128'000, 9}, 4), 128'256),
              ElementsAre(128'000, 9));
  EXPECT_THAT(files.tokens(llm_c(20240520, 1, 0), 10), ElementsAre());
  const std::string tokens = little(numbers_up_to(10), 2);
  EXPECT_THAT(files.message(llm_c(20240520, 7, 10) + tokens),
              HasSubstr("version 7 of llm.c's token files, expected 1 behind 20240520"));
  EXPECT_THAT(files.message(llm_c(20240801, 1, 5) + tokens), HasSubstr("expected 7"));
  for (const int count : {11, 9, -1}) {
    EXPECT_THAT(files.message(llm_c(20240520, 1, count) + tokens),
                HasSubstr("its header says " + std::to_string(count) +
                          " tokens of uint16 from byte 1024 on, found 1044 bytes"));
  }
  EXPECT_THAT(files.message(llm_c(20240520, 1, 10) + tokens + "x"), HasSubstr("found 1045 bytes"));
  for (const std::size_t length : {4U, 8U, 12U, 1023U}) {
    EXPECT_THAT(files.message(llm_c(20240801, 7, 0).substr(0, length)),
                HasSubstr("llm.c's header ends at byte " + std::to_string(length)));
  }
  EXPECT_THAT(files.message(llm_c(20240522, 1, 10) + tokens), HasSubstr("multiple choices"));
}

// The bytes of np.save(..., np.array([1, 2, 300], '<u2')): NEP 1.
TEST(TokenFile, ReadsArraysOfNumpy) {
  const TokenFiles files;
  const std::string saved = "\x93NUMPY\x01" + std::string(1, '\0') + "v" + std::string(1, '\0') +
                            "{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }" +
                            std::string(60, ' ') + "\n" + std::string("\x01\0\x02\0\x2c\x01", 6);
  EXPECT_THAT(files.tokens(saved, 301), ElementsAre(1, 2, 300));
  struct Row {
    std::string type;
    int bytes;
  };
  for (const Row& row : {Row{"|u1", 1}, Row{"|i1", 1}, Row{"<u2", 2}, Row{"<i2", 2}, Row{"<u4", 4},
                         Row{"<i4", 4}, Row{"<u8", 8}, Row{"<i8", 8}}) {
    for (const int major : {1, 2, 3}) {
      EXPECT_THAT(files.tokens(
                      npy(dictionary(row.type, "(3,)"), little({5, 0, 99}, row.bytes), major), 100),
                  ElementsAre(5, 0, 99))
          << row.type << ' ' << major;
    }
  }
  EXPECT_THAT(files.tokens(npy(dictionary("<i8", "(1,)"), little({128'000}, 8)), 128'256),
              ElementsAre(128'000));
}

TEST(TokenFile, RefusesOtherArraysOfNumpy) {
  const TokenFiles files;
  const std::string numbers = little({5, 0, 99}, 2);
  const auto message = [&](const std::string& dictionary_text, int major = 1) {
    return files.message(npy(dictionary_text, numbers, major));
  };
  EXPECT_THAT(message(dictionary(">u2", "(3,)")),
              HasSubstr("NumPy's type \">u2\", which is big-endian, expected one of |u1"));
  EXPECT_THAT(message(dictionary("<f4", "(3,)")), HasSubstr("NumPy's type \"<f4\", expected"));
  EXPECT_THAT(message(dictionary("|O", "(3,)")), HasSubstr("NumPy's type \"|O\""));
  EXPECT_THAT(message(dictionary("<u2", "(3, 1)")), HasSubstr("an array of 2 dimensions"));
  EXPECT_THAT(message(dictionary("<u2", "()")), HasSubstr("an array of 0 dimensions"));
  EXPECT_THAT(message("{'descr': '<u2', 'fortran_order': True, 'shape': (3,), }"),
              HasSubstr("in Fortran's order"));
  for (const std::string count : {"4", "2"}) {
    EXPECT_THAT(message(dictionary("<u2", "(" + count + ",)")),
                HasSubstr("its header says " + count +
                          " tokens of uint16 from byte 128 on, found "
                          "134 bytes"));
  }
  EXPECT_THAT(message(dictionary("<u2", "(3,)"), 4), HasSubstr("version 4.0 of NumPy's files"));
  for (const std::string& text :
       {dictionary("<u2", "(-3,)"), dictionary("<u2", "(99999999999999999999,)"),
        dictionary("<u2", "(3"), dictionary("<u2", "3"), std::string("{}"), std::string("nonsense"),
        std::string("{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (3,), }"),
        std::string("{'descr': '<u2', 'shape': (3,), }"), dictionary("<u2", "(3,)") + "more"}) {
    EXPECT_THAT(message(text), HasSubstr("expected NumPy's header of a plain type")) << text;
  }
  const std::string whole = npy(dictionary("<u2", "(3,)"), numbers);
  EXPECT_THAT(files.message(whole.substr(0, 11)), HasSubstr("NumPy's header ends at byte 11"));
  EXPECT_THAT(files.message(whole.substr(0, 100)),
              HasSubstr("NumPy's header of 118 bytes does not fit a file of 100"));
}

TEST(TokenFile, ReadsMegatronsFilesByTheirIndex) {
  const TokenFiles files;
  // A document of two sequences, one of none and one of one.
  Index index{.code = 4, .lengths = {3, 0, 2}, .places = {0, 12, 12}, .documents = {0, 2, 2, 3}};
  const std::string data = little({128'000, 0, 1, 2, 3}, 4);
  static_cast<void>(files.file("tokens.idx", to_text(index)));
  EXPECT_THAT(files.tokens(data, 128'256), ElementsAre(128'000, 0, 1, 2, 3));
  index.modes = "abc";
  static_cast<void>(files.file("tokens.idx", to_text(index)));
  EXPECT_THAT(files.tokens(data, 128'256), ElementsAre(128'000, 0, 1, 2, 3));
  struct Row {
    int code;
    int bytes;
  };
  for (const Row& row : {Row{1, 1}, Row{2, 1}, Row{3, 2}, Row{4, 4}, Row{5, 8}, Row{8, 2}}) {
    static_cast<void>(files.file(
        "tokens.idx",
        to_text({.code = row.code, .lengths = {3}, .places = {0}, .documents = {0, 1}})));
    EXPECT_THAT(files.tokens(little({5, 0, 99}, row.bytes), 100), ElementsAre(5, 0, 99))
        << row.code;
  }
}

TEST(TokenFile, RefusesAnIndexThatDoesNotBelongToItsFile) {
  const TokenFiles files;
  const Index good{.lengths = {1, 3}, .places = {0, 2}, .documents = {0, 2}};
  EXPECT_EQ(files.message_beside(to_text(good)), "nothing thrown");
  EXPECT_THAT(files.message_beside(to_text(good), 10),
              HasSubstr("tokens.idx: its sequences end at byte 8 of the .bin, which has 10"));
  EXPECT_THAT(files.message_beside(to_text(good), 6),
              HasSubstr("sequence 1 ends at byte 8 of the .bin, which has 6"));
  const auto message = [&](const std::function<void(Index&)>& change) {
    Index index = good;
    change(index);
    return files.message_beside(to_text(index));
  };
  EXPECT_THAT(message([](Index& index) { index.version = 2; }),
              HasSubstr("version 2 of Megatron-LM's index, expected 1"));
  for (const int code : {0, 6, 7, 9}) {
    EXPECT_THAT(message([&](Index& index) { index.code = code; }),
                HasSubstr("type " + std::to_string(code) + " of Megatron-LM, expected"));
  }
  EXPECT_THAT(message([](Index& index) {
                index.lengths = {5, -1};
              }),
              HasSubstr("sequence 1 has -1 tokens"));
  for (const std::int64_t place : {std::int64_t{0}, std::int64_t{3}, std::int64_t{INT64_MAX}}) {
    EXPECT_THAT(message([&](Index& index) { index.places[1] = place; }),
                HasSubstr("sequence 1 begins at byte " + std::to_string(place) + ", expected 2"));
  }
  EXPECT_THAT(message([](Index& index) {
                index.documents = {0, 3};
              }),
              HasSubstr("document 1 ends at sequence 3, expected 0 to 2"));
  EXPECT_THAT(message([](Index& index) {
                index.documents = {1, 2};
              }),
              HasSubstr("document 0 ends at sequence 1, expected 0 to 0"));
  EXPECT_THAT(message([](Index& index) { index.modes = "x"; }), HasSubstr("do not hold"));
  EXPECT_THAT(files.message_beside(to_text(good).substr(0, 33)),
              HasSubstr("Megatron-LM's header ends at byte 33, expected 34 bytes"));
  EXPECT_THAT(files.message_beside(to_text(good).substr(0, 60)),
              HasSubstr("60 bytes do not hold the 2 sequences and 2 ends of documents"));
  std::string absurd = to_text(good);
  absurd.replace(18, 8, 8, '\xff');
  EXPECT_THAT(files.message_beside(absurd), HasSubstr("18446744073709551615 sequences"));
  EXPECT_THAT(files.message_beside("nonsense"), HasSubstr("is no index of Megatron-LM"));
  EXPECT_THAT(
      error_of([&] { (void)TokenFiles::tokens_of({files.file("tokens.idx", to_text(good))}, 10); }),
      HasSubstr("expected the .bin that belongs to it"));
}

TEST(TokenFile, AsksForTheTypeWhereAFileMayBeOfAnother) {
  const TokenFiles files;
  const auto asks = HasSubstr("expected --data-type uint16 or uint32");
  // 32-bit tokens: the upper halves are 0, or below 3 for a vocabulary of 150,000.
  EXPECT_THAT(files.message(little({5, 900, 0}, 4)), asks);
  EXPECT_THAT(files.message(little({5}, 4)), asks);
  EXPECT_THAT(files.message(little(numbers_up_to(16, 9000), 4), 65'536),
              HasSubstr("every second 16-bit number is at most 2, as the upper halves of wider "
                        "tokens are; expected --data-type uint16 or uint32"));
  EXPECT_THAT(files.message(little(numbers_up_to(40), 8)), asks);
  EXPECT_EQ(files.message(little(numbers_up_to(40), 4), 1000, TokenType::kUint32),
            "nothing thrown");
  // Said to be of half its width.
  EXPECT_THAT(
      files.message(little(numbers_up_to(40), 4), 1000, TokenType::kUint16),
      HasSubstr("every second uint16 is 0, as the upper halves of wider tokens are; expected "
                "--data-type uint32"));
  EXPECT_THAT(
      files.message(little(numbers_up_to(40), 8), 1000, TokenType::kUint32),
      HasSubstr("every second uint32 is 0, as the upper halves of wider tokens are; expected "
                "int64 as .npy"));
  // A vocabulary that does not fit.
  EXPECT_THAT(files.message(little(numbers_up_to(40), 2), 65'537), asks);
  EXPECT_EQ(files.message(little(numbers_up_to(40), 2), 65'536), "nothing thrown");
  // A book.
  std::string book;
  while (book.size() < 200) {
    book += "It was the best of times, it was the worst of times,\n";
  }
  EXPECT_THAT(files.message(book.substr(0, 200), 50'257), HasSubstr("it is text, no tokens"));
  // Tokens of letters, a few at a time.
  EXPECT_EQ(files.message(little(numbers_up_to(15), 2), 16), "nothing thrown");
  EXPECT_EQ(files.message(little(numbers_up_to(64), 2), 64), "nothing thrown");
  EXPECT_EQ(files.message("", 64), "nothing thrown");
}

// The check applies from 32 numbers on. Numbers in odd places must be 15 at most, and others more
// than a byte.
TEST(TokenFile, TakesSmallNumbersInOddPlacesForHalvesOfWiderTokens) {
  const TokenFiles files;
  const auto is_asked = [&](std::int64_t even, std::int64_t odd, int count) {
    Numbers numbers;
    for (int i = 0; i < count; ++i) {
      numbers.push_back(i % 2 == 0 ? even : odd);
    }
    const std::string message = files.message(little(numbers, 2));
    EXPECT_TRUE(message == "nothing thrown" ||
                message.find("16-bit number is at most " + std::to_string(odd) + ", as") !=
                    std::string::npos)
        << message;
    return message != "nothing thrown";
  };
  EXPECT_TRUE(is_asked(256, 15, 32));
  EXPECT_FALSE(is_asked(256, 16, 32));
  EXPECT_FALSE(is_asked(255, 15, 32));
  EXPECT_FALSE(is_asked(256, 15, 31));
  EXPECT_TRUE(is_asked(1, 0, 2));
  EXPECT_FALSE(is_asked(1, 0, 1)) << "there is no odd place";
}

TEST(TokenFile, RefusesATypeThatItsHeaderContradicts) {
  const TokenFiles files;
  const std::string tokens = llm_c(20240520, 1, 3) + little({5, 6, 7}, 2);
  EXPECT_THAT(files.tokens(tokens, 8, TokenType::kUint16), ElementsAre(5, 6, 7));
  EXPECT_THAT(files.message(tokens, 8, TokenType::kUint32),
              HasSubstr("a file of llm.c with tokens of uint16, but --data-type says uint32"));
  EXPECT_THAT(
      files.tokens(npy(dictionary("<i4", "(2,)"), little({5, 6}, 4)), 8, TokenType::kUint32),
      ElementsAre(5, 6));
}

TEST(TokenFile, RefusesSizesThatAreNoWholeTokens) {
  const TokenFiles files;
  EXPECT_THAT(files.message(little(numbers_up_to(10), 2) + "x"),
              HasSubstr("tokens.bin: 21 bytes, expected whole tokens of uint16"));
  EXPECT_THAT(files.message(little({1}, 4) + "xy", 10, TokenType::kUint32),
              HasSubstr("6 bytes, expected whole tokens of uint32"));
}

TEST(TokenFile, NamesTheFirstTokenBeyondTheVocabulary) {
  const TokenFiles files;
  Numbers tokens(700'000, 5);  // more than one block of the scan
  tokens[600'123] = 999;
  tokens[600'124] = 1000;
  const std::string raw = little(tokens, 2);
  EXPECT_EQ(files.message(raw, 1001), "nothing thrown");
  EXPECT_THAT(files.message(raw, 999),
              HasSubstr("tokens.bin: token 999 at position 600123 (byte 1200246, raw tokens of "
                        "uint16), expected tokens below the vocabulary's 999"));
  EXPECT_THAT(files.message(llm_c(20240801, 7, 700'000) + little(tokens, 4), 1000),
              HasSubstr("token 1000 at position 600124 (byte 2401520, llm.c tokens of uint32)"));
  EXPECT_THAT(files.message(npy(dictionary("<i4", "(3,)"), little({3, -1, 2}, 4))),
              HasSubstr("token -1 at position 1 (byte 132, NumPy tokens of int32)"));
  EXPECT_THAT(files.message(npy(dictionary("<u8", "(2,)"), little({3, -1}, 8))),
              HasSubstr("token 18446744073709551615 at position 1"));
  EXPECT_THAT(files.message(npy(dictionary("|u1", "(2,)"), little({3, 255}, 1)), 255),
              HasSubstr("token 255 at position 1"));
  EXPECT_EQ(files.message(npy(dictionary("|u1", "(2,)"), little({3, 255}, 1)), 256),
            "nothing thrown");
}

}  // namespace
}  // namespace ptdp
