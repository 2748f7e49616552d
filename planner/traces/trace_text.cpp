#include "planner/traces/trace_text.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cost_model/text/files.h"

namespace ptdp {
namespace {

constexpr std::size_t kTracePiece = std::size_t{1} << 18;
constexpr std::size_t kLongestHeldWord = 64;

bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_no_number(std::string_view word) {
  return word == "NaN" || word == "nan" || word == "Infinity" || word == "inf";
}

struct CloseGzip {
  void operator()(gzFile file) const noexcept { (void)::gzclose(file); }
};

}  // namespace

void JsonMender::end_word(std::string& text) {
  const std::string_view word = word_;
  if (is_no_number(word.substr(word.starts_with('-') ? 1 : 0))) {
    word_ = "null";
  }
  text += word_;
  word_.clear();
}

void JsonMender::mend(std::string_view piece, std::string& text) {
  while (!piece.empty()) {
    piece.remove_prefix(in_string_ ? mend_string(piece, text) : mend_outside(piece, text));
  }
}

std::size_t JsonMender::mend_string(std::string_view piece, std::string& text) {
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const char c = piece[i];
    text += c >= ' ' && c <= '~' ? c : '?';
    if (c == '"' && !after_backslash_) {
      in_string_ = false;
      return i + 1;
    }
    after_backslash_ = !after_backslash_ && c == '\\';
  }
  return piece.size();
}

std::size_t JsonMender::mend_outside(std::string_view piece, std::string& text) {
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const char c = piece[i];
    const bool is_letter = is_ascii_letter(c);
    if (!word_.empty() && (!is_letter || word_.size() >= kLongestHeldWord)) {
      end_word(text);
    }
    if (is_letter || c == '-') {
      word_ += c;
      continue;
    }
    text += c;
    if (c == '"') {
      in_string_ = true;
      return i + 1;
    }
  }
  return piece.size();
}

void JsonMender::finish(std::string& text) {
  end_word(text);
}

struct TraceFile::State {
  std::filesystem::path path;
  std::unique_ptr<gzFile_s, CloseGzip> file;
};

TraceFile::TraceFile(std::filesystem::path path) : state_(std::make_unique<State>()) {
  state_->path = std::move(path);
  const RegularFile file = open_regular_file(state_->path);
  const int number = ::dup(file.descriptor.get());  // zlib closes the one that it gets
  state_->file.reset(number < 0 ? nullptr : ::gzdopen(number, "rb"));
  if (state_->file == nullptr) {
    fail_to_read(state_->path, std::string("cannot be read: ") + std::strerror(errno));
  }
  (void)::gzbuffer(state_->file.get(), static_cast<unsigned>(kTracePiece));
}

TraceFile::~TraceFile() = default;

void TraceFile::next(std::string& piece) {
  piece.resize(kTracePiece);
  const int count = ::gzread(state_->file.get(), piece.data(), static_cast<unsigned>(kTracePiece));
  piece.resize(static_cast<std::size_t>(std::max(count, 0)));
  int status = Z_OK;
  const char* const message = ::gzerror(state_->file.get(), &status);
  if (status == Z_ERRNO) {
    fail_to_read(state_->path, std::string("cannot be read: ") + std::strerror(errno));
  }
  if (status == Z_BUF_ERROR) {
    fail_to_read(state_->path, "expected a whole gzip file, found one that is cut off");
  }
  if (count < 0) {
    fail_to_read(state_->path, std::string("expected gzip, found damaged data: ") + message);
  }
}

TraceBuffer::int_type TraceBuffer::underflow() {
  text_.clear();
  while (text_.empty() && !is_at_end_) {
    next_(piece_);
    if (piece_.empty()) {
      is_at_end_ = true;
      mender_.finish(text_);
    } else {
      is_blank_ = is_blank_ && piece_.find_first_not_of(" \t\r\n") == std::string::npos;
      mender_.mend(piece_, text_);
    }
  }
  if (text_.empty()) {
    is_used_up_ = true;
    return traits_type::eof();
  }
  setg(text_.data(), text_.data(), text_.data() + text_.size());
  return traits_type::to_int_type(text_.front());
}

}  // namespace ptdp
