// Tries the addresses of a process in rounds until it answers with the right greeting.
#include "runtime/transport/processes/tcp/tcp_route.h"

#include <fmt/format.h>

#include "runtime/transport/processes/tcp/tcp_rendezvous.h"

namespace ptdp {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);
/// How long a connected process may take to answer. It answers at the latest in its next call, or a
/// moment later.
constexpr auto kAnswerPatience = std::chrono::seconds(10);
constexpr auto kPauseBetweenRounds = std::chrono::milliseconds(100);

}  // namespace

TcpRoute::TcpRoute(std::vector<std::string> addresses, std::uint16_t port, TcpGreeting greeting,
                   PacketPool& pool)
    : addresses_(std::move(addresses)), port_(port), greeting_(std::move(greeting)), pool_(&pool) {
  if (addresses_.empty()) {
    fault_ = "it has no address that other hosts can reach";
  }
}

void TcpRoute::send(Packet packet) {
  if (is_open_) {
    connection_->send(std::move(packet));
  } else if (fault_.empty()) {
    waiting_.push_back(std::move(packet));
    progress();
  } else {
    pool_->give_back(std::move(packet));
  }
}

void TcpRoute::progress() {
  if (is_open_) {
    connection_->flush();
    return;
  }
  if (!fault_.empty()) {
    return;
  }
  if (!pending_ && !connection_) {
    try_next();
  }
  if (pending_ || connection_) {
    look_at_attempt();
  }
}

void TcpRoute::try_next() {
  const Clock::time_point now = Clock::now();
  if (now < next_attempt_) {
    return;
  }
  if (next_ == 0 && !answers_.empty() && now - began_ > kPatience) {
    fault_ = answers_;
    waiting_.clear();
    return;
  }
  if (next_ == 0) {
    answers_.clear();
  }
  const Resolution found = resolve(addresses_[next_], port_);
  if (found.addresses.empty()) {
    give_up_attempt(found.fault);
    return;
  }
  pending_.emplace(found.addresses.front());
  attempt_ends_ = now + kConnectPatience;
}

void TcpRoute::look_at_attempt() {
  if (pending_) {
    switch (pending_->look(0)) {
      case PendingConnection::State::kUnderWay:
        if (Clock::now() > attempt_ends_) {
          give_up_attempt("no answer");
        }
        return;
      case PendingConnection::State::kFailed:
        give_up_attempt(pending_->fault());
        return;
      case PendingConnection::State::kConnected:
        connection_.emplace(pending_->take(), *pool_);
        pending_.reset();
        connection_->send_text(to_text(greeting_));
        attempt_ends_ = Clock::now() + kAnswerPatience;
        break;
    }
  }
  connection_->flush();
  const auto text = connection_->receive_text(TcpConnection::kMostOfStranger);
  const auto answer = text ? parse_greeting_text(*text) : std::nullopt;
  if (answer && answer->opens(greeting_.secret, greeting_.from) && answer->from == greeting_.to) {
    is_open_ = true;
    for (Packet& packet : waiting_) {
      connection_->send(std::move(packet));
    }
    waiting_.clear();
  } else if (text || !connection_->is_open()) {
    give_up_attempt("somebody else listens there");
  } else if (Clock::now() > attempt_ends_) {
    give_up_attempt("no answer");
  }
}

void TcpRoute::give_up_attempt(const std::string& why) {
  answers_ +=
      fmt::format("{}{}:{}: {}", answers_.empty() ? "" : "; ", addresses_[next_], port_, why);
  pending_.reset();
  connection_.reset();
  next_ = (next_ + 1) % addresses_.size();
  if (next_ == 0) {
    next_attempt_ = Clock::now() + kPauseBetweenRounds;
  }
}

}  // namespace ptdp
