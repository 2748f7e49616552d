#include "tools/shared/command_table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cost_model/error.h"
#include "cost_model/text/as_typed.h"
#include "cost_model/text/did_you_mean.h"
#include "cost_model/text/in_quotes.h"
#include "tools/shared/build_facts.h"
#include "tools/shared/flag_synonyms.h"

namespace ptdp {
namespace {

namespace po = boost::program_options;

struct StatusMeaning {
  ExitStatus status;
  const char* meaning;
};

constexpr std::array kStatusMeanings = {
    StatusMeaning{ExitStatus::kDone, "done"},
    StatusMeaning{ExitStatus::kBug, "a bug of ours"},
    StatusMeaning{ExitStatus::kBadInput, "bad usage or input"},
    StatusMeaning{ExitStatus::kNothingFits, "nothing fits"},
    StatusMeaning{ExitStatus::kRuntimeFault, "a fault while running"},
    StatusMeaning{ExitStatus::kOutputFailed, "output could not be written"},
    StatusMeaning{ExitStatus::kOutsideTolerance, "a validation missed its tolerance"}};

/// Returns text that roff prints as it is. A line that begins like a request is kept from being
/// one.
std::string in_roff(const std::string& text) {
  std::string escaped;
  bool is_line_start = true;
  for (const char c : text) {
    if (is_line_start && (c == '.' || c == '\'')) {
      escaped += "\\&";
    }
    escaped += c == '\\'  ? "\\e"
               : c == '-' ? "\\-"
               : c == '~' ? "\\(ti"
               : c == '^' ? "\\(ha"
                          : std::string(1, c);
    is_line_start = c == '\n';
  }
  return escaped;
}

/// Returns the parts of a text between empty lines, each with a line feed at its end.
std::vector<std::string> paragraphs(const std::string& text) {
  std::vector<std::string> parts(1);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) {
      parts.back() += line + "\n";
    } else if (!parts.back().empty()) {
      parts.emplace_back();
    }
  }
  if (parts.back().empty()) {
    parts.pop_back();
  }
  return parts;
}

/// Returns the lines of usage without "usage: " and the blanks below it.
std::string synopsis(const std::string& usage) {
  constexpr std::size_t indent = 7;
  std::string text;
  std::istringstream lines(usage);
  for (std::string line; std::getline(lines, line);) {
    text += line.substr(std::min(indent, line.size())) + "\n";
  }
  return text;
}

/// Returns a paragraph as roff fills it, or line by line where a line of it is indented.
std::string paragraph_in_roff(const std::string& text) {
  const bool has_indented = text.starts_with(' ') || text.find("\n ") != std::string::npos;
  return has_indented ? ".PP\n.nf\n" + in_roff(text) + ".fi\n" : ".PP\n" + in_roff(text);
}

std::string flag_in_roff(const po::option_description& flag) {
  const FlagValue value = value_of(flag);
  const std::string short_name = short_name_of(flag);
  std::string text = ".TP\n";
  if (!short_name.empty()) {
    text += "\\fB" + in_roff("-" + short_name) + "\\fR, ";
  }
  text += "\\fB" + in_roff("--" + flag.long_name()) + "\\fR";
  return text + (value.name.empty() ? "" : " \\fI" + in_roff(value.name) + "\\fR") + "\n" +
         in_roff(flag.description()) + "\n";
}

/// Returns the help of all flags, after `before`.
std::string help_of_flags(const std::string& before, const po::options_description& flags) {
  std::ostringstream text;
  text << before << flags << synonyms_help(flags);
  return as_typed(text.str());
}

/// Returns the help of the flag of that name or letter. Throws Error, with near misses, if there is
/// none.
std::string help_of_flag(const std::string& name, const CommandTable& table) {
  const po::options_description flags = table.flags();
  const std::string known = known_flag(name, flags).value_or("");
  std::vector<std::string> names;
  for (const auto& flag : flags.options()) {
    if (flag->long_name() == known || short_name_of(*flag) == name) {
      po::options_description alone;
      alone.add(flag);
      return help_of_flags("", alone);
    }
    names.push_back(flag->long_name());
  }
  for (const FirstWord& word : table.first_words) {
    names.push_back(word.name);
  }
  throw Error("--help: expected the name of a flag or command, all, man or json, got " +
              in_quotes(name) + did_you_mean(name, names));
}

