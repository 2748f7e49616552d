#include "cost_model/simulation/views/trace.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

namespace ptdp {
namespace {

constexpr std::size_t kPiece = std::size_t{64} * 1024;
constexpr double kNanoseconds = 1e9;
// lanes, and what is received from each side in each direction
constexpr int kNumThreads = kNumLanes + 4;

std::int64_t nanoseconds(Seconds time) {
  return std::llround(time.value() * kNanoseconds);
}

class TraceWriter {
 public:
  TraceWriter(const Schedule& schedule, MessageMode messages,
              const std::function<void(std::string_view)>& write)
      : schedule_(schedule), messages_(messages), write_(write) {
    for (const std::vector<Action>& order : schedule.orders) {
      for (const Action& action : order) {
        has_messages_ = has_messages_ || action.kind == ActionKind::kSendForward ||
                        action.kind == ActionKind::kSendBackward;
      }
    }
  }

  void begin() { buffer_ = R"({"displayTimeUnit":"ms","traceEvents":[)"; }

  void add_names(int rank) {
    metadata(rank, std::nullopt, "process_name", "rank " + std::to_string(rank));
    sort_index(rank, std::nullopt, "process_sort_index", rank);
    std::array<std::string, kNumThreads> names = {};
    for (const Action& action : schedule_.orders[rank]) {
      const int thread = thread_of(rank, action);
      if (names.at(thread).empty()) {
        names.at(thread) = thread < kNumLanes
                               ? std::string(kLaneNames.at(thread))
                               : "received from rank " + std::to_string(sender_of(action)) +
                                     (is_forward(action) ? ", forward" : ", backward");
      }
    }
    for (int thread = 0; thread < kNumThreads; ++thread) {
      if (!names.at(thread).empty()) {
        metadata(rank, thread, "thread_name", names.at(thread));
        sort_index(rank, thread, "thread_sort_index", thread);
      }
    }
  }

  void add_slices(int rank, const std::vector<Span>& spans) {
    const std::vector<Action>& order = schedule_.orders[rank];
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool is_pair = order[i].overlaps_next && i + 1 < order.size();
      add_slice(rank, order[i], is_pair ? &order[i + 1] : nullptr, spans[i]);
      add_arrow(rank, order[i], spans[i]);
      if (is_pair) {
        ++i;
        add_arrow(rank, order[i], spans[i]);
      }
    }
  }

  void add_counter(int rank, const std::vector<MemorySample>& samples) {
    for (const MemorySample& sample : samples) {
      open_event('C', rank, 0, nanoseconds(sample.time));
      buffer_ += R"(,"name":"memory [GiB]","args":{"GiB":)";
      std::array<char, 32> digits{};
      const auto [end, error] =
          std::to_chars(digits.data(), digits.data() + digits.size(), sample.held.value() / kGibi);
      buffer_.append(digits.data(), end);
      buffer_ += "}}";
    }
  }

  void end() {
    buffer_ += "\n]}\n";
    write_(buffer_);
    buffer_.clear();
  }

 private:
  void number(std::int64_t value) {
    std::array<char, 24> digits{};
    const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(), value);
    buffer_.append(digits.data(), end);
  }

  /// Writes a time as microseconds with three decimals, exactly.
  void time(std::int64_t nanoseconds) {
    number(nanoseconds / 1000);
    const auto rest = static_cast<int>(nanoseconds % 1000);
    buffer_ += '.';
    buffer_ += static_cast<char>('0' + rest / 100);
    buffer_ += static_cast<char>('0' + rest / 10 % 10);
    buffer_ += static_cast<char>('0' + rest % 10);
  }

  void next_event() {
    if (buffer_.size() >= kPiece) {
      write_(buffer_);
      buffer_.clear();
    }
    buffer_ += is_first_ ? "\n" : ",\n";
    is_first_ = false;
  }

