// A volume of which a test needs only some calls: all upkeep answers `unavailable`.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/volume_client.h"

namespace penstock {

class VolumeWithoutUpkeep : public VolumeClient {
 public:
  Task<> probe(Deadline) override { co_return none(); }
  Task<std::vector<FragmentId>> pin_for_reader(std::vector<FragmentId>, Deadline) override {
    co_return none();
  }
  Task<> remove_fragment_if(FragmentId, RemovalRule, Deadline) override { co_return none(); }
  Task<std::vector<FragmentEntry>> list_fragments(std::optional<FragmentId>, std::uint32_t,
                                                  Deadline) override {
    co_return none();
  }
  Task<HintListReply> list_hints(HintListRequest, Deadline) override { co_return none(); }
  Task<Ballot> read_hint(HintName, Deadline) override { co_return none(); }
  Task<> drop_hints(std::vector<HintName>, Deadline) override { co_return none(); }
  Task<RegisterListReply> list_registers(RegisterListRequest, Deadline) override {
    co_return none();
  }
  Task<> adopt(std::shared_ptr<const AdoptRequest>, Deadline) override { co_return none(); }
  Task<SharedBytes> read_map(Deadline) override { co_return none(); }
  Task<JoinState> read_join_state(Deadline) override { co_return none(); }
  Task<NoteReply> read_note(std::string, Deadline) override { co_return none(); }
  Task<> put_note(std::string, std::string, Deadline) override { co_return none(); }

 private:
  static Error none() { return fail(Errc::unavailable, "this fake has no upkeep"); }
};

}  // namespace penstock
