#include "planner/logs/log_records.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "cost_model/units.h"
#include "planner/logs/log_lines.h"

namespace ptdp {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kBlanks = " \t";
constexpr std::string_view kMemoryReport = "memory (MB)";
constexpr std::size_t kLongestPrefix = 256;
constexpr std::array<std::string_view, 2> kFirstKeys = {"consumedsamples",
                                                        "elapsedtimeperiteration"};
constexpr double kLargestValue = 1e18;              // no program prints more of anything
constexpr double kBytesOfReport = 1024.0 * 1024.0;  // Megatron's "MB"

bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

std::size_t after_blanks(std::string_view text, std::size_t at) {
  return std::min(text.find_first_not_of(kBlanks, at), text.size());
}

/// A number at the start of a text, and where the text goes on.
struct FoundNumber {
  double value = 0.0;
  std::size_t end = 0;
};

/// Returns the number at `at`, which may have commas between thousands: "7,104", "3e-05".
std::optional<FoundNumber> number_at(std::string_view text, std::size_t at) {
  std::string digits;
  std::size_t end = at;
  const auto is_thousands = [&](std::size_t comma) {
    return comma > at && is_decimal(text[comma - 1]) && comma + 3 < text.size() &&
           std::all_of(text.begin() + static_cast<std::ptrdiff_t>(comma) + 1,
                       text.begin() + static_cast<std::ptrdiff_t>(comma) + 4, is_decimal) &&
           (comma + 4 == text.size() || !is_decimal(text[comma + 4]));
  };
  for (; end < text.size(); ++end) {
    const char c = text[end];
    const bool is_sign =
        (c == '-' || c == '+') && (end == at || text[end - 1] == 'e' || text[end - 1] == 'E');
    const bool is_exponent =
        (c == 'e' || c == 'E') && end > at && end + 1 < text.size() &&
        (is_decimal(text[end + 1]) || text[end + 1] == '-' || text[end + 1] == '+');
    if (c == ',' && is_thousands(end)) {
      continue;
    }
    if (!is_decimal(c) && c != '.' && !is_sign && !is_exponent) {
      break;
    }
    digits += c;
  }
  FoundNumber number{.end = end};
  const char* first = digits.data() + (digits.starts_with('+') ? 1 : 0);
  const auto [rest, error] = std::from_chars(first, digits.data() + digits.size(), number.value);
  if (digits.empty() || error != std::errc() || rest == first) {
    return std::nullopt;
  }
  return number;
}

/// Returns a key without blanks, underscores and quotes, in small letters: a terminal may have torn
/// it, and programs differ in how they spell it.
std::string plain_key(std::string_view key) {
  std::string plain;
  plain.reserve(key.size());
  for (const char c : key) {
    switch (c) {
      case ' ':
      case '\t':
      case '_':
      case '"':
      case '\'':
        break;
      default:
        plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  return plain;
}

/// Returns what a suffix multiplies a number with: K, M, B and T of nanotron, GB and GiB.
double factor_of_suffix(std::string_view suffix) {
  constexpr std::array<std::pair<std::string_view, double>, 6> factors = {
      {{"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}, {"GB", kGibi}, {"GiB", kGibi}}};
  for (const auto& [name, factor] : factors) {
    if (suffix == name) {
      return factor;
    }
  }
  return 1.0;
}

bool begins_with_nan(std::string_view text) {
  return text.starts_with("nan") || text.starts_with("NaN") || text.starts_with("NAN");
}

/// Calls `on_field` with each key and number of "key: number", "key=number" in a text. Bars,
/// commas, braces and the end of a number end what comes before a key.
template <class OnField>
void for_each_field(std::string_view text, OnField on_field) {
  std::size_t key = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '|' || text[i] == ',' || text[i] == '{') {
      key = i + 1;
    } else if (text[i] == ':' || text[i] == '=') {
      const std::size_t at = after_blanks(text, i + 1);
      const auto number = number_at(text, at);
      if (!number) {
        if (begins_with_nan(text.substr(at))) {
          on_field(plain_key(text.substr(key, i - key)), std::numeric_limits<double>::quiet_NaN());
        }
        continue;
      }
      std::size_t end = number->end;
      while (end < text.size() && is_letter(text[end])) {
        ++end;
      }
      const std::string_view suffix = text.substr(number->end, end - number->end);
      const double value = number->value * factor_of_suffix(suffix);
      if (std::abs(value) <= kLargestValue) {
        on_field(plain_key(text.substr(key, i - key)), value);
      }
      i = std::min(text.find_first_of(" \t|,", end), text.size());
      key = i + (i < text.size() ? 1 : 0);
    }
  }
}

/// A key of a field as plain_key() has it, and what its number means.
struct FieldName {
  std::string_view key;
  std::optional<double> LogRecord::*field = nullptr;
  double factor = 1.0;
};
// Megatron-LM training.py and its forks; nanotron trainer.py; NeMo's loggers; torchtitan
// metrics.py, of 2024 too; DeepSpeed timer.py and pipe/engine.py.
constexpr std::array kFieldNames = {
    FieldName{"elapsedtimeperiteration(ms)", &LogRecord::seconds, 1e-3},
    FieldName{"elapsedtimeperiteration(s)", &LogRecord::seconds},
    FieldName{"elapsedtimeperiterationms", &LogRecord::seconds, 1e-3},
    FieldName{"timeperiterationms", &LogRecord::seconds, 1e-3},
    FieldName{"trainsteptimingins", &LogRecord::seconds},
    FieldName{"itertime(s)", &LogRecord::seconds},
    FieldName{"globalbatchsize", &LogRecord::batch},
    FieldName{"throughputpergpu(tflop/s/gpu)", &LogRecord::tflops_per_gpu},
    FieldName{"throughput(tflop/s/gpu)", &LogRecord::tflops_per_gpu},
    FieldName{"modeltflopspergpu", &LogRecord::tflops_per_gpu},
    FieldName{"tflops", &LogRecord::tflops_per_gpu},
    FieldName{"tokenspergpupersecond(tgs)", &LogRecord::tokens_per_gpu_second},
    FieldName{"tokens/sec/gpu", &LogRecord::tokens_per_gpu_second},
    FieldName{"tokens/s/gpu", &LogRecord::tokens_per_gpu_second},
    FieldName{"tokenspergpu(tokens/s/gpu)", &LogRecord::tokens_per_gpu_second},
    FieldName{"tokenspersecpergpu", &LogRecord::tokens_per_gpu_second},
    FieldName{"tps", &LogRecord::tokens_per_gpu_second},
    FieldName{"wps", &LogRecord::tokens_per_gpu_second},
    FieldName{"samples/sec", &LogRecord::samples_per_second},
    FieldName{"samplespersecond", &LogRecord::samples_per_second},
    FieldName{"currsamplespersec", &LogRecord::samples_per_second},
    FieldName{"lmloss", &LogRecord::loss},
    FieldName{"reducedtrainloss", &LogRecord::loss},
    FieldName{"loss", &LogRecord::loss},
    FieldName{"numberofskippediterations", &LogRecord::skipped},
    FieldName{"maxmemallocated", &LogRecord::allocated_bytes},
    FieldName{"memory", &LogRecord::reserved_bytes},
};

/// Ways in which a record begins.
enum class Start {
  kIteration,   ///< "iteration 20/ 500 |"
  kStep,        ///< "step: 20"
  kSteps,       ///< "steps: 20 loss:"
  kGlobalStep,  ///< "global_step=20"
  kDllLogger,   ///< "DLLL {"
  kBar          ///< "20/500 [01:01<2:27:09, 20.20s/it]"
};

/// Where a record begins in a line, and where its fields do.
struct Anchor {
  Start start{};
  std::size_t begin = 0;
  std::size_t fields = 0;
  std::int64_t step = 0;
  std::int64_t total = 0;
};

/// Returns the digits at `at` as a number, after a colon or an equals sign and blanks; moves `at`
/// behind them.
std::optional<std::int64_t> step_at(std::string_view text, std::size_t& at) {
  std::size_t from = after_blanks(text, at);
  if (from < text.size() && (text[from] == ':' || text[from] == '=')) {
    from = after_blanks(text, from + 1);
  }
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(text.data() + from, text.data() + text.size(), step);
  if (error != std::errc() || from == text.size() || !is_decimal(text[from])) {
    return std::nullopt;
  }
  at = static_cast<std::size_t>(end - text.data());
  return step;
}

bool is_behind(std::string_view line, std::size_t at, std::string_view word) {
  return line.substr(0, at).ends_with(word);
}

/// Adds an anchor for each `word` that a number follows, if `accepts` the place before and behind.
template <class Accepts>
void add_anchors(std::string_view line, std::string_view word, Start start, Accepts accepts,
                 std::vector<Anchor>& anchors) {
  for (std::size_t at = find_word(line, word); at != std::string_view::npos;
       at = find_word(line, word, at + 1)) {
    std::size_t end = at + word.size();
    if (const auto step = step_at(line, end); step && accepts(at, end)) {
      anchors.push_back({.start = start, .begin = at, .fields = end, .step = *step});
    }
  }
}

/// Returns the seconds of a bar's "01:01" or "2:02:39" at `at`, if `<` ends it.
std::optional<double> clock_of_bar(std::string_view line, std::size_t at) {
  double seconds = 0.0;
  for (;;) {
    std::int64_t part = 0;
    const auto [end, error] = std::from_chars(line.data() + at, line.data() + line.size(), part);
    if (error != std::errc() || part < 0) {
      return std::nullopt;
    }
    seconds = 60.0 * seconds + static_cast<double>(part);
    at = static_cast<std::size_t>(end - line.data());
    if (at >= line.size() || line[at] != ':') {
      return at < line.size() && line[at] == '<' ? std::optional(seconds) : std::nullopt;
    }
    ++at;
  }
}

/// Adds an anchor for each "20/500 [01:01<".
void add_bars(std::string_view line, std::vector<Anchor>& anchors) {
  for (std::size_t open = line.find(" ["); open != std::string_view::npos;
       open = line.find(" [", open + 1)) {
    const std::size_t slash = line.find_last_not_of(kDigits, open == 0 ? 0 : open - 1);
    if (slash == std::string_view::npos || slash == 0 || line[slash] != '/' || slash + 1 == open) {
      continue;
    }
    const std::size_t before = line.find_last_not_of(kDigits, slash - 1);
    const std::size_t first = before == std::string_view::npos ? 0 : before + 1;
    std::size_t at = first;
    const auto step = first < slash ? step_at(line, at) : std::nullopt;
    std::size_t behind = slash + 1;
    const auto total = step_at(line, behind);
    if (step && total && clock_of_bar(line, open + 2)) {
      anchors.push_back({.start = Start::kBar,
                         .begin = first,
                         .fields = open + 2,
                         .step = *step,
                         .total = *total});
    }
  }
}

std::vector<Anchor> anchors_of(std::string_view line) {
  std::vector<Anchor> anchors;
  const auto at_any = [](std::size_t /*at*/, std::size_t /*end*/) { return true; };
  add_anchors(
      line, "iteration", Start::kIteration,
      [&](std::size_t /*at*/, std::size_t end) {
        const std::size_t slash = after_blanks(line, end);
        return slash < line.size() && line[slash] == '/';
      },
      anchors);
  add_anchors(
      line, "step:", Start::kStep,
      [&](std::size_t at, std::size_t /*end*/) {
        return !is_behind(line, at, "validate ") &&
               (at == 0 || (!is_letter(line[at - 1]) && line[at - 1] != '_'));
      },
      anchors);
  add_anchors(
      line, "steps:", Start::kSteps,
      [&](std::size_t /*at*/, std::size_t end) {
        return line.substr(after_blanks(line, end)).starts_with("loss:");
      },
      anchors);
  add_anchors(line, "global_step=", Start::kGlobalStep, at_any, anchors);
  if (const std::size_t at = find_word(line, "DLLL {"); at != std::string_view::npos) {
    anchors.push_back({.start = Start::kDllLogger, .begin = at, .fields = at + 5});
  }
  add_bars(line, anchors);
  std::sort(anchors.begin(), anchors.end(),
            [](const Anchor& a, const Anchor& b) { return a.begin < b.begin; });
  return anchors;
}

/// Returns the last "2026-08-22 10:11:12.123" in a text [s].
std::optional<double> last_stamp(std::string_view text) {
  constexpr std::string_view shape = "0000-00-00 00:00:00";
  for (std::size_t at = text.rfind(':'); at != std::string_view::npos && at >= 16;
       at = at == 0 ? std::string_view::npos : text.rfind(':', at - 1)) {
    const std::string_view stamp = text.substr(at - 16, shape.size());
    const auto matches = [](char c, char like) {
      return like == '0' ? is_decimal(c) : c == like || (like == ' ' && c == 'T');
    };
    if (stamp.size() != shape.size() ||
        !std::equal(stamp.begin(), stamp.end(), shape.begin(), matches)) {
      continue;
    }
    const auto part = [&](std::size_t from, std::size_t count) {
      int value = 0;
      std::from_chars(stamp.data() + from, stamp.data() + from + count, value);
      return value;
    };
    const std::chrono::year_month_day day{std::chrono::year(part(0, 4)),
                                          std::chrono::month(static_cast<unsigned>(part(5, 2))),
                                          std::chrono::day(static_cast<unsigned>(part(8, 2)))};
    if (!day.ok()) {
      continue;
    }
    double seconds =
        86'400.0 * static_cast<double>(std::chrono::sys_days(day).time_since_epoch().count()) +
        3600.0 * part(11, 2) + 60.0 * part(14, 2) + part(17, 2);
    const std::size_t dot = at + 3;
    if (dot + 1 < text.size() && (text[dot] == '.' || text[dot] == ',') &&
        is_decimal(text[dot + 1])) {
      std::string fraction = "0.";
      for (std::size_t i = dot + 1; i < text.size() && is_decimal(text[i]); ++i) {
        fraction += text[i];
      }
      double value = 0.0;
      std::from_chars(fraction.data(), fraction.data() + fraction.size(), value);
      seconds += value;
    }
    return seconds;
  }
  return std::nullopt;
}

/// Returns what stands shortly before a place: prefixes of a record are short, lines may not be.
std::string_view text_before(std::string_view line, std::size_t place) {
  const std::size_t first = place - std::min(place, kLongestPrefix);
  return line.substr(first, place - first);
}

/// Returns whether the fields of a record are Megatron's, as far as they go: "consumed samples" or
/// the time comes first.
bool is_of_megatron(std::string_view fields) {
  const std::size_t bar = fields.find('|');
  if (bar == std::string_view::npos) {
    return false;
  }
  const std::string_view behind = fields.substr(bar + 1);
  const std::string key = plain_key(behind.substr(0, behind.find_first_of(":=|")));
  return std::ranges::any_of(kFirstKeys, [&](std::string_view first) {
    return first.starts_with(key) || key.starts_with(first);
  });
}

/// Returns whose record it is by its keys; nullopt if it says nothing of time.
std::optional<LogFormat> format_of(Start start, const LogRecord& record,
                                   const std::vector<std::string>& keys) {
  const auto has = [&](std::string_view key) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  if (has("trainsteptimingins")) {
    return LogFormat::kNemo;
  }
  switch (start) {
    case Start::kIteration:
      if (!record.seconds) {
        return std::nullopt;
      }
      return has("timeperiterationms") || has("elapsedtimeperiterationms") ? LogFormat::kNanotron
                                                                           : LogFormat::kMegatron;
    case Start::kStep:
      return record.tokens_per_gpu_second ? std::optional(LogFormat::kTorchtitan) : std::nullopt;
    case Start::kSteps:
      return record.seconds ? std::optional(LogFormat::kDeepSpeedPipeline) : std::nullopt;
    case Start::kGlobalStep:
      return record.samples_per_second ? std::optional(LogFormat::kDeepSpeed) : std::nullopt;
    case Start::kBar:
      return LogFormat::kProgressBar;
    case Start::kDllLogger:
      break;
  }
  return std::nullopt;
}

/// Reads the fields of a record. The first number of a field counts: what follows a record on its
/// line may be another program's.
std::optional<LogRecord> read_record(const Anchor& anchor, std::string_view fields) {
  LogRecord record;
  record.step = anchor.step;
  record.total = anchor.total;
  std::vector<std::string> keys;
  for_each_field(fields, [&](std::string key, double value) {
    if (!std::isnan(value) &&
        (key == "globalstep" || (anchor.start == Start::kDllLogger && key == "step"))) {
      record.step = static_cast<std::int64_t>(std::clamp(value, 0.0, 1e15));
    }
    for (const FieldName& name : kFieldNames) {
      const bool is_value = !std::isnan(value) || name.field == &LogRecord::loss;
      if (name.key == key && is_value && !(record.*name.field)) {
        record.*name.field = value * name.factor;
      }
    }
    keys.push_back(std::move(key));
  });
  const auto format = format_of(anchor.start, record, keys);
  if (!format) {
    return std::nullopt;
  }
  record.format = *format;
  return record;
}

}  // namespace

bool may_hold_record(std::string_view line) {
  return has_word(line, "iteration") || has_word(line, "step") || has_word(line, "/it") ||
         has_word(line, "it/s") || has_word(line, kMemoryReport);
}

std::vector<LogRecord> records_of(std::string_view line) {
  const std::vector<Anchor> anchors = anchors_of(line);
  std::vector<LogRecord> records;
  for (std::size_t i = 0; i < anchors.size(); ++i) {
    const Anchor& anchor = anchors[i];
    const std::size_t end = i + 1 < anchors.size() ? anchors[i + 1].begin : line.size();
    if (anchor.fields >= end) {
      continue;
    }
    auto record = read_record(anchor, line.substr(anchor.fields, end - anchor.fields));
    if (record) {
      record->clock = anchor.start == Start::kBar ? clock_of_bar(line, anchor.fields)
                                                  : last_stamp(text_before(line, anchor.begin));
      records.push_back(*record);
    }
  }
  return records;
}

bool is_cut(std::string_view line, const std::vector<LogRecord>& records) {
  const bool ends_with_bar = line.substr(0, line.find_last_not_of(kBlanks) + 1).ends_with('|');
  const bool has_all = !records.empty() && records.back().batch && records.back().loss;
  if (has_all && ends_with_bar) {
    return false;
  }
  const std::vector<Anchor> anchors = anchors_of(line);
  return !anchors.empty() && anchors.back().start == Start::kIteration &&
         is_of_megatron(line.substr(anchors.back().fields));
}

LogMemory reported_memory(std::string_view line) {
  LogMemory memory;
  for (std::size_t at = find_word(line, kMemoryReport); at != std::string_view::npos;
       at = find_word(line, kMemoryReport, at + 1)) {
    const std::size_t from = at + kMemoryReport.size();
    const std::string_view report = line.substr(from, line.find('[', from) - from);
    for_each_field(report, [&](const std::string& key, double value) {
      if (key == "maxallocated") {
        memory.allocated = std::max(memory.allocated, value * kBytesOfReport);
      } else if (key == "maxreserved") {
        memory.reserved = std::max(memory.reserved, value * kBytesOfReport);
      }
    });
  }
  return memory;
}

}  // namespace ptdp
