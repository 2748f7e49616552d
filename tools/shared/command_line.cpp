#include "tools/shared/command_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <new>
#include <sstream>

#include "cost_model/contains.h"
#include "cost_model/error.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/csv_table.h"
#include "cost_model/text/in_quotes.h"
#include "cost_model/text/shown_text.h"
#include "cost_model/text/temporary_file.h"
#include "tools/shared/flag_synonyms.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

constexpr double kMostTokens = 1e18;
constexpr std::int64_t kKibi = 1024;
constexpr double kLargestFraction = 0.9999;

/// The names of --overlap. "none" and "all" must stand alone and name no single part.
constexpr std::array<NamedValue<bool Overlap::*>, 6> kOverlapNames = {
    {{&Overlap::messages, "messages"},
     {&Overlap::reductions, "reductions"},
     {&Overlap::gathers, "gathers"},
     {&Overlap::tensor, "tensor"},
     {nullptr, "none"},
     {nullptr, "all"}}};

bool asks_for_help(const std::string& argument) {
  return argument == "--help" || argument == "-h";
}

/// Returns the arguments with the flag beside --help, if these two stand last or alone, as a word
/// behind it.
std::vector<std::string> with_topic_of_help(std::vector<std::string> arguments) {
  const std::size_t count = arguments.size();
  if (count == 2 && arguments[0].starts_with('-') && asks_for_help(arguments[1])) {
    std::swap(arguments[0], arguments[1]);
  }
  if (count >= 2 && asks_for_help(arguments[count - 2])) {
    std::string& topic = arguments.back();
    topic.erase(0, topic.find_first_not_of('-'));
  }
  return arguments;
}

/// Returns the end of the message about an unknown flag: the flag that was meant, if any.
std::string meant_flag(const std::string& typed, const po::options_description& flags) {
  if (const auto related =
          related_flag(typed.substr(std::min(typed.find_first_not_of('-'), typed.size())), flags)) {
    return "; did you mean \"--" + *related + "\"?";
  }
  std::vector<std::string> names;
  for (const auto& flag : flags.options()) {
    names.push_back("--" + flag->long_name());
  }
  const std::string near = did_you_mean(typed, names);
  return near.empty() ? did_you_mean(typed, synonyms_of(flags)) : near;
}

}  // namespace

CommandLine::CommandLine(int argc, const char* const* argv, const po::options_description& flags)
    : arguments_(
          with_known_flags(with_topic_of_help({argv + 1, argv + std::max(argc, 1)}), flags)) {
  po::options_description all;
  all.add(flags);
  all.add_options()("word", po::value<std::vector<std::string>>(&words_));
  po::positional_options_description positions;
  positions.add("word", -1);
  const int style = po::command_line_style::unix_style &
                    ~static_cast<int>(po::command_line_style::allow_guessing);
  try {
    po::store(
        po::command_line_parser(arguments_).options(all).positional(positions).style(style).run(),
        values_);
    po::notify(values_);
  } catch (const po::unknown_option& error) {
    throw Error("unknown flag " + error.get_option_name() +
                meant_flag(error.get_option_name(), flags) + " (--help tells more)");
  } catch (const po::error& error) {
    throw Error(error.what());
  }
  for (const auto& flag : flags.options()) {
    if (flag->semantic()->max_tokens() == 0) {
      switches_.push_back(flag->long_name());
    }
  }
}

std::string shell_quoted(const std::string& argument) {
  const bool is_plain =
      !argument.empty() && std::all_of(argument.begin(), argument.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::string_view("-_./=:,+%").find(c) != std::string_view::npos;
      });
  if (is_plain) {
    return argument;
  }
  std::string result = "'";
  for (const char c : argument) {
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return result + "'";
}

std::string CommandLine::quoted_arguments_without(const std::vector<std::string>& flags) const {
  std::string text;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const std::string& argument = arguments_[i];
    const auto is_spelled = [&](const std::string& flag) {
      return argument == "--" + flag || (flag == "output" && argument == "-o");
    };
    const auto is_with_value = [&](const std::string& flag) {
      return argument.starts_with("--" + flag + "=") ||
             (flag == "output" && argument.starts_with("-o"));
    };
    if (const auto left_out = std::ranges::find_if(flags, is_spelled); left_out != flags.end()) {
      i += contains(switches_, *left_out) ? 0 : 1;  // the flag's value
    } else if (std::ranges::none_of(flags, is_with_value)) {
      text += (text.empty() ? "" : " ") + shell_quoted(argument);
    }
  }
  return text;
}

std::string CommandLine::help_topic() const {
  const std::size_t count = arguments_.size();
  const bool has_topic = count >= 2 && asks_for_help(arguments_[count - 2]);
  return has_topic ? arguments_.back() : "";
}

void CommandLine::allow_words(std::size_t most) const {
  if (words_.size() > most) {
    throw Error("unexpected word " + in_quotes(words_[most]) + " (--help shows the flags)");
  }
}

