#include "gateway/bench/answer_reader.h"

#include <algorithm>
#include <charconv>

namespace penstock {
namespace {

constexpr std::string_view kHeadEnd = "\r\n\r\n";

bool same_letters(std::string_view text, std::string_view lower) {
  return text.size() == lower.size() &&
         std::equal(text.begin(), text.end(), lower.begin(), [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a + 32) : a) == b;
         });
}

template <class Number>
bool parse(std::string_view text, Number& number, int base = 10) {
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return wrong == std::errc() && end != text.data();
}

}  // namespace

void AnswerReader::reset(bool to_head) {
  state_ = State::head;
  to_head_ = to_head;
  has_length_ = closes_ = false;
  status_ = 0;
  length_ = left_ = body_bytes_ = 0;
  head_.clear();
  line_.clear();
}

std::string_view AnswerReader::header(std::string_view name) const {
  const std::string_view head(head_);
  for (std::size_t at = head.find("\r\n"); at != std::string_view::npos && at + 2 < head.size();
       at = head.find("\r\n", at + 2)) {
    const std::string_view line = head.substr(at + 2, head.find("\r\n", at + 2) - at - 2);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !same_letters(line.substr(0, colon), name)) continue;
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    return value == std::string_view::npos ? std::string_view() : line.substr(value);
  }
  return {};
}

// Source: RFC 9112, section 6.3.
void AnswerReader::read_head() {
  if (head_.size() < 12 || !head_.starts_with("HTTP/1.") ||
      !parse(std::string_view(head_).substr(9, 3), status_)) {
    state_ = State::malformed;
    return;
  }
  if (status_ / 100 == 1) {  // 100 Continue: the answer comes after it
    head_.clear();
    return;
  }
  closes_ = same_letters(header("connection"), "close");
  has_length_ = parse(header("content-length"), length_);
  if (to_head_ || status_ == 204 || status_ == 304) {
    state_ = State::done;
  } else if (same_letters(header("transfer-encoding"), "chunked")) {
    has_length_ = false;
    state_ = State::chunk_size;
  } else if (has_length_) {
    left_ = length_;
    state_ = left_ > 0 ? State::sized : State::done;
  } else {
    closes_ = true;
    state_ = State::until_end;
  }
}

AnswerReader::Taken AnswerReader::take_head(std::string_view in) {
  const std::size_t before = head_.size();
  head_.append(in.substr(0, kHeadBytesMax));
  const std::size_t end = head_.find(kHeadEnd, before >= 3 ? before - 3 : 0);
  if (end == std::string::npos) {
    if (head_.size() >= kHeadBytesMax) state_ = State::malformed;
    return {head_.size() - before, {}};
  }
  const std::size_t used = end + kHeadEnd.size() - before;
  head_.resize(end + 2);
  read_head();
  return {used, {}};
}

AnswerReader::Taken AnswerReader::take_data(std::string_view in) {
  std::string_view body = in;
  if (state_ != State::until_end) {
    body = in.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(in.size(), left_)));
    left_ -= body.size();
    if (left_ == 0) state_ = state_ == State::sized ? State::done : State::chunk_end;
  }
  body_bytes_ += body.size();
  return {body.size(), body};
}

AnswerReader::Taken AnswerReader::take_line(std::string_view in) {
  const std::size_t end = in.find('\n');
  const std::size_t used = end == std::string_view::npos ? in.size() : end + 1;
  line_.append(in.substr(0, used));
  if (line_.size() > kHeadBytesMax) state_ = State::malformed;
  if (end == std::string_view::npos) return {used, {}};
  while (!line_.empty() && (line_.back() == '\n' || line_.back() == '\r')) line_.pop_back();
  switch (state_) {
    case State::chunk_size:
      left_ = 0;
      if (!parse(line_, left_, 16)) {
        state_ = State::malformed;
      } else {
        state_ = left_ > 0 ? State::chunk_data : State::trailer;
      }
      break;
    case State::chunk_end:
      state_ = State::chunk_size;
      break;
    default:
      if (line_.empty()) state_ = State::done;
  }
  line_.clear();
  return {used, {}};
}

AnswerReader::Taken AnswerReader::take(std::string_view in) {
  switch (state_) {
    case State::head:
      return take_head(in);
    case State::sized:
    case State::until_end:
    case State::chunk_data:
      return take_data(in);
    case State::chunk_size:
    case State::chunk_end:
    case State::trailer:
      return take_line(in);
    case State::done:
    case State::malformed:
      break;
  }
  return {};
}

void AnswerReader::end() { state_ = state_ == State::until_end ? State::done : State::malformed; }

}  // namespace penstock
