// A volume of another process: each call of the contract is one call over a connection to its
// server.
//
// What a server answers is checked before it is believed; an answer that cannot be is taken for
// none, and logged. Thread-safety: as VolumeClient; calls come from the threads of the server's
// contexts.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/volume_client.h"
#include "server/transport/remote_server.h"

namespace penstock {

class RemoteVolume final : public VolumeClient {
 public:
  RemoteVolume(VolumeId id, std::shared_ptr<RemoteServer> server, Clock& clock);

  // It is served elsewhere from now on. Calls under way end where they are.
  void move_to(std::shared_ptr<RemoteServer> server) { server_.store(std::move(server)); }
  std::shared_ptr<RemoteServer> server() const { return server_.load(); }

  VolumeId id() const override { return id_; }
  VolumeStatus status() const override { return server()->status(id_); }
  Task<PrepareReply> prepare(std::shared_ptr<const PrepareRequest> request,
                             Deadline deadline) override;
  Task<AcceptReply> accept(std::shared_ptr<const AcceptRequest> request,
                           Deadline deadline) override;
  Task<Accepted> read(std::shared_ptr<const ReadRequest> request, Deadline deadline) override;
  std::optional<Result<Accepted>> read_now(const ReadRequest&) override { return std::nullopt; }
  bool holds_now(const ReadRequest&, const Ballot&) override { return false; }
  Task<ScanReply> scan(std::shared_ptr<const ScanRequest> request, Deadline deadline) override;
  Task<> drop(std::shared_ptr<const DropRequest> request, Deadline deadline) override;
  Task<std::unique_ptr<FragmentWriter>> write_fragment(FragmentId id, FragmentShape shape,
                                                       Deadline deadline) override;
  Task<Piece> read_fragment(FragmentReadRequest request, Deadline deadline) override;
  std::optional<Result<Piece>> read_fragment_now(const FragmentReadRequest&) override {
    return std::nullopt;
  }
  Task<std::vector<FragmentId>> pin(std::vector<FragmentId> ids, Deadline deadline) override;
  Task<> remove_fragment(FragmentId id, Deadline deadline) override;
  Task<> probe(Deadline deadline) override;
  Task<std::vector<FragmentId>> pin_for_reader(std::vector<FragmentId> ids,
                                               Deadline deadline) override;
  Task<> remove_fragment_if(FragmentId id, RemovalRule rule, Deadline deadline) override;
  Task<std::vector<FragmentEntry>> list_fragments(std::optional<FragmentId> after,
                                                  std::uint32_t count, Deadline deadline) override;
  Task<HintListReply> list_hints(HintListRequest request, Deadline deadline) override;
  Task<Ballot> read_hint(HintName name, Deadline deadline) override;
  Task<> drop_hints(std::vector<HintName> names, Deadline deadline) override;
  Task<RegisterListReply> list_registers(RegisterListRequest request, Deadline deadline) override;
  Task<> adopt(std::shared_ptr<const AdoptRequest> request, Deadline deadline) override;
  Task<SharedBytes> read_map(Deadline deadline) override;
  Task<JoinState> read_join_state(Deadline deadline) override;
  Task<NoteReply> read_note(std::string name, Deadline deadline) override;
  Task<> put_note(std::string name, std::string bytes, Deadline deadline) override;

 private:
  template <class Reply>
  using Decode = Result<Reply> (*)(std::string_view);
  Task<CallAnswer> ask(wire::Operation operation, std::string fields, Deadline deadline);
  template <class Reply>
  Task<Reply> ask_for(wire::Operation operation, std::string fields, Deadline deadline,
                      Decode<Reply> decode);
  Task<> tell(wire::Operation operation, std::string fields, Deadline deadline);
  Error not_believed(const char* call) const;
  void tell_changed(const Error& error) const;

  const VolumeId id_;
  Clock& clock_;
  std::atomic<std::shared_ptr<RemoteServer>> server_;
};

}  // namespace penstock