void CommandLine::refuse(const std::vector<std::string>& flags, const std::string& by) const {
  const auto given =
      std::ranges::find_if(flags, [&](const std::string& flag) { return has(flag); });
  if (given != flags.end()) {
    throw Error("--" + *given + ": not used by " + by);
  }
}

void CommandLine::allow_only(const std::vector<std::string>& flags, const std::string& by) const {
  for (const auto& [name, value] : values_) {
    if (name != "word" && std::find(flags.begin(), flags.end(), name) == flags.end()) {
      throw Error("--" + name + ": not used " +
                  (!by.empty()      ? "by " + by
                   : words_.empty() ? "here"
                                    : "by `" + words_.front() + "` here"));
    }
  }
}

std::optional<std::string> CommandLine::text(const std::string& flag) const {
  if (!has(flag)) {
    return std::nullopt;
  }
  return values_[flag].as<std::string>();
}

std::vector<std::string> CommandLine::texts(const std::string& flag) const {
  return has(flag) ? values_[flag].as<std::vector<std::string>>() : std::vector<std::string>();
}

std::optional<std::int64_t> CommandLine::count(const std::string& flag, std::int64_t low,
                                               std::int64_t high) const {
  const auto value = text(flag);
  return value.has_value() ? std::optional(parse_count(*value, low, high, "--" + flag))
                           : std::nullopt;
}

std::optional<Size> CommandLine::size(const std::string& flag, std::int64_t low,
                                      std::int64_t high) const {
  const auto value = text(flag);
  return value.has_value() ? std::optional(parse_size(*value, low, high, "--" + flag))
                           : std::nullopt;
}

std::optional<double> CommandLine::number(const std::string& flag, double low, double high) const {
  const auto value = text(flag);
  return value.has_value() ? std::optional(parse_number(*value, low, high, "--" + flag))
                           : std::nullopt;
}

std::vector<std::string> CommandLine::comma_separated(const std::string& flag) const {
  std::vector<std::string> words;
  auto rest = text(flag);
  while (rest.has_value()) {
    const std::size_t comma = rest->find(',');
    words.push_back(rest->substr(0, comma));
    rest = comma == std::string::npos ? std::nullopt : std::optional(rest->substr(comma + 1));
  }
  return words;
}

std::vector<std::string> overlap_names() {
  return names_of<bool Overlap::*>(kOverlapNames);
}

std::optional<Overlap> overlap_choice(const CommandLine& line) {
  const auto text = line.text("overlap");
  if (!text.has_value()) {
    return std::nullopt;
  }
  if (*text == "none" || *text == "all") {
    const bool is_all = *text == "all";
    return Overlap{.messages = is_all,
                   .reductions = is_all,
                   .gathers = is_all,
                   .tensor = is_all,
                   .as_possible = is_all};
  }
  Overlap overlap;
  for (const auto part : line.choices<bool Overlap::*>("overlap", kOverlapNames)) {
    if (part == nullptr) {
      throw Error(
          "--overlap: expected none or all alone, or some of messages, reductions, "
          "gathers, tensor, got " +
          in_quotes(*text));
    }
    overlap.*part = true;
  }
  if (overlap.gathers && !overlap.reductions) {
    throw Error(
        "--overlap: gathers run beside compute only where reductions do; expected "
        "reductions,gathers, got " +
        in_quotes(*text));
  }
  return overlap;
}

Size parse_size(std::string_view text, std::int64_t low, std::int64_t high,
                const std::string& place) {
  std::int64_t factor = 1;
  if (!text.empty()) {
    const int suffix = std::tolower(static_cast<unsigned char>(text.back()));
    factor = suffix == 'k' ? kKibi : suffix == 'm' ? kKibi * kKibi : 1;
  }
  const std::string_view digits = factor == 1 ? text : text.substr(0, text.size() - 1);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  if (!is_number || number < 0 || number > high / factor || number * factor < low) {
    throw Error(place + ": expected a whole number from " + std::to_string(low) + " to " +
                std::to_string(high) + " (1k is 1024, 1M is 1024k), got " + in_quotes(text));
  }
  return {.value = number * factor, .written = factor == 1 ? "" : std::string(text)};
}

double parse_with_suffix(std::string_view text, const std::string& place) {
  double factor = 1.0;
  if (!text.empty()) {
    switch (std::toupper(static_cast<unsigned char>(text.back()))) {
      case 'K':
        factor = 1e3;
        break;
      case 'M':
        factor = 1e6;
        break;
      case 'B':
        factor = 1e9;
        break;
      case 'T':
        factor = 1e12;
        break;
      default:
        break;
    }
  }
  const std::string_view digits = factor == 1.0 ? text : text.substr(0, text.size() - 1);
  double number = 0.0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  if (!is_number || !(number * factor >= 1.0 && number * factor <= kMostTokens)) {
    throw Error(place +
                ": expected a number from 1 to 1e18, with K, M, B or T behind it if you like, " +
                "got " + in_quotes(text));
  }
  return number * factor;
}

