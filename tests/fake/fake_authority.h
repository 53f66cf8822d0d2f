// An authority that makes certificates for tests, as files in a directory of its own.
#pragma once
#include <memory>
#include <string>

#include "server/transport/tls_context.h"

namespace penstock {

// What a certificate says. The defaults are those of a good one.
struct CertificateWish {
  std::string uri;  // among its alternative names; empty: none
  long valid_from_seconds = -3600;
  long valid_until_seconds = 3600;
  std::string usage = "clientAuth,serverAuth";
};

class FakeAuthority {
 public:
  FakeAuthority();
  ~FakeAuthority();
  FakeAuthority(const FakeAuthority&) = delete;
  FakeAuthority& operator=(const FakeAuthority&) = delete;

  // Files of a new certificate; `authorities` is this one's. Others of the same name are replaced.
  TlsFiles make(const std::string& name, const CertificateWish& wish) const;
  std::string authorities() const { return directory_ + "/ca.pem"; }

 private:
  struct State;
  std::string directory_;
  std::unique_ptr<State> state_;
};

}  // namespace penstock
