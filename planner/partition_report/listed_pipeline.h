// What any cut of a list of layers takes, holds and sends, with the degrees of a job.
#pragma once

#include <vector>

#include "cost_model/iteration/step_builder.h"
#include "cost_model/memory/memory.h"
#include "cost_model/partition/partition.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "planner/partition_report/layer_list.h"

namespace ptdp {

/// The layers of a list one by one, embedding and logits among them, with sums over those before
/// each.
class ListedPipeline {
 public:
  /// Takes a list that check_searchable() accepts.
  explicit ListedPipeline(const LayerList& list);

  /// Returns the number of layers, embedding and logits counted.
  [[nodiscard]] int num_layers() const { return static_cast<int>(outputs_.size()); }
  /// Returns the time of a microbatch through all layers, forward and backward.
  [[nodiscard]] Seconds time() const { return sums_.back().forward + sums_.back().backward; }
  /// Returns the time of a microbatch through the layer that takes longest.
  [[nodiscard]] Seconds longest_layer() const;
  /// Returns the parameters of all layers on a GPU that holds its tp shard of them.
  [[nodiscard]] double parameters() const { return sums_.back().parameters; }
  /// Returns the largest message that a stage could send.
  [[nodiscard]] Bytes largest_output() const;

  /// Returns what the virtual stages of `sizes` layers each take, hold and send. Each forward pass
  /// takes the stack's overhead besides.
  [[nodiscard]] StageLoads loads(const PlannedJob& job, const std::vector<int>& sizes) const;
  /// Returns what a cut is made by: the times of the layers, their model state with the job's
  /// degrees, and what they keep of a microbatch.
  [[nodiscard]] std::vector<LayerCost> costs(const PlannedJob& job) const;
  /// Returns the memory of a GPU of each pipeline rank. Activations are those of the schedule's
  /// peak, found in its orders where ranks have several chunks.
  [[nodiscard]] std::vector<MemoryBreakdown> memory(const PlannedJob& job,
                                                    const std::vector<int>& sizes) const;
  /// Returns whether every rank keeps to `limit`, but for the bytes that rounding takes.
  [[nodiscard]] bool fits(const PlannedJob& job, const std::vector<int>& sizes, Bytes limit) const;
  /// Returns whether a mean rank exceeds `limit`, so that no cut can fit.
  [[nodiscard]] bool exceeds(const PlannedJob& job, Bytes limit) const;
  /// Returns the request for a cut that keeps to `limit` on each GPU, of which the reserve and the
  /// buffers of the largest messages leave the layers the rest.
  [[nodiscard]] PartitionRequest request(const PlannedJob& job, Bytes limit) const;

 private:
  /// What layers take, hold and keep together.
  struct Sums {
    Seconds forward;
    Seconds backward;
    double parameters = 0.0;  ///< Parameters on a GPU.
    Bytes activations;        ///< What a GPU keeps of a microbatch.
  };
  /// Returns the sums of the layers `first` … `end`−1.
  [[nodiscard]] Sums between(int first, int end) const;
  /// Returns the sums of each virtual stage.
  [[nodiscard]] std::vector<Sums> of_stages(const std::vector<int>& sizes) const;
  /// Returns the memory of each rank with `kept` activations.
  [[nodiscard]] std::vector<MemoryBreakdown> memory_with(const PlannedJob& job,
                                                         const std::vector<Sums>& stages,
                                                         const std::vector<Bytes>& kept) const;

  std::vector<Sums> layers_;    // each layer's own: differences of sums of equal layers differ
  std::vector<Sums> sums_;      // of the layers before each, and of all
  std::vector<Bytes> outputs_;  // by layer
};

}  // namespace ptdp
