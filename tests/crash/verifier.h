// Opens a store after a power cut or a fault and checks that it is what clients were promised.
//
// Checked: every volume starts; each object and bucket shows a value that the ledger allows, whole,
// even with two volumes away; it goes on to show that value; LIST and HEAD agree with GET; uploads
// are what they were; the store takes writes again, and they harm nothing.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/crash/ledger.h"
#include "tests/crash/process.h"

namespace penstock::crash {

class Verifier {
 public:
  using OpenDisk = std::function<Result<std::unique_ptr<Disk>>(std::size_t volume)>;
  // The machine comes up at `now` of virtual time.
  Verifier(Ledger ledger, std::shared_ptr<const sim::SimCluster> cluster, std::uint64_t seed,
           sim::SimMicros now);
  // Of the machine on which the store starts. Before run().
  void set_boot(std::string id) { process_.set_boot(std::move(id)); }
  // One volume was damaged: it may refuse to start, or leave. While others are away as well, what
  // needs it may be unavailable; never wrong. Before run().
  void suspect(std::size_t volume) { suspect_ = volume; }
  // `left_out`: volumes that are away while everything is read for the first time.
  // Returns what is wrong; empty: nothing.
  std::vector<std::string> run(const OpenDisk& open_disk, const std::set<std::size_t>& left_out);

 private:
  bool start(const OpenDisk& open_disk);
  bool suspect_is_open() { return suspect_ && process_.volume(*suspect_) != nullptr; }
  void await(Awaitable<void> work, const char* what);
  Awaitable<void> read_all(bool may_be_unavailable);
  Awaitable<void> read_again();
  Awaitable<void> look_at_bucket(Name bucket, bool may_be_unavailable);
  Awaitable<void> list_all();
  Awaitable<void> list_bucket(std::string bucket);
  Awaitable<void> check_uploads();
  Awaitable<void> check_upload(Upload upload);
  Awaitable<void> complete(Upload upload);
  Awaitable<void> write_again();
  Awaitable<void> write(Name name, std::size_t size);
  Awaitable<void> remove(Name name);
  std::vector<Ledger::Value> pending(const Name& name) const;
  // GETs `name`; it must show exactly `value`, or what is pending.
  Awaitable<void> expect(Name name, Ledger::Value value);
  void violation(std::string text) { violations_.push_back(std::move(text)); }
  bool exists(const Name& bucket) const;

  std::optional<std::size_t> suspect_;
  sim::SimTime time_;
  sim::SimRandom random_;
  Ledger ledger_;
  Process process_;
  std::map<Name, Ledger::Value> seen_;
  std::set<Name> written_;  // since the start
  std::vector<std::string> violations_;
};

}  // namespace penstock::crash
