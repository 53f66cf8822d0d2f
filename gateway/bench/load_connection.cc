#include "gateway/bench/load_connection.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "penstock/congestion_control.h"

namespace penstock {
namespace {

constexpr std::size_t kSendBytesMax = 1 << 20;
constexpr std::size_t kErrorBytesMax = 400;

}  // namespace

Result<S3Endpoint> find_endpoint(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with("https://")) {
    return fail(Errc::invalid, url + ": this client speaks no TLS; give it an http:// endpoint");
  }
  std::string host = url.starts_with(kScheme) ? url.substr(kScheme.size()) : url;
  host.resize(std::min(host.find('/'), host.size()));
  const std::size_t colon = host.rfind(':');
  const bool has_port = colon != std::string::npos && host.find(']', colon) == std::string::npos;
  std::string name = host.substr(0, has_port ? colon : std::string::npos);
  const std::string port = has_port ? host.substr(colon + 1) : "80";
  if (name.starts_with('[') && name.ends_with(']')) name = name.substr(1, name.size() - 2);
  std::uint16_t number = 0;
  const auto [end, wrong] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (name.empty() || wrong != std::errc() || end != port.data() + port.size()) {
    return fail(Errc::invalid, "\"" + url + "\" is no endpoint: write http://HOST:PORT");
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int none = ::getaddrinfo(name.c_str(), port.c_str(), &hints, &found); none != 0) {
    return fail(Errc::not_found, "endpoint " + url + ": " + ::gai_strerror(none));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  S3Endpoint endpoint;
  std::memcpy(&endpoint.peer.address, found->ai_addr, found->ai_addrlen);
  endpoint.peer.length = found->ai_addrlen;
  endpoint.host = port == "80" ? host.substr(0, has_port ? colon : std::string::npos) : host;
  return endpoint;
}

Result<> LoadConnection::dial() {
  close();
  fd_ = ::socket(peer_.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) {
    return fail(Errc::io, std::string("no socket: ") + std::strerror(errno) +
                              "; raise the limit of open files (ulimit -n)");
  }
  const int one = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  choose_congestion_control(fd_);
  const auto* address = reinterpret_cast<const sockaddr*>(&peer_.address);
  broken_ = false;
  const bool begun = ::connect(fd_, address, peer_.length) == 0 || errno == EINPROGRESS;
  dial_error_ = begun ? 0 : errno;
  return {};
}

void LoadConnection::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void LoadConnection::begin(BenchTime now) {
  busy_ = true;
  wrong_content_ = false;
  sent_ = received_ = 0;
  total_ = request_.head.size() + request_.before.size() + request_.content_bytes +
           request_.after.size();
  answer_.reset(request_.is_head);
  outcome_.good = false;
  outcome_.status = 0;
  outcome_.etag.clear();
  outcome_.body.clear();
  outcome_.error.clear();
  started_ = request_.intended == BenchTime{} ? now : request_.intended;
  sent_at_ = now;
  first_byte_ = {};
}

void LoadConnection::break_off(std::string why) {
  broken_ = true;
  busy_ = false;
  outcome_.good = false;
  outcome_.status = 0;
  outcome_.error = std::move(why);
}

void LoadConnection::give_up(const char* why) { break_off(why); }

// The text lies at `begins` of all that is sent.
bool LoadConnection::send_text(std::string_view text, std::uint64_t begins, bool more) {
  while (sent_ >= begins && sent_ < begins + text.size()) {
    const std::string_view rest = text.substr(static_cast<std::size_t>(sent_ - begins));
    const ssize_t n = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL | (more ? MSG_MORE : 0));
    if (n < 0) return false;
    sent_ += static_cast<std::uint64_t>(n);
  }
  return true;
}

