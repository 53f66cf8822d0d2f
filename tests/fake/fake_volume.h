// A whole volume in memory: the registers of a FakeAcceptor with scans over its rows, and the
// fragments of a FakeHolder. Thread-safety: one executor.
#pragma once
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/fake/fake_acceptor.h"
#include "tests/fake/fake_holder.h"

namespace penstock {

class FakeVolume final : public VolumeClient {
 public:
  FakeVolume(VolumeId id, FakeClock& clock, boost::asio::io_context& io)
      : acceptor(id, clock, io), fragments(id), clock_(clock) {}

  FakeAcceptor acceptor;
  FakeHolder fragments;
  struct Counters {
    int scans = 0;
    int rows = 0;  // returned
  };
  Counters counters;
  bool fail_scans = false;
  Errc scan_error = Errc::unavailable;  // of scans that fail
  Duration scan_delay{};
  bool fail_fenced_scans = false;
  // Called before each scan looks at the rows.
  std::function<void(const ScanRequest&)> before_scan;

  // Registers and fragments: its disk is lost.
  void go_missing() {
    acceptor.state = VolumeStatus::State::missing;
    fragments.faults.state = VolumeStatus::State::missing;
  }

  VolumeId id() const override { return acceptor.id(); }
  VolumeStatus status() const override { return acceptor.status(); }
  Task<PrepareReply> prepare(std::shared_ptr<const PrepareRequest> request,
                             Deadline deadline) override {
    return acceptor.prepare(std::move(request), deadline);
  }
  Task<AcceptReply> accept(std::shared_ptr<const AcceptRequest> request,
                           Deadline deadline) override {
    return acceptor.accept(std::move(request), deadline);
  }
  Task<Accepted> read(std::shared_ptr<const ReadRequest> request, Deadline deadline) override {
    return acceptor.read(std::move(request), deadline);
  }
  std::optional<Result<Accepted>> read_now(const ReadRequest& request) override {
    return acceptor.read_now(request);
  }
  bool holds_now(const ReadRequest& request, const Ballot& ballot) override {
    return acceptor.holds_now(request, ballot);
  }
  Task<ScanReply> scan(std::shared_ptr<const ScanRequest> request, Deadline deadline) override;
  Task<> drop(std::shared_ptr<const DropRequest> request, Deadline deadline) override {
    return acceptor.drop(std::move(request), deadline);
  }
  Task<std::unique_ptr<FragmentWriter>> write_fragment(FragmentId id, FragmentShape shape,
                                                       Deadline deadline) override {
    return fragments.write_fragment(id, shape, deadline);
  }
  Task<Piece> read_fragment(FragmentReadRequest request, Deadline deadline) override {
    return fragments.read_fragment(request, deadline);
  }
  std::optional<Result<Piece>> read_fragment_now(const FragmentReadRequest& request) override {
    return fragments.read_fragment_now(request);
  }
  Task<std::vector<FragmentId>> pin(std::vector<FragmentId> ids, Deadline deadline) override {
    return fragments.pin(std::move(ids), deadline);
  }
  Task<> remove_fragment(FragmentId id, Deadline deadline) override {
    return fragments.remove_fragment(id, deadline);
  }
  Task<> probe(Deadline deadline) override { return fragments.probe(deadline); }
  Task<std::vector<FragmentId>> pin_for_reader(std::vector<FragmentId> ids,
                                               Deadline deadline) override {
    return fragments.pin_for_reader(std::move(ids), deadline);
  }
  Task<> remove_fragment_if(FragmentId id, RemovalRule rule, Deadline deadline) override {
    return fragments.remove_fragment_if(id, rule, deadline);
  }
  Task<std::vector<FragmentEntry>> list_fragments(std::optional<FragmentId> after,
                                                  std::uint32_t count, Deadline deadline) override {
    return fragments.list_fragments(after, count, deadline);
  }
  Task<HintListReply> list_hints(HintListRequest request, Deadline deadline) override {
    return acceptor.list_hints(std::move(request), deadline);
  }
  Task<Ballot> read_hint(HintName name, Deadline deadline) override {
    return acceptor.read_hint(name, deadline);
  }
  Task<> drop_hints(std::vector<HintName> names, Deadline deadline) override {
    return acceptor.drop_hints(std::move(names), deadline);
  }
  Task<RegisterListReply> list_registers(RegisterListRequest request, Deadline deadline) override {
    return acceptor.list_registers(std::move(request), deadline);
  }
  Task<> adopt(std::shared_ptr<const AdoptRequest> request, Deadline deadline) override {
    return acceptor.adopt(std::move(request), deadline);
  }
  Task<SharedBytes> read_map(Deadline deadline) override { return acceptor.read_map(deadline); }
  Task<JoinState> read_join_state(Deadline deadline) override {
    return acceptor.read_join_state(deadline);
  }
  Task<NoteReply> read_note(std::string name, Deadline deadline) override {
    return acceptor.read_note(std::move(name), deadline);
  }
  Task<> put_note(std::string name, std::string bytes, Deadline deadline) override {
    return acceptor.put_note(std::move(name), std::move(bytes), deadline);
  }

 private:
  ScanReply scan_rows(const ScanRequest& request) const;
  FakeClock& clock_;
};

// The row key suffix of a register, as scans return it.
std::string row_key_of(const RegisterKey& key);

}  // namespace penstock
