// Calls to etcd, at one of several endpoints: that which answered last, then the others in turn.
// Every call is bounded by its deadline; an endpoint that is silent costs a share of it.
// Thread-safety: one executor; several calls may be under way.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "penstock/runtime.h"
#include "server/map_source/etcd_stream.h"
#include "server/map_source/map_place.h"

namespace penstock {

class EtcdClient {
 public:
  enum class Repeat : std::uint8_t {
    never,    // it changes something: once it was sent, its fate is not known (`timeout`)
    allowed,  // asked again elsewhere
  };
  struct Answer {
    unsigned status = 0;  // of HTTP: 200, or what an etcd says that refuses
    std::string body;
  };

  // `tls`: null: in the clear.
  EtcdClient(MapPlace place, Clock& clock, std::shared_ptr<EtcdTls> tls);
  ~EtcdClient();

  // The body of an answer with status 200. Errors: unavailable - no endpoint took it; timeout;
  // what a refusal says (etcd_json.h).
  Task<std::string> call(std::string path, std::string body, Repeat repeat, Deadline deadline);
  // An endless answer that has begun with status 200.
  Task<std::shared_ptr<EtcdStream>> begin(std::string path, std::string body, Deadline deadline);
  // The endpoint is not to be trusted: the next call begins with another one.
  void turn_away();

 private:
  struct Said {
    Said() = default;
    Said(Result<std::string> of) : body(std::move(of)) {}
    Said(Error error) : body(std::move(error)) {}
    Result<std::string> body;
    bool wants_login = false;  // the token has ended: nothing was done
  };
  // Until when an endpoint is waited for, if `left` endpoints are left: its connection, a login and
  // the answer together.
  BootTime share_of(Deadline deadline, std::size_t left) const;
  Duration left_of(BootTime until) const;
  Task<> connect(EtcdStream& stream, const EtcdEndpoint& endpoint, BootTime until) const;
  Task<> login(const EtcdEndpoint& endpoint, BootTime until);
  Task<std::string> call_at(std::size_t endpoint, std::string path, std::string body,
                            BootTime until, bool fresh);
  Awaitable<Said> ask(std::size_t endpoint, EtcdRequest request, BootTime until, bool fresh);
  std::shared_ptr<EtcdStream> take_idle(std::size_t endpoint);

  const MapPlace place_;
  Clock& clock_;
  const std::shared_ptr<EtcdTls> tls_;
  std::size_t current_ = 0;  // endpoint
  std::string token_;        // of a login
  std::size_t idle_at_ = 0;  // the endpoint of the next
  std::shared_ptr<EtcdStream> idle_;
};

}  // namespace penstock
