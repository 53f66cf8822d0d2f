// What TLS to etcd wants: whose certificates its members must have, and what this process shows
// them. Read once. Thread-safety: load() from any thread, it blocks on the file system; what it
// gives is immutable.
#pragma once
#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "server/map_source/map_place.h"

namespace penstock {

struct EtcdTls {
  boost::asio::ssl::context context;
  // TLS 1.2 or later; without authorities those of the system. Errors: invalid - not such files, or
  // a key that others may read.
  static Result<std::shared_ptr<EtcdTls>> load(const EtcdTlsFiles& files);
};

}  // namespace penstock
