// What a Python file assigns to a ConfigContainer, read line by line.
#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "cost_model/error.h"
#include "cost_model/text/in_quotes.h"
#include "planner/import/bridge/bridge_settings.h"
#include "planner/import/bridge/python_values.h"
#include "planner/import/shell/shell_expansion.h"

namespace ptdp {
namespace {

/// Parts of a ConfigContainer that are read.
constexpr auto kParts = std::to_array<std::string_view>(
    {"model", "train", "ddp", "dist", "optimizer", "mixed_precision", "comm_overlap", "dataset",
     "tokenizer", "peft", "scheduler", "logger", "checkpoint", "rng"});

bool is_part(std::string_view name) {
  return std::ranges::find(kParts, name) != kParts.end();
}

/// A statement of a Python file: lines joined until all brackets are closed.
struct Statement {
  int line = 0;
  std::size_t indent = 0;
  std::string text;
};

/// Returns the statements, without comments and texts of several lines.
std::vector<Statement> statements_of(std::string_view text, const std::string& place) {
  std::vector<Statement> statements;
  int line_number = 0;
  int open = 0;
  std::string_view within;  // the quotes of a text of several lines
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    bool is_within = !within.empty();
    for (const std::string_view quotes : {std::string_view(R"(""")"), std::string_view("'''")}) {
      for (std::size_t at = line.find(quotes); at != std::string_view::npos;
           at = line.find(quotes, at + 3)) {
        is_within = true;
        within = within.empty() ? quotes : within == quotes ? std::string_view() : within;
      }
    }
    const std::size_t indent = line.find_first_not_of(" \t");
    if (is_within || indent == std::string_view::npos) {
      continue;
    }
    const std::string code = without_comment(line);
    if (code.empty()) {
      continue;
    }
    if (open > 0) {
      statements.back().text += " " + code;
    } else {
      statements.push_back({line_number, indent, code});
    }
    open = std::max(open + open_brackets(code), 0);
  }
  if (open > 0) {
    throw Error(place + ": line " + std::to_string(statements.back().line) +
                ": expected its brackets to be closed");
  }
  return statements;
}

/// Returns the name of a function that a statement begins; empty for other statements.
std::string function_of(const Statement& statement) {
  const std::string& text = statement.text;
  return text.starts_with("def ") ? text.substr(4, text.find('(') - 4) : "";
}

class PythonReader {
 public:
  explicit PythonReader(const std::string& place) : place_(place) {}

  BridgeFile read(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) {
      enter(statement);
      if (const std::string name = function_of(statement); !name.empty()) {
        begin_function(name, statement);
      } else {
        assign(statement);
      }
    }
    for (auto& [path, values] : last_) {
      file_.settings[path] = std::move(values);
    }
    // A constant of another module is often the tokenizer's size; the model's own may be there.
    const auto size = file_.settings.find("tokenizer.vocab_size");
    if (size != file_.settings.end() && !size->second.empty() &&
        unknown_part(size->second.front())) {
      file_.settings.erase(size);
    }
    return std::move(file_);
  }

 private:
  /// Leaves functions that end before a statement, and finds the indent of a function's body.
  void enter(const Statement& statement) {
    if (statement.indent <= function_indent_ && !function_.empty()) {
      function_.clear();
      body_indent_ = 0;
    }
    if (needs_indent_) {
      body_indent_ = statement.indent;
      needs_indent_ = false;
    }
  }
  void begin_function(const std::string& name, const Statement& statement) {
    function_ = name;
    function_indent_ = statement.indent;
    needs_indent_ = true;
  }

  void assign(const Statement& statement) {
    const std::string& text = statement.text;
    if (text.starts_with("return ")) {
      constructed(statement, text.substr(7));
      return;
    }
    if (const std::string body = body_on_the_line(text); !body.empty()) {
      assign({statement.line, statement.indent + 1, body});
      return;
    }
    const auto assignment = python_assignment(text);
    if (!assignment) {
      refuse_setattr(statement);
      return;
    }
    const auto& [target, value, is_plain] = *assignment;
    if (target == "SETTINGS") {
      settings(value);
      return;
    }
    if (target.find_first_of(" ([,") != std::string::npos) {
      return;
    }
    if (value == "tuple(" + target + ")" || value == "list(" + target + ")") {
      return;  // another type, and the same items
    }
    const std::size_t dot = target.find('.');
    if (dot == std::string::npos) {
      constructed(statement, value);
      return;
    }
    const std::string path = target.substr(dot + 1);
    if (!is_plain && is_part(path.substr(0, path.find('.')))) {
      refuse(statement, "expected \"" + target + " = ...\", got " + in_quotes(text));
    }
    if (is_part(path)) {
      assign_part(statement, path, value);
    } else if (is_part(path.substr(0, path.find('.')))) {
      set(statement, path, value);
    }
  }

  [[noreturn]] void refuse(const Statement& statement, const std::string& why) const {
    throw Error(place_ + ": line " + std::to_string(statement.line) + ": " + why);
  }
  /// Throws Error for "setattr(cfg.model, ...)".
  void refuse_setattr(const Statement& statement) const {
    const PythonCall call = python_call(statement.text);
    const std::size_t dot = call.first.find('.');
    if (call.name == "setattr" && dot != std::string::npos && is_part(call.first.substr(dot + 1))) {
      refuse(statement, "expected an assignment, got " + in_quotes(statement.text));
    }
  }

  /// Reads "ConfigContainer(model=..., train=...)".
  void constructed(const Statement& statement, const std::string& value) {
    const PythonCall call = python_call(value);
    if (call.name != "ConfigContainer") {
      return;
    }
    file_.has_whole_rest = true;
    for (const PythonArgument& argument : call.arguments) {
      if (is_part(argument.name)) {
        assign_part(statement, argument.name, argument.value);
      }
    }
  }

  /// Reads what a part is made of: "GPTModelProvider(num_layers=4)", or a precision's name.
  void assign_part(const Statement& statement, const std::string& part, const std::string& value) {
    const PythonCall call = python_call(value);
    if (part == "model") {
      // Other providers have defaults of their own.
      file_.has_whole_model = call.name == "GPTModelProvider" || call.name == "MLAModelProvider";
      if (!file_.has_whole_model && file_.recipe.empty()) {
        const std::size_t quote = value.find('"');
        file_.recipe = quote == std::string::npos
                           ? call.name
                           : value.substr(quote + 1, value.find('"', quote + 1) - quote - 1);
      }
    }
    if (call.name.empty()) {
      if (part == "mixed_precision" || part == "peft" || part == "comm_overlap") {
        set(statement, part, value);
      }
      return;
    }
    if (call.name == "get_mixed_precision_config") {
      set(statement, part, call.first);
    } else if (part == "peft" || (part == "mixed_precision" && call.name.ends_with("_mixed"))) {
      set(statement, part, '"' + call.name + '"');
    }
    if (value.find("(**") != std::string::npos || value.find(", **") != std::string::npos) {
      file_.notes.push_back("line " + std::to_string(statement.line) + ": what ** adds to " + part +
                            " is not read");
    }
    for (const PythonArgument& argument : call.arguments) {
      set(statement, part + "." + argument.name, argument.value);
    }
  }

  /// Reads the dictionary of paths that `ptdp-plan export` writes. It counts more than what stands
  /// in the constructor, whose values it replaces.
  void settings(const std::string& value) {
    const std::size_t begin = value.find('{');
    const std::size_t end = value.rfind('}');
    if (begin == std::string::npos || end == std::string::npos || end < begin) {
      return;
    }
    // A dictionary's items are read as arguments: "path": value becomes path=value.
    std::string items = value.substr(begin + 1, end - begin - 1);
    for (std::size_t at = items.find("\": "); at != std::string::npos;
         at = items.find("\": ", at)) {
      const std::size_t quote = items.rfind('"', at - 1);
      if (quote == std::string::npos) {
        break;
      }
      const std::string path = items.substr(quote + 1, at - quote - 1);
      items.replace(quote, at + 3 - quote, path + "=");
      at = quote + path.size() + 1;
    }
    for (const PythonArgument& argument : python_call("f(" + items + ")").arguments) {
      set_python_value(argument.name, argument.value, last_);
      if (!last_.contains(argument.name)) {
        file_.settings.erase(argument.name);  // None
      }
    }
  }

  void set(const Statement& statement, const std::string& path, const std::string& value) {
    const auto found = setters_.find(path);
    DocumentSettings one;
    const bool is_conditional = statement.indent > body_indent_;
    if (is_conditional) {
      one[path] = {unknown_value("the condition above line " + std::to_string(statement.line))};
    } else {
      set_python_value(path, value, one);
    }
    const auto old = file_.settings.find(path);
    const bool is_same =
        old == file_.settings.end() ? one.empty() : !one.empty() && old->second == one[path];
    if (found != setters_.end() && found->second != function_ && !is_same) {
      throw Error(place_ + ": line " + std::to_string(statement.line) + ": " + path +
                  ": expected one configuration, got those of " + in_quotes(found->second) +
                  " and " + in_quotes(function_));
    }
    setters_[path] = function_;
    file_.settings.erase(path);
    file_.settings.merge(one);
  }

  const std::string& place_;
  BridgeFile file_;
  DocumentSettings last_;
  std::map<std::string, std::string, std::less<>> setters_;  ///< The function that set a path.
  std::string function_;
  std::size_t function_indent_ = 0;
  std::size_t body_indent_ = 0;
  bool needs_indent_ = false;
};

}  // namespace

bool is_bridge_python(std::string_view text) {
  return !text.starts_with("#!/bin") &&
         (text.starts_with("from megatron.bridge") || text.starts_with("import megatron.bridge") ||
          text.find("\nfrom megatron.bridge") != std::string_view::npos ||
          text.find("\nimport megatron.bridge") != std::string_view::npos);
}

BridgeFile bridge_python(std::string_view text, const std::string& place) {
  return PythonReader(place).read(statements_of(text, place));
}

}  // namespace ptdp
