#include "planner/traces/trace_collectives.h"

#include <algorithm>
#include <optional>
#include <string>

#include "cost_model/network/collectives.h"

namespace ptdp {
namespace {

struct CollectiveWord {
  std::string_view word;
  TracedCollective kind;
};

// In lower case without "_"; a word stands before those that it contains.
constexpr auto kCollectiveWords =
    std::to_array<CollectiveWord>({{"allreduce", TracedCollective::kAllReduce},
                                   {"crossdevicereduce", TracedCollective::kAllReduce},
                                   {"allgather", TracedCollective::kAllGather},
                                   {"reducescatter", TracedCollective::kReduceScatter},
                                   {"alltoall", TracedCollective::kAllToAll},
                                   {"broadcast", TracedCollective::kBroadcast},
                                   {"sendrecv", TracedCollective::kMessageOrAllToAll},
                                   {"batchisendirecv", TracedCollective::kMessage},
                                   {"send", TracedCollective::kMessage},
                                   {"recv", TracedCollective::kMessage},
                                   {"reduce", TracedCollective::kReduce},
                                   {"barrier", TracedCollective::kOther},
                                   {"gather", TracedCollective::kOther},
                                   {"scatter", TracedCollective::kOther}});

std::optional<TracedCollective> collective_in(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c != '_') {
      letters += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  for (const CollectiveWord& known : kCollectiveWords) {
    if (letters.find(known.word) != std::string::npos) {
      return known.kind;
    }
  }
  return std::nullopt;
}

struct ElementType {
  std::string_view name;
  double bytes;
};

/// Names of c10/core/ScalarType.h, in lower case.
constexpr auto kElementTypes = std::to_array<ElementType>({{"float8", 1.0},
                                                           {"bfloat16", 2.0},
                                                           {"half", 2.0},
                                                           {"float16", 2.0},
                                                           {"double", 8.0},
                                                           {"float64", 8.0},
                                                           {"float", 4.0},
                                                           {"long", 8.0},
                                                           {"int64", 8.0},
                                                           {"int8", 1.0},
                                                           {"short", 2.0},
                                                           {"int", 4.0},
                                                           {"byte", 1.0},
                                                           {"uint8", 1.0},
                                                           {"char", 1.0},
                                                           {"bool", 1.0}});

double element_size(std::string_view dtype) {
  std::string lower(dtype);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  for (const ElementType& type : kElementTypes) {
    if (lower.starts_with(type.name)) {
      return type.bytes;
    }
  }
  return 0.0;
}

}  // namespace

TracedCollective collective_kind(std::string_view call, std::string_view kernel) {
  const std::optional<TracedCollective> kind = collective_in(call);
  return kind ? *kind : collective_in(kernel).value_or(TracedCollective::kOther);
}

Bytes collective_size(TracedCollective kind, const CollectiveCall& call) {
  const bool is_gathered = kind == TracedCollective::kAllGather;
  const std::int64_t elements =
      is_gathered ? std::max(call.gotten, call.sent) : (call.sent > 0 ? call.sent : call.gotten);
  return Bytes(element_size(call.dtype) * static_cast<double>(elements));
}

double bus_factor(TracedCollective kind, std::int64_t ranks) {
  if (ranks < 1) {
    return 0.0;
  }
  constexpr Bytes one(1.0);
  switch (kind) {
    case TracedCollective::kAllReduce:
      return ring_all_reduce_volume(one, ranks).value();
    case TracedCollective::kAllGather:
    case TracedCollective::kReduceScatter:
    case TracedCollective::kAllToAll:
      return ring_all_gather_volume(one, ranks).value();
    case TracedCollective::kBroadcast:
    case TracedCollective::kReduce:
    case TracedCollective::kOther:
    case TracedCollective::kMessage:
    case TracedCollective::kMessageOrAllToAll:
      return 1.0;
  }
  return 0.0;
}

}  // namespace ptdp