bool LoadConnection::send_content() {
  const std::uint64_t begins = request_.head.size() + request_.before.size();
  while (sent_ >= begins && sent_ < begins + request_.content_bytes) {
    const std::uint64_t offset = sent_ - begins;
    const auto count = static_cast<std::size_t>(
        std::min<std::uint64_t>(request_.content_bytes - offset, kSendBytesMax));
    const ConstBytes piece = content_.at(request_.content_at + offset, count);
    const ssize_t n = ::send(fd_, piece.data(), piece.size(), MSG_NOSIGNAL);
    if (n < 0) return false;
    sent_ += static_cast<std::uint64_t>(n);
  }
  return true;
}

bool LoadConnection::send_more() {
  if (dial_error_ != 0) return break_off(std::strerror(dial_error_)), false;
  const std::uint64_t before_at = request_.head.size();
  const std::uint64_t after_at = total_ - request_.after.size();
  if (send_text(request_.head, 0, total_ > before_at) &&
      send_text(request_.before, before_at, total_ > before_at + request_.before.size()) &&
      send_content() && send_text(request_.after, after_at, false)) {
    return true;
  }
  if (errno == EAGAIN) return true;
  // A server that refuses a body answers and closes: what it says is worth more than that.
  if (errno == EPIPE && sent_ > 0) {
    sent_ = total_;
    return true;
  }
  break_off(std::strerror(errno));
  return false;
}

void LoadConnection::take(std::string_view in) {
  while (!in.empty() && !answer_.done() && !answer_.malformed()) {
    const std::uint64_t at = answer_.body_bytes();
    const AnswerReader::Taken taken = answer_.take(in);
    in.remove_prefix(taken.bytes);
    if (taken.body.empty()) continue;
    const bool failed = answer_.status() >= 300;
    const std::size_t keep = failed ? kErrorBytesMax : request_.keep_bytes;
    if (outcome_.body.size() < keep) {
      outcome_.body.append(taken.body.substr(0, keep - outcome_.body.size()));
    }
    if (verify_ && !failed && request_.expected_at &&
        !content_.matches(*request_.expected_at + at, as_bytes(taken.body))) {
      wrong_content_ = true;
    }
  }
}

// Pre: the answer has ended.
void LoadConnection::judge() {
  busy_ = false;
  outcome_.status = answer_.status();
  outcome_.said_bytes = answer_.said_bytes();
  if (sent_ < total_ || answer_.closes()) broken_ = true;
  if (answer_.status() >= 300) {
    outcome_.error = "status " + std::to_string(answer_.status());
    const std::size_t code = outcome_.body.find("<Code>");
    if (code != std::string::npos) {
      outcome_.error +=
          " " + outcome_.body.substr(code + 6, outcome_.body.find("</Code>") - code - 6);
    }
    return;
  }
  outcome_.etag = answer_.header("etag");
  if (request_.expected_bytes && answer_.said_bytes() != *request_.expected_bytes) {
    outcome_.error = "an answer of another length";
  } else if (wrong_content_) {
    outcome_.error = "wrong content";
  } else {
    outcome_.good = true;
  }
}

bool LoadConnection::receive(std::string& buffer, BenchTime now) {
  const ssize_t n = ::recv(fd_, buffer.data(), buffer.size(), 0);
  if (n < 0 && errno == EAGAIN) return false;
  if (!busy_) {  // closed while it was not used
    broken_ = true;
    return true;
  }
  if (n <= 0) {
    if (n == 0) answer_.end();
    if (n == 0 && answer_.done()) {
      judge();
    } else {
      break_off(n < 0 ? std::strerror(errno) : "closed before the answer had ended");
    }
  } else {
    if (received_ == 0) first_byte_ = now;
    received_ += static_cast<std::uint64_t>(n);
    take({buffer.data(), static_cast<std::size_t>(n)});
    if (answer_.malformed()) {
      break_off("no answer of HTTP/1.1");
    } else if (answer_.done()) {
      judge();
    }
  }
  outcome_.ended = now;
  return !busy_;
}

}  // namespace penstock
