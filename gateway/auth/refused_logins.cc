#include "gateway/auth/refused_logins.h"

#include "penstock/log.h"

namespace penstock {
namespace {

constexpr std::size_t kAccessKeyShown = 128;
constexpr std::size_t kPathShown = 256;

std::string_view up_to(std::string_view text, std::string_view ends) {
  return text.substr(0, text.find_first_of(ends));
}

std::int64_t second_of(const Clock& clock) {
  return clock.boot().time_since_epoch() / std::chrono::seconds(1);
}

}  // namespace

std::string_view claimed_access_key(const S3Request& request) {
  constexpr std::string_view kCredential = "Credential=";
  constexpr std::string_view kV2 = "AWS ";
  if (const std::string* header = request.header("authorization")) {
    const std::string_view text = *header;
    if (const auto at = text.find(kCredential); at != std::string_view::npos) {
      return up_to(text.substr(at + kCredential.size()), "/, ");
    }
    if (text.starts_with(kV2)) return up_to(text.substr(kV2.size()), ": ");
  }
  if (const std::string* credential = request.query_value("X-Amz-Credential")) {
    return up_to(*credential, "/");
  }
  if (const std::string* key = request.query_value("AWSAccessKeyId")) return *key;
  return {};
}

void RefusedLogins::tell(const S3Request& request, std::string_view address, const S3Error& error) {
  const std::string* header = request.header("authorization");
  const bool claims = (header != nullptr && !header->empty()) ||
                      request.has_query("X-Amz-Algorithm") ||
                      request.has_query("X-Amz-Signature") || request.has_query("Signature");
  if (!claims) return;
  std::uint64_t left_out = 0;
  {
    const std::lock_guard lock(mutex_);
    ++count_;
    const std::int64_t now = second_of(clock_);
    if (std::exchange(second_, now) != now) lines_ = 0;
    if (lines_ >= kLinesPerSecond) {
      ++left_out_;
      return;
    }
    ++lines_;
    left_out = std::exchange(left_out_, 0);
  }
  log_event(LogLevel::warn, "login_refused",
            {{"request_id", request.request_id},
             {"address", std::string(address)},
             {"access_key", std::string(claimed_access_key(request).substr(0, kAccessKeyShown))},
             {"code", std::string(code_name(error.code))},
             {"reason", std::string(error_message(error).substr(0, kPathShown))},
             {"method", request.method},
             {"path", request.path.substr(0, kPathShown)},
             {"left_out", std::to_string(left_out)}});
}

void RefusedLogins::tell_left_out() {
  std::uint64_t left_out = 0;
  {
    const std::lock_guard lock(mutex_);
    if (left_out_ == 0 || second_ == second_of(clock_)) return;
    left_out = std::exchange(left_out_, 0);
  }
  log_event(LogLevel::warn, "logins_refused", {{"left_out", std::to_string(left_out)}});
}

std::uint64_t RefusedLogins::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

}  // namespace penstock
