#include "tests/crash/recording.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include "tests/fake/observed_disk.h"

namespace penstock::crash {
namespace {
constexpr std::size_t kClients = 4;
constexpr sim::SimMicros kLoadLimit = 600'000'000;
}  // namespace

Recording::Recording(std::uint64_t seed, int operations)
    : seed_(seed), operations_(operations), random_(seed), cluster_(make_crash_cluster(random_)) {
  for (const auto& volume : cluster_->map->volumes) {
    disks_.push_back(std::make_unique<FakeDisk>(volume.name));
  }
  for (std::size_t i = 0; i < kClients; ++i) {
    clients_.push_back(std::make_unique<Client>(load_, random_.bits(), i));
  }
}

void Recording::run(Observer observer) {
  process_ = std::make_unique<Process>(time_, random_.bits(), cluster_);
  for (std::size_t i = 0; i < disks_.size(); ++i) {
    if (const auto formatted = process_->format(i, *disks_[i]); !formatted) {
      return violation("format: " + formatted.error().context);
    }
  }
  observer_ = std::move(observer);
  for (const int life : {1, 2}) {
    if (load_.faulty) break;
    start_process();
    if (life == 1) {
      bool made = false;
      boost::asio::co_spawn(time_.io(), make_bucket(made), boost::asio::detached);
      time_.run_until([&] { return made; }, time_.now() + kLoadLimit);
    }
    run_clients(operations_ / 2);
    const Volume* failed = process_->volume(failed_);
    const bool open = failed != nullptr && failed->status().state == VolumeStatus::State::open;
    left_ = !load_.faulty || !open;  // in what is still to be closed a fault may strike, too
    process_->close();
  }
  observer_ = nullptr;
}

void Recording::start_process() {
  process_ = std::make_unique<Process>(time_, random_.bits(), cluster_);
  process_->set_boot(boot_id_);
  for (std::size_t i = 0; i < disks_.size(); ++i) {
    auto observe = [this, i](FakeDisk::Call kind, const std::string& name) {
      ++calls_;
      if (kind != FakeDisk::Call::read) ++changes_;
      if (!observer_ || load_.faulty) return;
      const Call call{calls_, changes_, i, kind, name};
      observer_(call);
    };
    const auto opened =
        process_->open(i, make_observed_disk(disks_[i]->share(), std::move(observe)));
    const bool excused = load_.faulty && failed_ == i;
    if (!opened && !excused) {
      violation("v" + std::to_string(i) + " does not start: " + opened.error().context);
    }
  }
  load_.process = process_.get();
  process_->serve();
}

Awaitable<void> Recording::make_bucket(bool& done) {
  const Name name{Client::kBucket, ""};
  ledger_.begin(name, Ledger::kBucket);
  const bool faulty_before = load_.faulty;
  auto request = ask("PUT", name.bucket, "");
  auto answer = co_await process_->call(std::move(request), "");
  const bool made = answer && answer->status == 200;
  const bool excused = load_.faulty && !faulty_before;
  if (!made && !excused) violation("the bucket could not be made");
  ledger_.end(name, Ledger::kBucket, made ? Ledger::Outcome::applied : Ledger::Outcome::unknown);
  done = true;
}

void Recording::run_clients(int operations) {
  if (ledger_.entry({Client::kBucket, ""}).acknowledged == Ledger::kAbsent) return;
  for (const auto& client : clients_) {
    boost::asio::co_spawn(time_.io(), client->run(operations), boost::asio::detached);
  }
  const auto all_done = [&] {
    return std::all_of(clients_.begin(), clients_.end(),
                       [](const auto& client) { return client->finished(); });
  };
  if (!time_.run_until(all_done, time_.now() + kLoadLimit)) violation("an operation hangs");
}

void Recording::fail_here(const Call& call, Fault fault) {
  load_.faulty = true;
  failed_ = call.volume;
  if (fault.lasting && fault.kind == FakeDisk::Fault::io) return disks_[failed_]->fail_all();
  disks_[failed_]->fail(call.kind, 1, fault.kind, fault.lasting);
}

}  // namespace penstock::crash
