// Adds and scales times of passes, term by term.
#include "cost_model/layer/pass_time.h"

namespace ptdp {

PassTime& PassTime::operator+=(const PassTime& other) {
  matmul += other.matmul;
  attention += other.attention;
  memory_bound += other.memory_bound;
  tensor_parallel += other.tensor_parallel;
  context_parallel += other.context_parallel;
  expert_parallel += other.expert_parallel;
  launch += other.launch;
  return *this;
}

PassTime operator*(PassTime pass, double factor) {
  return {.matmul = pass.matmul * factor,
          .attention = pass.attention * factor,
          .memory_bound = pass.memory_bound * factor,
          .tensor_parallel = pass.tensor_parallel * factor,
          .context_parallel = pass.context_parallel * factor,
          .expert_parallel = pass.expert_parallel * factor,
          .launch = pass.launch * factor};
}

}  // namespace ptdp