  void open_event(char phase, int rank, int lane, std::int64_t at) {
    next_event();
    buffer_ += R"({"ph":")";
    buffer_ += phase;
    buffer_ += R"(","pid":)";
    number(rank);
    buffer_ += R"(,"tid":)";
    number(lane);
    buffer_ += R"(,"ts":)";
    time(at);
  }

  /// Opens an event of metadata, about a lane or, without one, about the rank's process.
  void open_metadata(int rank, std::optional<int> lane, std::string_view what) {
    next_event();
    buffer_ += R"({"ph":"M","pid":)";
    number(rank);
    if (lane) {
      buffer_ += R"(,"tid":)";
      number(*lane);
    }
    buffer_ += R"(,"name":")";
    buffer_ += what;
    buffer_ += R"(","args":{)";
  }

  void metadata(int rank, std::optional<int> lane, std::string_view what, const std::string& name) {
    open_metadata(rank, lane, what);
    buffer_ += R"("name":")" + name + R"("}})";
  }

  void sort_index(int rank, std::optional<int> lane, std::string_view what, int index) {
    open_metadata(rank, lane, what);
    buffer_ += R"("sort_index":)";
    number(index);
    buffer_ += "}}";
  }

  [[nodiscard]] static bool is_forward(const Action& action) {
    return action.kind == ActionKind::kReceiveForward;
  }
  [[nodiscard]] int sender_of(const Action& receive) const {
    return rank_of(schedule_, receive.stage + (is_forward(receive) ? -1 : 1), receive.microbatch);
  }

  /// Returns the thread of an action: its lane, or for a receive one for its direction and side.
  /// Messages from two sides may arrive at the same time.
  [[nodiscard]] int thread_of(int rank, const Action& action) const {
    if (occupies_lane(action.kind)) {
      return static_cast<int>(lane_of(action.kind, messages_));
    }
    return kNumLanes + (is_forward(action) ? 0 : 2) + (sender_of(action) < rank ? 0 : 1);
  }

  void add_slice(int rank, const Action& action, const Action* partner, Span span) {
    const std::int64_t start = nanoseconds(span.start);
    const std::int64_t duration = nanoseconds(span.end) - start;
    if (duration == 0) {
      return;
    }
    open_event('X', rank, thread_of(rank, action), start);
    buffer_ += R"(,"dur":)";
    time(duration);
    buffer_ += R"(,"name":")";
    buffer_ += partner != nullptr ? '(' + to_string(action) + ';' + to_string(*partner) + ')'
                                  : to_string(action);
    buffer_ += R"(","cat":")";
    buffer_ += is_compute(action.kind) ? "compute" : "communication";
    buffer_ += R"(","args":{"stage":)";
    number(action.stage);
    buffer_ += R"(,"microbatch":)";
    number(action.microbatch);
    buffer_ += "}}";
  }

  /// Returns a number for the result of a stage and microbatch in one direction.
  [[nodiscard]] std::uint64_t result_id(int stage, int microbatch, bool is_forward) const {
    const auto slot = static_cast<std::uint64_t>(stage) * schedule_.num_microbatches + microbatch;
    return 2 * slot + (is_forward ? 1 : 2);
  }

  [[nodiscard]] bool goes_elsewhere(int stage, int next, int microbatch) const {
    return next >= 0 && next < num_stages(schedule_) &&
           rank_of(schedule_, stage, microbatch) != rank_of(schedule_, next, microbatch);
  }

  /// Adds the end of an arrow that an action has. Arrows join messages. In a schedule without
  /// messages they join what a message would connect: a compute action ends one arrow and begins
  /// the next.
  void add_arrow(int rank, const Action& action, Span span) {
    const int stage = action.stage;
    const int microbatch = action.microbatch;
    switch (action.kind) {
      case ActionKind::kSendForward:
        arrow(rank, action, span, 's', result_id(stage, microbatch, true));
        break;
      case ActionKind::kReceiveForward:
        arrow(rank, action, span, 'f', result_id(stage - 1, microbatch, true));
        break;
      case ActionKind::kSendBackward:
        arrow(rank, action, span, 's', result_id(stage, microbatch, false));
        break;
      case ActionKind::kReceiveBackward:
        arrow(rank, action, span, 'f', result_id(stage + 1, microbatch, false));
        break;
      case ActionKind::kForward:
        add_direct_arrows(rank, action, span, true);
        break;
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
        add_direct_arrows(rank, action, span, false);
        break;
      default:
        break;
    }
  }

  void add_direct_arrows(int rank, const Action& action, Span span, bool is_forward) {
    if (has_messages_) {
      return;
    }
    const int step = is_forward ? 1 : -1;
    const int stage = action.stage;
    if (goes_elsewhere(stage, stage - step, action.microbatch)) {
      arrow(rank, action, span, 'f', result_id(stage - step, action.microbatch, is_forward));
    }
    if (goes_elsewhere(stage, stage + step, action.microbatch)) {
      arrow(rank, action, span, 's', result_id(stage, action.microbatch, is_forward));
    }
  }

  /// Writes one end of an arrow, inside the slice that it belongs to. An arrow begins at the start
  /// of a message, or at the end of what computes; it ends the opposite way.
  void arrow(int rank, const Action& action, Span span, char phase, std::uint64_t id) {
    const std::int64_t start = nanoseconds(span.start);
    const std::int64_t end = nanoseconds(span.end);
    if (start == end) {
      return;
    }
    const bool is_at_start = (phase == 's') != is_compute(action.kind);
    open_event(phase, rank, thread_of(rank, action), is_at_start ? start : end - 1);
    buffer_ += R"(,"id":)";
    number(static_cast<std::int64_t>(id));
    buffer_ += R"(,"cat":"message","name":"message")";
    buffer_ += phase == 'f' ? R"(,"bp":"e"})" : "}";
  }

  const Schedule& schedule_;
  MessageMode messages_;
  const std::function<void(std::string_view)>& write_;
  std::string buffer_;
  bool is_first_ = true;
  bool has_messages_ = false;
};

}  // namespace

void write_trace(const Schedule& schedule, const Timeline& timeline, MessageMode messages,
                 std::span<const MemoryProfile> memory,
                 const std::function<void(std::string_view)>& write) {
  TraceWriter writer(schedule, messages, write);
  writer.begin();
  for (int rank = 0; rank < schedule.pp; ++rank) {
    writer.add_names(rank);
    writer.add_slices(rank, timeline.spans[rank]);
    if (!memory.empty()) {
      writer.add_counter(rank, memory[rank].samples);
    }
  }
  writer.end();
}

}  // namespace ptdp
