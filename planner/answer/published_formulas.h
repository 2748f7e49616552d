// The closed formulas of SC21 (arXiv:2104.04473), each with its value for a plan.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost_model/text/object_writer.h"
#include "planner/plan/plan.h"

namespace ptdp {

/// A formula of SC21 with its value for a plan.
struct PublishedFormula {
  std::string_view key;       ///< Name in files.
  std::string_view name;      ///< What the value is, in plain English.
  std::string_view equation;  ///< The formula in the paper's symbols.
  std::string_view place;     ///< Where the paper has it: "section 2.2.1", "equation 3".
  std::string_view unit;  ///< Unit of the value: "s", "FLOP" or a thing counted; "" for a ratio.
  double value = 0.0;
};

/// Returns the formulas that hold for the plan, with its figures put in:
///
///   bubble_fraction        (p−1)/m, (p−1)/(v·m) with chunks: for schedules whose bubble is
///                          (p−1)(F+B) of a stage, not for those that split the backward pass
///   tensor_pipeline_bubble_fraction  (n/t−1)/m: with one replica, d = 1, and one chunk
///   data_pipeline_bubble_fraction    (n−d)/b', b' = B/b: for t = 1 and one chunk
///   ring_all_reduce_share  (d−1)/d: with replicas
///   batch_time             equation 1, (b'/b+p−1)(t_f+t_b), b' = B/d: with one chunk. t_f + t_b is
///                          what the pacing rank takes for a microbatch, with the collectives and
///                          the recomputation within its passes
///   checkpoints            c* = sqrt(l·A_intermediate/A_input) for the l layers of the largest
///                          stage: with full recomputation of equal layers
///   parameters, flops      equations 2 and 3: for models of GPT's shape; the second for full
///                          recomputation
///   training_time          equation 4, 8TP/(nX): for full recomputation of a dense model, where
///                          `budget` has tokens. P counts the model's parameters, X is the
///                          predicted rate of a GPU
///
/// Formulas of shared sequences (cp > 1) are left out: SC21 does not know these.
[[nodiscard]] std::vector<PublishedFormula> published_formulas(const Plan& plan,
                                                               const RunBudget& budget = {});

/// Returns the formulas as a section of text, a line each; empty where none holds.
[[nodiscard]] std::string formulas_text(const Plan& plan, const RunBudget& budget = {});

/// Returns the formulas as JSON objects.
[[nodiscard]] std::vector<ObjectWriter> formulas_json(const Plan& plan,
                                                      const RunBudget& budget = {});

}  // namespace ptdp
