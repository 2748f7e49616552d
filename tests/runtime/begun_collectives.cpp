#include "tests/runtime/begun_collectives.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <utility>
#include <vector>

namespace ptdp {
namespace {

constexpr int kComputeLane = 0;
constexpr int kLaneBeside = 1;
constexpr unsigned char kNoNumber = 0xFF;  // in every byte: not a number in any type

}  // namespace

BegunCommunicator::~BegunCommunicator() {
  EXPECT_TRUE(under_way_.empty()) << under_way_.size() << " begun and never waited for";
}

Request BegunCommunicator::begin(Buffer whole, Call collective) {
  ++begun_;
  under_way_.emplace(++last_id_, start(whole, std::move(collective)));
  return {.id = last_id_};
}

Request BegunCommunicator::begin_all_reduce(Buffer whole, Reduction reduction) {
  return begin(whole, [=, this] { ForwardingCommunicator::all_reduce(whole, reduction); });
}

Request BegunCommunicator::begin_reduce_scatter(Buffer whole) {
  return begin(whole, [=, this] { ForwardingCommunicator::reduce_scatter(whole); });
}

Request BegunCommunicator::begin_all_gather(Buffer whole) {
  return begin(whole, [=, this] { ForwardingCommunicator::all_gather(whole); });
}

void BegunCommunicator::wait(Request request) {
  const auto found = under_way_.find(request.id);
  if (found == under_way_.end()) {
    return ForwardingCommunicator::wait(request);
  }
  const Call finish = std::move(found->second);
  under_way_.erase(found);
  finish();
}

BegunCommunicator::Call DelayedCommunicator::start(Buffer whole, Call collective) {
  auto* const first = static_cast<unsigned char*>(whole.data);
  std::vector<unsigned char> kept(first, first + whole.bytes());
  std::fill(first, first + whole.bytes(), kNoNumber);
  return [=, kept = std::move(kept), collective = std::move(collective)] {
    EXPECT_EQ(std::count(first, first + whole.bytes(), kNoNumber), whole.bytes())
        << "written to before it was waited for";
    std::copy(kept.begin(), kept.end(), first);
    collective();
  };
}

BegunCommunicator::Call ThreadedCommunicator::start(Buffer /*whole*/, Call collective) {
  return [done = std::async(std::launch::async, std::move(collective)).share()] { done.get(); };
}

BegunCommunicator::Call LaneCommunicator::start(Buffer /*whole*/, Call collective) {
  const Event asked = backend_.record();
  backend_.use_lane(kLaneBeside);
  backend_.wait(asked);
  collective();
  const Event done = backend_.record();
  backend_.use_lane(kComputeLane);
  return [this, done] { backend_.wait(done); };
}

}  // namespace ptdp
