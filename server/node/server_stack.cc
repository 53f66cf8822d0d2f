#include "server/node/server_stack.h"

#include <utility>

#include "penstock/caught.h"
#include "server/node/server_start.h"

namespace penstock {
namespace {

constexpr std::chrono::milliseconds kWatchEvery{250};  // for volumes that have failed
constexpr unsigned kLooksOfDirectories = 4;            // one of so many: they may be taken away

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
  directories_.follow_links();
  StoreStart start({options_.store, directories_, opener_, *volumes_, notes_, base_.io, base_.clock,
                    base_.random});
  CHECK_OK(start.run());
  formatted_ = start.formatted();
  return {};
}

void ServerStack::begin_watch() {
  watcher_ = std::thread([this] { watch(); });
}

void ServerStack::end_watch_soon() {
  {
    const std::lock_guard lock(watch_mutex_);
    watch_ends_ = true;
  }
  watch_ending_.notify_all();
}

void ServerStack::end_watch() {
  end_watch_soon();
  if (watcher_.joinable()) watcher_.join();
}

void ServerStack::look(bool at_directories) {
  try {
    volumes_->watch(at_directories);
  } catch (...) {
    report_exception("the watch over volumes");
  }
}

void ServerStack::watch() {
  const auto ends = [this] { return watch_ends_; };
  std::unique_lock lock(watch_mutex_);
  for (unsigned looks = 1; !watch_ending_.wait_for(lock, kWatchEvery, ends); ++looks) {
    lock.unlock();
    look(looks % kLooksOfDirectories == 0);
    lock.lock();
  }
  lock.unlock();
  look(true);  // what has failed since is logged, and noted by other volumes of this process
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
