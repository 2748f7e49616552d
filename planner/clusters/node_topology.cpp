#include "planner/clusters/node_topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "cost_model/error.h"
#include "planner/clusters/text_lines.h"

namespace ptdp {
namespace {

/// Returns the number behind `prefix`: 12 of "NV12"; nullopt for any other word.
std::optional<int> numbered(std::string_view word, std::string_view prefix) {
  int number = 0;
  if (!word.starts_with(prefix) || word.size() == prefix.size()) {
    return std::nullopt;
  }
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data() + prefix.size(), end, number);
  return error == std::errc{} && stop == end ? std::optional(number) : std::nullopt;
}

/// Returns whether a word is a cell of the matrix.
bool is_link(std::string_view word) {
  constexpr std::array<std::string_view, 6> kOverPcie = {"X", "SYS", "NODE", "PHB", "PXB", "PIX"};
  return numbered(word, "NV") ||
         std::find(kOverPcie.begin(), kOverPcie.end(), word) != kOverPcie.end();
}

/// What the rows of GPUs say, by the number of links of a pair.
struct LinkCounts {
  std::map<int, int> pairs;  ///< Number of cells with so many NVLinks.
  int over_pcie = 0;         ///< Cells of GPUs that meet over PCIe.
};

/// Takes the cells between GPUs of one GPU's row.
void count_links(const std::vector<std::string>& words, int num_gpus, LinkCounts& links) {
  for (int i = 0; i < num_gpus && i + 1 < static_cast<int>(words.size()); ++i) {
    const std::string& cell = words[static_cast<std::size_t>(i) + 1];
    if (const std::optional<int> count = numbered(cell, "NV")) {
      ++links.pairs[*count];
    } else if (cell != "X") {
      ++links.over_pcie;
    }
  }
}

/// Says where pairs have fewer links than others, which in a switched node means broken ones.
void warn_of_uneven_links(const LinkCounts& links, NodeTopology& node) {
  if (links.pairs.size() > 1) {
    node.warnings.push_back(
        fmt::format("{} of {} pairs of GPUs have NV{}, others NV{}: links may be down, or GPUs are "
                    "joined without switches",
                    links.pairs.begin()->second / 2, (node.gpus * (node.gpus - 1)) / 2,
                    links.pairs.begin()->first, links.pairs.rbegin()->first));
  }
  if (!links.pairs.empty() && links.over_pcie > 0) {
    node.warnings.push_back(
        fmt::format("{} pairs of GPUs meet over PCIe beside NVLink", links.over_pcie / 2));
  }
}

}  // namespace

NodeTopology read_topology(std::string_view text, const std::string& place) {
  NodeTopology node;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> columns;
  std::vector<std::string> names;
  for (const std::string& line : printed_lines(text)) {
    const std::vector<std::string> words = printed_words(line);
    if (words.empty()) {
      continue;
    }
    if (numbered(words[0], "GPU") && words.size() > 1) {
      if (is_link(words[1])) {
        rows.push_back(words);
      } else {
        columns = words;  // the heading
      }
    } else if (words.size() == 2 && words[0].ends_with(':') &&
               numbered(words[0].substr(0, words[0].size() - 1), "NIC")) {
      names.push_back(words[1]);
    }
  }
  if (rows.empty()) {
    throw Error(place + ": expected the rows of GPUs that `nvidia-smi topo -m` prints, got none");
  }
  node.gpus = static_cast<int>(rows.size());
  LinkCounts links;
  for (const std::vector<std::string>& row : rows) {
    count_links(row, node.gpus, links);
  }
  node.nvlinks = links.pairs.empty() ? 0 : links.pairs.rbegin()->first;
  node.is_switched = links.pairs.size() == 1 && links.over_pcie == 0;
  warn_of_uneven_links(links, node);
  if (!names.empty()) {
    node.nics = names;
  } else {
    std::copy_if(
        columns.begin(), columns.end(), std::back_inserter(node.nics),
        [](const std::string& name) { return numbered(name, "NIC") || name.starts_with("mlx5_"); });
  }
  return node;
}

}  // namespace ptdp
