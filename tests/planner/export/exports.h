// What tests of exporters share.
#pragma once

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "planner/export/exporter.h"
#include "tests/support/scenarios.h"

namespace ptdp {

/// Returns the plan of a configuration for the GPUs that it uses.
inline Plan plan_of(const Scenario& scenario, const ParallelConfig& config) {
  return make_plan({scenario, config}, config.world_size(), 0.0, {});
}

/// Returns a plan of llama-3-8b on H100 GPUs with a batch of 128 sequences.
inline Plan llama_plan(const std::string& stack, const ParallelConfig& config) {
  const Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", stack, 128);
  return make_plan({scenario, config}, config.world_size(), 0.0, {});
}

/// Returns the names of the fields that are refused, in order.
inline std::vector<std::string> fields_of(const std::vector<ExportRefusal>& refusals) {
  std::vector<std::string> fields;
  fields.reserve(refusals.size());
  for (const ExportRefusal& refusal : refusals) {
    fields.push_back(refusal.field);
  }
  return fields;
}

/// Returns an exported file's content; empty if there is none of that name.
inline std::string content_of(const Export& exported, const std::string& name) {
  for (const ExportedFile& file : exported.files) {
    if (file.name == name) {
      return file.content;
    }
  }
  return "";
}

/// Returns the names that a framework knows, from tests/golden/frameworks.
inline std::set<std::string> known_names(const std::string& file) {
  std::ifstream in(PTDP_SOURCE_DIR "/tests/golden/frameworks/" + file);
  std::set<std::string> names;
  for (std::string line; std::getline(in, line);) {
    names.insert(line);
  }
  return names;
}

/// Returns the keys of a YAML file of two blanks an indent, as paths: "optimizer.zero_stage".
inline std::vector<std::string> yaml_paths(const std::string& text) {
  std::vector<std::string> paths;
  std::vector<std::string> parents;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    const std::size_t indent = line.find_first_not_of(' ');
    parents.resize(indent / 2);
    parents.push_back(line.substr(indent, line.find(':') - indent));
    std::string path;
    for (const std::string& part : parents) {
      path += (path.empty() ? "" : ".") + part;
    }
    paths.push_back(path);
    begin = end + 1;
  }
  return paths;
}

}  // namespace ptdp
