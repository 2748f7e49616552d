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

constexpr int kMostLinks = 64;  // of a pair; a Blackwell has 18
constexpr int kMostNumber = 1'000'000;

/// Returns the number behind `prefix`, digits alone: 12 of "NV12"; nullopt for any other word.
std::optional<int> numbered(std::string_view word, std::string_view prefix) {
  int number = 0;
  if (!word.starts_with(prefix) || word.size() == prefix.size() || word[prefix.size()] == '-') {
    return std::nullopt;
  }
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data() + prefix.size(), end, number);
  return error == std::errc{} && stop == end && number <= kMostNumber ? std::optional(number)
                                                                      : std::nullopt;
}

/// Returns the NVLinks of a cell; nullopt for a cell without any, or with more than there are.
std::optional<int> nvlinks_in(std::string_view word) {
  const std::optional<int> links = numbered(word, "NV");
  return links && *links >= 1 && *links <= kMostLinks ? links : std::nullopt;
}

/// Returns whether a word is a cell of the matrix.
bool is_link(std::string_view word) {
  constexpr std::array<std::string_view, 6> over_pcie = {"X", "SYS", "NODE", "PHB", "PXB", "PIX"};
  return nvlinks_in(word) || std::find(over_pcie.begin(), over_pcie.end(), word) != over_pcie.end();
}

/// What the rows of GPUs say, by the number of links of a pair.
struct LinkCounts {
  std::map<int, int> pairs;                          ///< Number of cells with so many NVLinks.
  int over_pcie = 0;                                 ///< Cells of GPUs that meet over PCIe.
  int most_of_gpu = 0;                               ///< Most NVLinks in one row.
  std::vector<std::vector<std::size_t>> peers = {};  ///< Of each row, the columns with NVLinks.
};

/// Returns whether NVLink leads from the first GPU to all others, over peers.
bool joins_all(const LinkCounts& links) {
  std::vector<bool> is_reached(links.peers.size(), false);
  std::vector<std::size_t> next = {0};
  while (!next.empty()) {
    const std::size_t gpu = next.back();
    next.pop_back();
    if (gpu < is_reached.size() && !is_reached[gpu]) {
      is_reached[gpu] = true;
      next.insert(next.end(), links.peers[gpu].begin(), links.peers[gpu].end());
    }
  }
  return std::find(is_reached.begin(), is_reached.end(), false) == is_reached.end();
}

/// Takes the cells between GPUs of one GPU's row.
void count_links(const std::vector<std::string>& words, int num_gpus, LinkCounts& links) {
  int of_gpu = 0;
  std::vector<std::size_t>& peers = links.peers.emplace_back();
  for (int i = 0; i < num_gpus && i + 1 < static_cast<int>(words.size()); ++i) {
    const std::string& cell = words[static_cast<std::size_t>(i) + 1];
    if (const std::optional<int> count = nvlinks_in(cell)) {
      ++links.pairs[*count];
      of_gpu += *count;
      peers.push_back(static_cast<std::size_t>(i));
    } else if (cell != "X") {
      ++links.over_pcie;
    }
  }
  links.most_of_gpu = std::max(links.most_of_gpu, of_gpu);
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
    throw Error(
        place +
        ": expected the rows of GPUs that `nvidia-smi topo -m` prints, got none; --link and "
        "--gpus-per-node say it for other GPUs");
  }
  node.gpus = static_cast<int>(rows.size());
  LinkCounts links;
  for (const std::vector<std::string>& row : rows) {
    count_links(row, node.gpus, links);
  }
  node.nvlinks = links.pairs.empty() ? 0 : links.pairs.rbegin()->first;
  node.links_of_gpu = links.most_of_gpu;
  node.pairs_over_pcie = links.over_pcie / 2;
  node.is_joined = joins_all(links);
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
