// Kubernetes: a PyTorchJob of Kubeflow's training operator, and the plan as a ConfigMap.
#include <fmt/format.h>

#include <cctype>

#include "planner/export/exporter.h"
#include "planner/formatting.h"

namespace ptdp {
namespace {

/// The most that Kubernetes holds in a ConfigMap [B], less what its other keys take.
constexpr std::size_t kMostConfigMap = (std::size_t{1} << 20U) - 4096;

/// {0} is a comment, {1} the names' prefix and {2} the plan, indented.
constexpr std::string_view kConfigMap = R"(# {0}
# kubectl apply -f job.yaml. Lines marked `yours` are yours to set.
apiVersion: v1
kind: ConfigMap
metadata:
  name: {1}-plan
data:
  plan.json: |
{2}---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata:
  name: {1}
spec:
  runPolicy:
    cleanPodPolicy: Running
    backoffLimit: 0
  pytorchReplicaSpecs:
)";

/// One kind of pods. {0} is the kind, {1} their number, {2} the names' prefix, {3} the ranks of a
/// node, {4} all ranks and {5} the limits. The operator sets RANK, MASTER_ADDR and MASTER_PORT for
/// each pod; it sets no LOCAL_RANK, so the command counts the ranks itself.
constexpr std::string_view kPods = R"(    {0}:
      replicas: {1}
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: pytorch
              image: ptdp:latest  # yours: an image with bash and ptdp-run
              command:
                - bash
                - -c
                - |
                  # RANK is that of the pod, one pod a node. A rank that fails ends the pod.
                  trap "exit 1" TERM
                  node=$RANK
                  for ((local = 0; local < {3}; local++)); do
                    {{
                      RANK=$((node * {3} + local)) WORLD_SIZE={4} LOCAL_RANK=$local \
                        LOCAL_WORLD_SIZE={3} "$@" || kill $$
                    }} &
                  done
                  wait
                - ptdp
                # yours: what each rank runs
                - ptdp-run
                - /plan/plan.json
                - --steps
                - "20"
{5}              volumeMounts:
                - {{name: plan, mountPath: /plan}}
                - {{name: shared-memory, mountPath: /dev/shm}}
          volumes:
            - {{name: plan, configMap: {{name: {2}-plan}}}}
            - {{name: shared-memory, emptyDir: {{medium: Memory}}}}
)";

/// Returns a model's name as names of pods are spelled: small letters, digits and hyphens.
std::string name_prefix(const std::string& model) {
  std::string name = "ptdp-";
  for (const char c : model.substr(0, 32)) {
    const auto letter = static_cast<unsigned char>(c);
    name +=
        std::isalnum(letter) != 0 && letter < 128U ? static_cast<char>(std::tolower(letter)) : '-';
  }
  return name + "-job";
}

std::string indented(const std::string& text) {
  std::string result = "    ";
  for (const char c : text) {
    result += c;
    if (c == '\n') {
      result += "    ";
    }
  }
  result.erase(result.find_last_not_of(" \n") + 1);
  return result + "\n";
}

}  // namespace

std::vector<ExportRefusal> kubernetes_refusals(const Plan& plan) {
  std::vector<ExportRefusal> refusals = node_refusals(plan);
  const std::size_t size = indented(to_json(plan)).size();
  if (size > kMostConfigMap) {
    refusals.push_back({"the plan's file", binary_size(Bytes(static_cast<double>(size))),
                        fmt::format("at most {} in a ConfigMap",
                                    binary_size(Bytes(static_cast<double>(kMostConfigMap))))});
  }
  return refusals;
}

Export kubernetes_export(const Plan& plan) {
  const NodesInUse use = nodes_in_use(plan);
  const bool for_cores = is_for_cores(plan);
  const std::string name = name_prefix(plan.scenario.job.model_name);
  const std::string limits =
      fmt::format("              resources:\n                limits: {{{}: {}}}\n",
                  for_cores ? "cpu" : "nvidia.com/gpu", use.gpus_per_node);
  const auto pods = [&](const char* kind, std::int64_t replicas) {
    return fmt::format(fmt::runtime(kPods), kind, replicas, name, use.gpus_per_node,
                       plan.config.world_size(), limits);
  };
  const std::string title =
      fmt::format("{} on {} {}: {}", plan.scenario.job.model_name, plan.config.world_size(),
                  for_cores ? "cores" : "GPUs", to_string(plan.config));
  std::string yaml = fmt::format(fmt::runtime(kConfigMap), title, name, indented(to_json(plan)));
  yaml += pods("Master", 1);
  if (use.nodes > 1) {
    yaml += pods("Worker", use.nodes - 1);
  }
  Export result;
  result.files = {{"job.yaml", yaml}};
  result.expressed = {
      {"nodes in use", fmt::format("Master 1, Worker {}", use.nodes - 1)},
      {"ranks of a node",
       fmt::format("limits {}: {}", for_cores ? "cpu" : "nvidia.com/gpu", use.gpus_per_node)},
      {"order of ranks", "RANK of the pod times its ranks, plus the number in the pod"},
      {"everything else", "plan.json in the ConfigMap, which ptdp-run reads"}};
  result.differences = run_differences(plan);
  result.differences.emplace_back(
      "Kubernetes does not know which nodes share a switch: pods are numbered as it places them.");
  result.checks = run_checks(plan);
  return result;
}

}  // namespace ptdp
