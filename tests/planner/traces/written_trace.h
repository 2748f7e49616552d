// Writes small traces as PyTorch's profiler does.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace ptdp {

/// Collects the events of a trace; all times are in microseconds.
class WrittenTrace {
 public:
  using json = nlohmann::ordered_json;

  /// Adds work of the GPU, with `more` beside device and stream in its arguments.
  void work(const std::string& category, const std::string& name, double start, double length,
            int stream, const json& more = json::object()) {
    json args = {{"device", 0}, {"stream", stream}};
    args.update(more);
    add(category, name, start, length, std::move(args));
  }
  /// Adds a kernel with a launch at `launched`, of which both have a number.
  void kernel(const std::string& name, double start, double length, int stream, double launched,
              json more = json::object()) {
    more["correlation"] = ++launches_;
    work("kernel", name, start, length, stream, more);
    add("cuda_runtime", "cudaLaunchKernel", launched, 1.0, {{"correlation", launches_}});
  }
  void operation(const std::string& name, int number, const json& shapes) {
    add("cpu_op", name, 0.0, 1.0, {{"External id", number}, {"Input Dims", shapes}});
  }
  void step(int number, double start, double length) {
    add("user_annotation", "ProfilerStep#" + std::to_string(number), start, length, json::object());
  }
  void add(const std::string& category, const std::string& name, double start, double length,
           json args) {
    events_.push_back({{"ph", "X"},
                       {"cat", category},
                       {"name", name},
                       {"pid", 0},
                       {"tid", 7},
                       {"ts", start},
                       {"dur", length},
                       {"args", std::move(args)}});
  }
  /// Sets what stands beside the events.
  void header(const std::string& key, json value) { header_[key] = std::move(value); }

  [[nodiscard]] std::string text() const {
    json document = header_;
    document["traceEvents"] = events_;
    return document.dump();
  }

 private:
  json header_ = {{"schemaVersion", 1}};
  json events_ = json::array();
  int launches_ = 1000;
};

}  // namespace ptdp
