// A map source in memory, which fails when a test says so. Thread-safety: one executor.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "penstock/wakeup.h"
#include "server/map_source/map_source.h"

namespace penstock {

class FakeMapSource final : public MapSource {
 public:
  explicit FakeMapSource(Clock& clock) : clock_(clock) {}
  ~FakeMapSource() override { *gone_ = true; }

  MapHead head;
  std::optional<Errc> failure;       // of every call
  bool replaces_in_silence = false;  // the next replace() happens and answers `timeout`
  std::vector<Announcement> announcements;
  std::string driver;

  // As another process, or as an etcd that came back otherwise.
  void set(std::shared_ptr<const ClusterMap> map) {
    ++changes_;
    head.revision = map == nullptr ? "" : std::to_string(changes_);
    head.map = std::move(map);
    head.unreadable.clear();
    changed_.notify();
  }
  // Something that is no map.
  void damage() {
    set(nullptr);
    head.revision = std::to_string(changes_);
    head.unreadable = "damaged by a test";
  }

  std::string name() const override { return "fake"; }
  Task<MapHead> read(Deadline) override {
    if (failure) co_return fail(*failure, "the fake source");
    co_return head;
  }
  Task<MapRevision> replace(std::shared_ptr<const ClusterMap> map, MapRevision expected,
                            Deadline) override {
    if (failure) co_return fail(*failure, "the fake source");
    if (expected != head.revision) co_return fail(Errc::busy, "changed meanwhile");
    set(std::move(map));
    if (std::exchange(replaces_in_silence, false)) co_return fail(Errc::timeout, "no answer");
    co_return head.revision;
  }
  Task<MapHead> wait_for_change(MapRevision seen, Deadline deadline) override {
    const auto gone = gone_;
    while (!failure && head.revision == seen && clock_.boot() < deadline) {
      co_await changed_.wait(clock_, deadline);
      if (*gone) co_return fail(Errc::aborted, "the fake source is gone");
    }
    if (failure) co_return fail(*failure, "the fake source");
    if (head.revision == seen) co_return fail(Errc::timeout, "the map is the same");
    co_return head;
  }
  bool keeps_announcements() const override { return true; }
  Task<> announce(Announcement announcement, Deadline) override {
    if (failure) co_return fail(*failure, "the fake source");
    announcements = {std::move(announcement)};
    co_return Result<>{};
  }
  Task<std::vector<Announcement>> announced(Deadline) override {
    if (failure) co_return fail(*failure, "the fake source");
    co_return announcements;
  }
  Task<> drive(std::string who, Deadline) override {
    if (failure) co_return fail(*failure, "the fake source");
    if (!driver.empty() && driver != who) co_return fail(Errc::busy, driver);
    driver = std::move(who);
    co_return Result<>{};
  }
  Task<> resign(Deadline) override {
    driver.clear();
    co_return Result<>{};
  }

 private:
  const std::shared_ptr<bool> gone_ = std::make_shared<bool>(false);
  Clock& clock_;
  std::uint64_t changes_ = 0;
  Wakeup changed_;
};

}  // namespace penstock