/// Returns the answer to --help.
std::string help(const CommandLine& line, const CommandTable& table) {
  std::string topic = line.help_topic();
  if (topic.empty() && table.operand.name.empty() && !line.words().empty()) {
    topic = line.words().front();
  }
  if (topic == "man") {
    return man_page(table);
  }
  if (topic == "json") {
    return flags_document(table);
  }
  const bool is_usual =
      topic.empty() ||
      std::ranges::find(table.first_words, topic, &FirstWord::name) != table.first_words.end();
  if (topic == "all" || (is_usual && !table.brief_help)) {
    return help_of_flags(table.usage, table.flags());
  }
  return is_usual ? as_typed(table.brief_help(topic)) : help_of_flag(topic, table);
}

}  // namespace

std::string CommandTable::summary() const {
  for (const CommandSummary& entry : kCommandSummaries) {
    if (name.ends_with("-" + std::string(entry.word))) {
      return std::string(entry.summary);
    }
  }
  return "plan, simulate, run and validate the training of large transformers";
}

po::options_description CommandTable::flags() const {
  po::options_description all;
  for (const TitledFlags& group : groups) {
    all.add(group.flags);
  }
  return all;
}

std::optional<std::string> standard_answer(const CommandLine& line, const CommandTable& table) {
  if (line.has("help")) {
    return help(line, table);
  }
  if (line.has("version")) {
    return table.name + " " + PTDP_VERSION + "\n" + build_facts();
  }
  return std::nullopt;
}

std::string man_page(const CommandTable& table) {
  std::string title = table.name;
  for (char& c : title) {
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  const std::vector<std::string> parts = paragraphs(table.usage);
  std::string text = ".TH " + in_roff(title) + R"( 1 "" "ptdp )" + PTDP_VERSION +
                     R"(" "User Commands")" + "\n.SH NAME\n" + in_roff(table.name + " - ") +
                     in_roff(table.summary()) + "\n" + ".SH SYNOPSIS\n.nf\n" +
                     in_roff(synopsis(parts.front())) + ".fi\n.SH DESCRIPTION\n";
  for (std::size_t i = 1; i < parts.size(); ++i) {
    text += paragraph_in_roff(parts[i]);
  }
  text += ".SH OPTIONS\n";
  for (const TitledFlags& group : table.groups) {
    text += table.groups.size() == 1 ? "" : ".SS " + in_roff(group.title) + "\n";
    for (const auto& flag : group.flags.options()) {
      text += flag_in_roff(*flag);
    }
  }
  if (const std::string synonyms = synonyms_help(table.flags()); !synonyms.empty()) {
    text += ".SH OTHER NAMES\n";
    for (const std::string& part : paragraphs(synonyms)) {
      text += paragraph_in_roff(part);
    }
  }
  text += ".SH EXIT STATUS\n";
  for (const StatusMeaning& entry : kStatusMeanings) {
    text += ".TP\n\\fB" + std::to_string(static_cast<int>(entry.status)) + "\\fR\n" +
            entry.meaning + "\n";
  }
  return text;
}

std::string flags_document(const CommandTable& table) {
  nlohmann::ordered_json flags = nlohmann::ordered_json::array();
  for (const TitledFlags& group : table.groups) {
    for (const auto& flag : group.flags.options()) {
      const FlagValue value = value_of(*flag);
      flags.push_back({{"flag", flag->long_name()},
                       {"short", short_name_of(*flag)},
                       {"value", value.name},
                       {"choices", value.choices},
                       {"repeats", value.is_repeated},
                       {"group", group.title},
                       {"help", flag->description()}});
    }
  }
  return nlohmann::ordered_json{{"schema", "ptdp.flags/1"},
                                {"tool_version", PTDP_VERSION},
                                {"command", table.name},
                                {"summary", table.summary()},
                                {"flags", flags}}
             .dump(2) +
         "\n";
}

}  // namespace ptdp
