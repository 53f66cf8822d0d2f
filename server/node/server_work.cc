#include "server/node/server_work.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "penstock/wait_on.h"
#include "server/background/background_metrics.h"
#include "server/node/ring_metrics.h"

namespace penstock {
namespace {

BackgroundContext background_of(const ServerWorkParts& parts) {
  ObjectStack& objects = parts.objects;
  return BackgroundContext{objects.membership(),
                           objects.proposer(),
                           objects.index(),
                           objects.blobs(),
                           objects.objects(),
                           objects.clock(),
                           {},
                           parts.background};
}

ReplacementParts replacement_of(const ServerWorkParts& parts) {
  ObjectStack& objects = parts.objects;
  auto on_map = [&volumes = parts.volumes](std::shared_ptr<const ClusterMap> map) {
    volumes.take_map(std::move(map));
  };
  return ReplacementParts{
      objects.membership(), objects.proposer(), objects.blobs(), objects.clock(), {},
      std::move(on_map)};
}

}  // namespace

ServerWork::ServerWork(ServerWorkParts parts)
    : io_(parts.io),
      background_(background_of(parts)),
      replacement_(replacement_of(parts)),
      ring_(parts.objects.membership(), parts.volumes, parts.new_volume, replacement_, parts.io),
      socket_([this](const std::string& question) { return ring_.answer(question); }) {}

void ServerWork::add_collectors(Metrics& metrics) const {
  add_collectors_of_background(metrics, [this] { return background_.status(); });
  add_collectors_of_ring(metrics, ring_);
}

void ServerWork::begin() {
  boost::asio::post(io_.at(0), [this] { background_.start(io_.at(0).get_executor()); });
  boost::asio::post(io_.at(0), [this] { replacement_.start(io_.at(0).get_executor()); });
}

Result<> ServerWork::listen(const std::vector<std::string>& directories) {
  return socket_.start(directories);
}

void ServerWork::stop_listening() { socket_.stop(); }

void ServerWork::finish() { wait_on(io_.at(0), end(), "end"); }

Awaitable<void> ServerWork::end() {
  replacement_.stop();
  background_.stop();
  co_await replacement_.finish();
  co_await background_.finish();
}

}  // namespace penstock
