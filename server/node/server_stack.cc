#include "server/node/server_stack.h"

#include <utility>

#include "penstock/caught.h"
#include "server/node/server_start.h"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kWatchEvery{200};  // for volumes that were taken away

VolumeOptions options_of_volumes(const StoreOptions& store) {
  VolumeOptions options = store.volume;
  options.boot_id = store.boot_id;
  return options;
}

}  // namespace

ServerStack::ServerStack(ServerOptions options)
    : options_(std::move(options)),
      base_(options_.process),
      directories_(options_.store.directories, options_.store.volumes),
      opener_(options_of_volumes(options_.store), base_.clock, base_.random, base_.buffers),
      notes_(base_.io, base_.clock, options_.store.boot_id),
      volumes_(std::make_unique<VolumeSet>(opener_, notes_)),
      new_volume_(std::make_unique<NewVolume>(*volumes_, opener_, notes_, directories_, base_.clock,
                                              base_.random)) {}

ServerStack::~ServerStack() {
  end_watch();
  base_.io.stop();
}

Result<> ServerStack::start() {
  if (options_.member_of) {
    const ServerStartOptions own{options_.store.directories, *options_.member_of,
                                 options_.store.format};
    ServerStart start({own, opener_, *volumes_, base_.clock, base_.random});
    CHECK_OK(start.run());
    formatted_ = start.formatted() > 0;
    return {};
  }
  StoreStart start(
      {options_.store, directories_, opener_, *volumes_, base_.io, base_.clock, base_.random});
  CHECK_OK(start.run());
  formatted_ = start.formatted();
  return {};
}

void ServerStack::begin_watch() {
  watcher_ = std::thread([this] { watch(); });
}

void ServerStack::end_watch() {
  end_watch_soon();
  if (watcher_.joinable()) watcher_.join();
}

void ServerStack::look() {
  try {
    volumes_->watch();
  } catch (...) {
    report_exception("the watch over volumes");
  }
}

void ServerStack::watch() {
  auto next = base_.clock.boot() + kWatchEvery;
  while (!watch_ends_.load()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (base_.clock.boot() < next) continue;
    look();
    next = base_.clock.boot() + kWatchEvery;
  }
  look();  // what has failed since is logged, and noted by other volumes of this process
}

std::size_t ServerStack::close(Duration patience) {
  if (!volumes_) return 0;
  const std::size_t left = volumes_->close(patience);
  if (left > 0) return left;
  new_volume_.reset();
  volumes_.reset();
  return 0;
}

}  // namespace penstock
