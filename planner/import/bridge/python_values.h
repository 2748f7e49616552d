// Values as Python and Hydra spell them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/import/documents.h"

namespace ptdp {

/// A keyword argument of a call: "num_layers=4".
struct PythonArgument {
  std::string name;
  std::string value;
};
/// A call as it is written: "CommOverlapConfig(tp_comm_overlap=True)".
struct PythonCall {
  std::string name;  ///< Empty: the text is no call of a name.
  std::vector<PythonArgument> arguments = {};
  std::string first = {};  ///< The first argument, if it has no name.
};
/// Reads a call. Arguments without a name, but for the first, are passed over.
[[nodiscard]] PythonCall python_call(std::string_view text);

/// An assignment as it is written: "cfg.train.global_batch_size *= 2".
struct PythonAssignment {
  std::string target;
  std::string value;
  bool is_plain = true;  ///< Whether it is "=", and no "+=" or the like.
};
/// Reads an assignment, with blanks around its sign or without; a type behind the target is left
/// out. Returns nullopt for another statement.
[[nodiscard]] std::optional<PythonAssignment> python_assignment(std::string_view text);

/// Returns what stands behind "if X:", "for X in Y:" and their like on one line; empty if nothing.
[[nodiscard]] std::string body_on_the_line(std::string_view text);

/// Returns how many brackets a line opens beyond those that it closes; texts do not count.
[[nodiscard]] int open_brackets(std::string_view line);
/// Returns a line without its comment and without blanks at both ends.
[[nodiscard]] std::string without_comment(std::string_view line);

/// Sets a path to a literal: a number, a text, True, False, a list of those, or a name such as
/// torch.bfloat16. None removes the path. Anything else is set as unknown
/// (planner/import/shell/shell_expansion.h).
void set_python_value(const std::string& path, std::string_view text, DocumentSettings& settings);

/// Sets a path to a value of Hydra's: as Python's, and words need no quotes.
void set_override_value(const std::string& path, std::string_view text, DocumentSettings& settings);

}  // namespace ptdp
