#include "tools/command_line.h"

#include <algorithm>
#include <iostream>

#include "cost_model/error.h"
#include "cost_model/spec/csv_table.h"
#include "cost_model/spec/near_miss.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

constexpr double kMostTokens = 1e18;

std::vector<std::string> flag_names(const po::options_description& flags) {
  std::vector<std::string> names;
  for (const auto& flag : flags.options()) {
    names.push_back("--" + flag->long_name());
  }
  return names;
}

std::size_t index_of_choice(const std::string& value, const std::vector<std::string>& choices,
                            const std::string& place) {
  const auto found = std::find(choices.begin(), choices.end(), value);
  if (found == choices.end()) {
    std::string known;
    for (const std::string& choice : choices) {
      known += (known.empty() ? "" : ", ") + choice;
    }
    throw Error(place + ": expected one of " + known + ", got \"" + value + '"' +
                did_you_mean(value, choices));
  }
  return static_cast<std::size_t>(found - choices.begin());
}

}  // namespace

CommandLine::CommandLine(int argc, const char* const* argv, const po::options_description& flags) {
  po::options_description all;
  all.add(flags);
  all.add_options()("word", po::value<std::vector<std::string>>(&words_));
  po::positional_options_description positions;
  positions.add("word", -1);
  const int style = po::command_line_style::unix_style &
                    ~static_cast<int>(po::command_line_style::allow_guessing);
  try {
    po::store(
        po::command_line_parser(argc, argv).options(all).positional(positions).style(style).run(),
        values_);
    po::notify(values_);
  } catch (const po::unknown_option& error) {
    throw Error("unknown flag " + error.get_option_name() +
                did_you_mean(error.get_option_name(), flag_names(flags)) + " (--help shows all)");
  } catch (const po::error& error) {
    throw Error(error.what());
  }
}

std::optional<std::string> CommandLine::text(const std::string& flag) const {
  if (!has(flag)) {
    return std::nullopt;
  }
  return values_[flag].as<std::string>();
}

std::optional<std::int64_t> CommandLine::count(const std::string& flag, std::int64_t low,
                                               std::int64_t high) const {
  const auto value = text(flag);
  return value.has_value() ? std::optional(parse_count(*value, low, high, "--" + flag))
                           : std::nullopt;
}

std::optional<double> CommandLine::number(const std::string& flag, double low, double high) const {
  const auto value = text(flag);
  return value.has_value() ? std::optional(parse_number(*value, low, high, "--" + flag))
                           : std::nullopt;
}

std::optional<std::size_t> CommandLine::choice(const std::string& flag,
                                               const std::vector<std::string>& choices) const {
  const auto value = text(flag);
  return value.has_value() ? std::optional(index_of_choice(*value, choices, "--" + flag))
                           : std::nullopt;
}

std::vector<std::size_t> CommandLine::choices(const std::string& flag,
                                              const std::vector<std::string>& known) const {
  std::vector<std::size_t> indices;
  auto rest = text(flag);
  while (rest.has_value()) {
    const std::size_t comma = rest->find(',');
    indices.push_back(index_of_choice(rest->substr(0, comma), known, "--" + flag));
    rest = comma == std::string::npos ? std::nullopt : std::optional(rest->substr(comma + 1));
  }
  return indices;
}

double parse_with_suffix(std::string_view text, const std::string& place) {
  double factor = 1.0;
  if (!text.empty()) {
    switch (text.back()) {
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
  return factor * parse_number(digits, 1e-6, kMostTokens / factor, place);
}

double parse_fraction(std::string_view text, const std::string& place) {
  const bool is_percent = text.ends_with('%');
  const std::string_view digits = is_percent ? text.substr(0, text.size() - 1) : text;
  return is_percent ? parse_number(digits, 0.0, 99.9, place) / 100.0
                    : parse_number(digits, 0.0, 0.999, place);
}

void print(std::string_view text) {
  std::cout << text << std::flush;
  if (!std::cout) {
    throw Error("standard output: cannot write", ExitStatus::kOutputFailed);
  }
}

int run_command(const std::string& program, const std::function<int()>& command) {
  try {
    return command();
  } catch (const Error& error) {
    std::cerr << program << ": " << error.what() << '\n';
    return static_cast<int>(error.status());
  } catch (const std::exception& error) {
    std::cerr << program << ": a bug of ours, please report it: " << error.what() << '\n';
    return static_cast<int>(ExitStatus::kBug);
  }
}

}  // namespace ptdp
