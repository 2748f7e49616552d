// Computes the collectives of the emulated NCCL.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/element.h"
#include "tests/runtime/emulated_nccl/emulation.h"

namespace ptdp::emulated_nccl {
namespace {

using baseline::BFloat16;
using baseline::Float16;

std::size_t bytes_of(ncclDataType_t type) {
  return type == ncclFloat64 ? 8 : type == ncclFloat32 || type == ncclInt32 ? 4 : 2;
}

template <class T>
T combine(T x, T y, ncclRedOp_t operation) {
  if (operation == ncclMax) {
    return baseline::widen(y) > baseline::widen(x) ? y : x;
  }
  return baseline::narrow<T>(baseline::widen(x) + baseline::widen(y));
}
template <>
std::int32_t combine(std::int32_t x, std::int32_t y, ncclRedOp_t operation) {
  return operation == ncclMax ? std::max(x, y) : x + y;
}

/// Reduces the elements from `first` to before `last` of all ranks. `owner` is the rank that keeps
/// the sums, from which the order of a ring follows.
template <class T>
void reduce_part(const Calls& calls, std::size_t first, std::size_t last, int owner, void* to) {
  const std::size_t ranks = calls.size();
  const std::size_t start = plan().sums_in_order ? 0 : static_cast<std::size_t>(owner) + 1;
  auto* const sums = static_cast<T*>(to);
  const auto of_rank = [&](std::size_t rank) {
    return static_cast<const T*>(calls[rank % ranks]->from);
  };
  std::copy(of_rank(start) + first, of_rank(start) + last, sums + first);
  for (std::size_t k = 1; k < ranks; ++k) {
    const T* const values = of_rank(start + k);
    for (std::size_t i = first; i < last; ++i) {
      sums[i] = combine(sums[i], values[i], calls.front()->operation);
    }
  }
}

/// Returns the reduced elements of all ranks. Each part ends just before its entry in
/// `ends_of_owners`.
std::vector<char> reduction(const Calls& calls, std::size_t count,
                            const std::vector<std::pair<int, std::size_t>>& ends_of_owners) {
  std::vector<char> result(count * bytes_of(calls.front()->type));
  std::size_t first = 0;
  for (const auto& [owner, last] : ends_of_owners) {
    switch (calls.front()->type) {
      case ncclFloat64:
        reduce_part<double>(calls, first, last, owner, result.data());
        break;
      case ncclFloat32:
        reduce_part<float>(calls, first, last, owner, result.data());
        break;
      case ncclFloat16:
        reduce_part<Float16>(calls, first, last, owner, result.data());
        break;
      case ncclBfloat16:
        reduce_part<BFloat16>(calls, first, last, owner, result.data());
        break;
      default:
        reduce_part<std::int32_t>(calls, first, last, owner, result.data());
        break;
    }
    first = last;
  }
  return result;
}

/// Returns the owners and ends of equal parts: rank i's part ends at count·(i + 1)/n.
std::vector<std::pair<int, std::size_t>> parts_of(std::size_t count, std::size_t ranks) {
  std::vector<std::pair<int, std::size_t>> parts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    parts.emplace_back(static_cast<int>(rank), count * (rank + 1) / ranks);
  }
  return parts;
}

bool are_alike(const Call& a, const Call& b) {
  return a.kind == b.kind && a.count == b.count && a.type == b.type && a.operation == b.operation &&
         a.other == b.other;
}

}  // namespace

void deliver(const Call& send, const Call& receive) {
  if (send.count != receive.count || send.type != receive.type) {
    note("a message of " + std::to_string(send.count) + " elements is received as " +
         std::to_string(receive.count));
    return;
  }
  std::memmove(receive.to, send.from, send.count * bytes_of(send.type));
}

void compute(const Clique& clique, const Calls& calls) {
  const Call& first = *calls.front();
  for (const std::shared_ptr<Call>& call : calls) {
    if (!are_alike(*call, first)) {
      note("ranks of a communicator make different collective calls");
      return;
    }
  }
  const auto ranks = static_cast<std::size_t>(clique.size);
  const std::size_t element = bytes_of(first.type);
  switch (first.kind) {
    case Kind::kAllReduce: {
      const std::vector<char> sums = reduction(calls, first.count, parts_of(first.count, ranks));
      for (const std::shared_ptr<Call>& call : calls) {
        std::memcpy(call->to, sums.data(), sums.size());
      }
      return;
    }
    case Kind::kReduceScatter: {
      const std::vector<char> sums =
          reduction(calls, first.count * ranks, parts_of(first.count * ranks, ranks));
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        std::memcpy(calls[rank]->to, sums.data() + rank * first.count * element,
                    first.count * element);
      }
      return;
    }
    case Kind::kReduce: {
      const std::vector<char> sums = reduction(calls, first.count, {{first.other, first.count}});
      std::memcpy(calls[static_cast<std::size_t>(first.other)]->to, sums.data(), sums.size());
      return;
    }
    case Kind::kAllGather:
    case Kind::kBroadcast: {
      std::vector<char> all;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        if (first.kind == Kind::kAllGather || static_cast<int>(rank) == first.other) {
          const auto* const from = static_cast<const char*>(calls[rank]->from);
          all.insert(all.end(), from, from + first.count * element);
        }
      }
      for (const std::shared_ptr<Call>& call : calls) {
        std::memcpy(call->to, all.data(), all.size());
      }
      return;
    }
    case Kind::kSend:
    case Kind::kReceive:
      return;
  }
}

}  // namespace ptdp::emulated_nccl