double parse_fraction(std::string_view text, const std::string& place) {
  const bool is_percent = text.ends_with('%');
  const std::string_view digits = is_percent ? text.substr(0, text.size() - 1) : text;
  double number = 0.0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_number = error == std::errc() && end == digits.data() + digits.size();
  const double fraction = is_percent ? number / 100.0 : number;
  if (!is_number || !(fraction >= 0.0 && fraction <= kLargestFraction)) {
    throw Error(place + ": expected a fraction from 0 to 0.9999 or a percentage, got " +
                in_quotes(text));
  }
  return fraction;
}

void print(std::string_view text) {
  write_standard_output(shown_text(text));
}

void write_standard_output(std::string_view bytes) {
  std::cout << bytes << std::flush;
  if (!std::cout) {
    throw Error("standard output: cannot write", ExitStatus::kOutputFailed);
  }
}

namespace {

/// Whether operator new has failed on this thread.
thread_local bool lacked_memory = false;

[[noreturn]] void fail_to_allocate() {
  lacked_memory = true;
  throw std::bad_alloc();
}

/// Whether the process ends because memory ran out. An exception that leaves a noexcept function is
/// not always the current exception here, so a failed operator new counts, too.
bool ends_for_memory() noexcept {
  const std::exception_ptr current = std::current_exception();
  if (!current) {
    return lacked_memory && std::uncaught_exceptions() > 0;
  }
  try {
    std::rethrow_exception(current);
  } catch (const std::bad_alloc&) {
    return true;
  } catch (...) {
    return false;
  }
}

// A signal handler reads it.
std::atomic<bool> has_launcher = false;
static_assert(std::atomic<bool>::is_always_lock_free);

/// Writes a line that begins with the program's name. Safe to call in a signal handler.
void tell_in_signal(const char* text) noexcept {
  for (const char* part : {static_cast<const char*>(program_invocation_short_name), text}) {
    [[maybe_unused]] const ::ssize_t written = ::write(STDERR_FILENO, part, std::strlen(part));
  }
}

/// Terminate handler: exits with kRuntimeFault when memory ran out, and aborts otherwise. Libraries
/// declare some allocating functions noexcept: nlohmann's JSON, and libstdc++ when it reads a
/// directory's next entry. Running out of memory there is no bug.
[[noreturn]] void end_where_memory_lacks() noexcept {
  if (!ends_for_memory()) {
    std::abort();
  }
  tell_in_signal(": out of memory\n");
  ::_exit(static_cast<int>(ExitStatus::kRuntimeFault));
}

/// Catches SIGINT, SIGTERM and SIGHUP. A signal that is ignored, as under nohup, stays ignored.
void catch_ends() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    if (::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_DFL) {
      std::signal(signal, end_by_signal);
    }
  }
}

/// Opens /dev/null for closed standard descriptors, so that files and sockets opened later do not
/// get their numbers. Writes to them still fail.
void occupy_standard_descriptors() {
  for (int descriptor = 0; descriptor <= STDERR_FILENO; ++descriptor) {
    // NOLINTBEGIN(cppcoreguidelines-pro-type-vararg): fcntl(2) and open(2) are what they are
    if (::fcntl(descriptor, F_GETFD) < 0) {
      static_cast<void>(::open("/dev/null", O_RDONLY));
    }
    // NOLINTEND(cppcoreguidelines-pro-type-vararg)
  }
}

}  // namespace

void leave_signals_to_launcher() {
  has_launcher = true;
}

void end_by_signal(int signal) {
  remove_temporary_files();
  if (!has_launcher) {
    tell_in_signal(signal == SIGINT    ? ": interrupted\n"
                   : signal == SIGTERM ? ": terminated\n"
                                       : ": hung up\n");
  }
  std::signal(signal, SIG_DFL);
  static_cast<void>(std::raise(signal));
}

int run_command(const std::string& program, const std::function<int()>& command) {
  occupy_standard_descriptors();
  std::set_new_handler(&fail_to_allocate);
  std::set_terminate(&end_where_memory_lacks);
  // A write beyond a file size limit then fails like any other, and no temporary file is left.
  std::signal(SIGXFSZ, SIG_IGN);
  catch_ends();
  const std::string name = as_typed(program);
  try {
    return command();
  } catch (const Error& error) {
    const bool is_tally = error.status() == ExitStatus::kNothingFits;
    const std::string text = is_tally ? shown_text(error.what()) : shown_line(error.what());
    std::cerr << name << ": " << text << (text.ends_with('\n') ? "" : "\n")
              << shown_text(error.picture());
    return static_cast<int>(error.status());
  } catch (const std::bad_alloc&) {
    std::cerr << name << ": out of memory\n";
    return static_cast<int>(ExitStatus::kRuntimeFault);
  } catch (const std::exception& error) {
    std::cerr << name << ": a bug of ours, please report it: " << shown_line(error.what()) << '\n';
    return static_cast<int>(ExitStatus::kBug);
  }
}

}  // namespace ptdp
