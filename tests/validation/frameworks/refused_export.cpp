// Writes an export of a plan although it is refused, to see what the framework says of it.
// usage: refused_export PLAN.json NAME DIRECTORY
#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <span>
#include <string_view>

#include "cost_model/text/files.h"
#include "planner/export/exporter.h"

namespace {

int write_refused(const std::filesystem::path& file, std::string_view name,
                  const std::filesystem::path& directory) {
  const auto* const exporter = std::ranges::find(ptdp::kExporters, name, &ptdp::Exporter::name);
  if (exporter == ptdp::kExporters.end()) {
    std::cerr << "refused_export: no exporter " << name << '\n';
    return 2;
  }
  std::filesystem::create_directories(directory);
  for (const ptdp::ExportedFile& written : exporter->write(ptdp::read_plan(file)).files) {
    ptdp::write_file_atomically(directory / written.name, written.content);
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  const std::span arguments(words, static_cast<std::size_t>(count));
  if (count != 4) {
    std::cerr << "usage: refused_export PLAN.json NAME DIRECTORY\n";
    return 2;
  }
  try {
    return write_refused(arguments[1], arguments[2], arguments[3]);
  } catch (const std::exception& error) {
    std::cerr << "refused_export: " << error.what() << '\n';
    return 2;
  }
}
