// Logs requests that gave a signature and were refused: wrong secrets, unknown or revoked keys,
// clocks that are off, links that have expired. A guesser must not fill the disk: there is a limit
// of lines per second, and the next line says how many were left out. Text that strangers sent is
// cut and escaped.
// Thread-safety: any thread.
#pragma once
#include <cstdint>
#include <mutex>
#include <string_view>

#include "gateway/s3/request.h"
#include "gateway/s3/s3_error.h"
#include "penstock/runtime.h"

namespace penstock {

// The access key that a request claims to be of, as far as it names one. Any bytes.
std::string_view claimed_access_key(const S3Request& request);

class RefusedLogins {
 public:
  static constexpr int kLinesPerSecond = 10;
  explicit RefusedLogins(const Clock& clock) : clock_(clock) {}

  // Requests without any signature are no logins and are not logged.
  void tell(const S3Request& request, std::string_view address, const S3Error& error);
  // Logs how many were left out, if no further request does: call it from time to time.
  void tell_left_out();
  std::uint64_t count() const;

 private:
  const Clock& clock_;
  mutable std::mutex mutex_;  // guards the rest
  std::int64_t second_ = 0;
  int lines_ = 0;  // in this second
  std::uint64_t left_out_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace penstock
