// A server with one volume, and a client of it, connected by a stream in memory.
#pragma once
#include <doctest/doctest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/buffer.h"
#include "server/transport/remote_volume.h"
#include "server/transport/served_connection.h"
#include "tests/fake/fake_clock.h"
#include "tests/fake/fake_stream.h"
#include "tests/fake/fake_volume.h"
#include "tests/fake/seeded_random.h"

namespace penstock {

inline std::shared_ptr<const HelloTerms> make_terms(PeerRole role, std::string_view key = "") {
  auto terms = std::make_shared<HelloTerms>();
  terms->role = role;
  terms->cluster = ClusterId{1, 2};
  terms->name = role == PeerRole::server ? "s1" : "g1";
  if (!key.empty()) terms->key.emplace(as_bytes(key));
  return terms;
}

inline HmacSha256 key_of(std::string_view text) { return HmacSha256(as_bytes(text)); }

struct TransportWorld {
  TransportWorld() {
    service = std::make_shared<ServiceParts>(
        ServiceParts{clock, random, buffers, make_terms(PeerRole::server), {}, {}, {}, {}});
    service->volumes = [this] { return std::vector<std::shared_ptr<VolumeClient>>{volume}; };
    service->find = [this](VolumeId id) {
      return id == volume->id() ? volume : std::shared_ptr<FakeVolume>{};
    };
    service->stamp = [this] { return server_map; };
    service->leaving = [this] { return leaving; };
    links = std::make_shared<LinkParts>(
        LinkParts{clock, random, buffers, {}, make_terms(PeerRole::gateway), {}, {}});
    links->stamp = [this] { return client_map; };
    links->heard = [this](const MapStamp& peer) { heard = peer; };
    links->dial = [this](std::string) { return dial(); };
    server = std::make_shared<RemoteServer>(std::vector<boost::asio::io_context*>{&io}, links,
                                            "127.0.0.1:1");
    remote = std::make_unique<RemoteVolume>(volume->id(), server, clock);
  }
  ~TransportWorld() {
    server->stop();
    for (const auto& connection : served) connection->close();
    run_for(std::chrono::seconds(40));
  }

  Task<std::unique_ptr<ByteStream>> dial() {
    if (!reachable) co_return fail(Errc::unavailable, "connection refused");
    wires.emplace_back();
    const FakeWire& wire = wires.back();
    auto connection =
        std::make_shared<ServedConnection>(wire.server_end(), io.get_executor(), service);
    served.push_back(connection);
    boost::asio::co_spawn(io, serve(connection), boost::asio::detached);
    co_return wire.client_end();
  }
  static Awaitable<void> serve(std::shared_ptr<ServedConnection> connection) {
    (void)co_await connection->run();
  }
  // Connects, and waits until the status has come.
  void connect() {
    server->start();
    REQUIRE(run_until(io, clock, [this] { return server->volumes().has_value(); }));
    REQUIRE(run_until(io, clock, [this] { return served.size() >= wires.size() && all_met(); }));
  }
  bool all_met() const {
    if (served.size() < 1 + limits::kByteConnections) return false;
    for (const auto& connection : served) {
      if (!connection->peer()) return false;
    }
    return true;
  }
  void run_for(Duration time) {
    const BootTime until = clock.boot() + time;
    run_until(io, clock, [this, until] { return clock.boot() >= until; });
  }
  template <class T>
  Result<T> run(Task<T> task) {
    return run_task(io, clock, std::move(task));
  }
  Deadline soon() const { return clock.boot() + Duration(std::chrono::seconds(2)); }
  // Lets what is under way go on, without time.
  void settle() {
    io.restart();
    io.poll();
  }

  boost::asio::io_context io;
  FakeClock clock;
  SeededRandom random{7};
  BufferPool buffers{1 << 20};
  MapStamp server_map{Epoch{5}, {1}};
  MapStamp client_map{Epoch{5}, {1}};
  MapStamp heard;
  bool leaving = false;
  bool reachable = true;
  std::shared_ptr<FakeVolume> volume = std::make_shared<FakeVolume>(VolumeId{3}, clock, io);
  std::shared_ptr<ServiceParts> service;
  std::shared_ptr<LinkParts> links;
  std::vector<FakeWire> wires;
  std::vector<std::shared_ptr<ServedConnection>> served;
  std::shared_ptr<RemoteServer> server;
  std::unique_ptr<RemoteVolume> remote;
};

}  // namespace penstock
