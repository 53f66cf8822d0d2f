#include "server/background/replacement/register_repair.h"

#include <algorithm>

#include "server/blobs/leases.h"
#include "server/blobs/manifest.h"

namespace penstock {
namespace {

constexpr int kTouchesMax = 5;  // disks may stall
constexpr std::chrono::seconds kTouchAgain{1};

// One slot that was made again.
struct Move {
  WriteId write_id;
  std::uint32_t slot = 0;
  Location from;
  Location to;
};
// A manifest page that was written again, since pages are immutable.
struct PageMove {
  WriteId from;
  BlobRef to;
};
struct Moves {
  std::vector<Move> slots;
  std::vector<PageMove> pages;
  bool empty() const { return slots.empty() && pages.empty(); }
};

template <class Visit>
void visit_blobs(ObjectRecord& record, Visit visit) {
  for (PartInfo& part : record.parts) {
    if (part.blob) visit(*part.blob);
  }
  for (ManifestPage& page : record.manifest) visit(page.blob);
}

void apply(const Moves& moves, BlobRef& blob) {
  for (const Move& move : moves.slots) {
    if (move.write_id != blob.write_id || move.slot >= blob.locations.size()) continue;
    // Go on only if write-id and location of the slot are the ones read.
    if (blob.locations[move.slot] == move.from) blob.locations[move.slot] = move.to;
  }
  for (const PageMove& page : moves.pages) {
    if (page.from == blob.write_id) blob = page.to;
  }
}

// R10: the leases of fragments that were just made hold for longer than making all of them may take
// (a deadline of an hour); pages written again are asked for theirs.
class Relocate final : public RegisterUpdate {
 public:
  explicit Relocate(Moves moves, std::vector<LeaseKeeper*> leases, Deadline deadline)
      : moves_(std::move(moves)), leases_(std::move(leases)), deadline_(deadline) {}
  OpId op_id() const override { return OpId{}; }  // the value keeps its own

  Task<Decision> decide(const Snapshot& current) override {
    Decision decision;
    decision.action = Decision::Action::keep;
    if (!current.live()) co_return decision;
    for (LeaseKeeper* keeper : leases_) {  // R10: of pages written again
      CO_TRY(lost, co_await keeper->ensure(deadline_));
      for (PageMove& page : moves_.pages) leave_out(page.to, lost);
    }
    RegisterValue value;
    if (current.kind() == ValueKind::object) {
      CO_TRY(record, object_record(*current.value));
      visit_blobs(record, [this](BlobRef& blob) { apply(moves_, blob); });
      value = to_value(record, current.value->inline_bytes);
    } else if (current.kind() == ValueKind::part) {
      CO_TRY(part, part_info(*current.value));
      if (part.blob) apply(moves_, *part.blob);
      value = to_value(part);
    } else {
      co_return decision;
    }
    if (value.payload == current.value->payload) co_return decision;  // all of it was replaced
    decision.action = Decision::Action::write;
    decision.value = std::move(value);
    co_return decision;
  }

 private:
  Moves moves_;
  std::vector<LeaseKeeper*> leases_;
  Deadline deadline_;
};

// All that one value names, with the entries of its manifest pages.
struct Named {
  struct Page {
    ManifestPage page;
    std::vector<PartInfo> entries;
  };
  std::vector<BlobRef> blobs;  // of the record itself, pages included
  std::vector<Page> pages;
  FragmentOwner owner;
};

FragmentOwner owner_in(const RegisterRef& ref, const std::string& upload_id) {
  FragmentOwner owner;
  owner.bucket = ref.key.bucket;
  owner.partitions = ref.partitions;
  owner.key = ref.key.key;
  owner.upload_id = upload_id;
  return owner;
}

Task<Named> named_by_record(Blobs& blobs, const RegisterRef& ref, ObjectRecord record,
                            Deadline deadline) {
  Named named;
  named.owner = owner_in(ref, record.upload_id);
  visit_blobs(record, [&named](BlobRef& blob) { named.blobs.push_back(blob); });
  for (ManifestPage& page : record.manifest) {
    CO_TRY(bytes, co_await blobs.read_whole(page.blob, deadline));
    CO_TRY(entries, decode_manifest_page(bytes));
    named.pages.push_back({std::move(page), std::move(entries)});
  }
  co_return named;
}

Task<Named> named_by(Blobs& blobs, const RegisterRef& ref, Snapshot current, Deadline deadline) {
  Named named;
  if (current.kind() == ValueKind::part) {
    CO_TRY(part, part_info(*current.value));
    named.owner = owner_in(ref, ref.key.upload_id);
    if (part.blob) named.blobs.push_back(std::move(*part.blob));
    co_return named;
  }
  if (current.kind() != ValueKind::object) co_return named;
  CO_TRY(record, object_record(*current.value));
  co_return co_await named_by_record(blobs, ref, std::move(record), deadline);
}

void add_to(RegisterHealth& health, const Blobs& blobs, const BlobRef& blob) {
  const auto slots = blobs.misplaced_slots(blob);
  const auto missing =
      std::count_if(blob.locations.begin(), blob.locations.end(),
                    [](const Location& location) { return location.volume.value == 0; });
  health.missing += static_cast<std::uint64_t>(missing);
  if (slots.empty()) return;
  const int spares = blobs.spares(blob);
  health.spares = health.misplaced == 0 ? spares : std::min(health.spares, spares);
  health.misplaced += slots.size();
  const auto layout = Layout::make(blob.shape);
  for (const std::uint32_t slot : slots) {
    if (layout) health.bytes += layout->fragment_bytes(slot);
  }
}

RegisterHealth health_of(const Blobs& blobs, const Named& named) {
  RegisterHealth health;
  for (const BlobRef& blob : named.blobs) add_to(health, blobs, blob);
  for (const Named::Page& page : named.pages) {
    for (const PartInfo& part : page.entries) {
      if (part.blob) add_to(health, blobs, *part.blob);
    }
  }
  return health;
}

Task<ValueKind> upload_state(Proposer& proposer, const RegisterRef& part, Deadline deadline) {
  RegisterRef upload = part;
  upload.key.kind = RowKind::upload;
  upload.key.part = 0;
  CO_TRY(now, co_await proposer.read_background(upload, ReadWant::value, deadline));
  co_return now.kind();
}

// The moves of one blob and of the entries in its pages.
class Mover {
 public:
  Mover(Blobs& blobs, Named& named, Deadline deadline)
      : blobs_(blobs), named_(named), deadline_(deadline) {}

  Task<> run() {
    for (Named::Page& page : named_.pages) CO_CHECK(co_await move_page(page));
    for (BlobRef& blob : named_.blobs) {
      const bool rewritten =
          std::any_of(moves.pages.begin(), moves.pages.end(),
                      [&](const PageMove& page) { return page.from == blob.write_id; });
      if (rewritten) continue;
      CO_TRY(done, co_await move_slots(blob));
      moves.slots.insert(moves.slots.end(), done.begin(), done.end());
    }
    co_return Result<>{};
  }

  Moves moves;
  Repaired repaired;
  std::vector<std::unique_ptr<ManifestWriter>> writers;  // keep the leases of new pages

 private:
  // Each misplaced slot of `blob` that can be is made again; `blob` names the new places.
  Task<std::vector<Move>> move_slots(BlobRef& blob) {
    std::vector<Move> done;
    for (const std::uint32_t slot : blobs_.misplaced_slots(blob)) {
      auto placed = co_await blobs_.make_again(named_.owner, blob, slot, deadline_);
      if (!placed) {
        ++repaired.unplaced;
        repaired.why = std::move(placed).error();
        continue;
      }
      ++repaired.fragments;
      if (const auto layout = Layout::make(blob.shape)) {
        repaired.bytes += layout->fragment_bytes(slot);
      }
      done.push_back(Move{blob.write_id, slot, blob.locations[slot], *placed});
      blob.locations[slot] = *placed;
    }
    co_return done;
  }

  // Entries are patched in a copy of the page, which is a blob of its own.
  Task<> move_page(Named::Page& page) {
    bool changed = false;
    for (PartInfo& part : page.entries) {
      if (!part.blob) continue;
      CO_TRY(done, co_await move_slots(*part.blob));
      changed = changed || !done.empty();
    }
    if (!changed) co_return Result<>{};
    auto writer = std::make_unique<ManifestWriter>(blobs_, named_.owner);
    CO_TRY(pages, co_await writer->write(page.entries, deadline_));
    if (pages.size() != 1) co_return fail(Errc::corrupt, "a manifest page with too many parts");
    moves.pages.push_back(PageMove{page.page.blob.write_id, std::move(pages.front().blob)});
    writers.push_back(std::move(writer));
    co_return Result<>{};
  }

  Blobs& blobs_;
  Named& named_;
  const Deadline deadline_;
};

}  // namespace

// Also a key that a majority knows nothing of is written: the replica that does may not be among
// those that promise.
Task<Snapshot> RegisterRepair::touch(RegisterRef ref, Snapshot current, Deadline deadline) {
  bool rewrite = current.kind() == ValueKind::upload_open;  // a Complete may have begun before
  if (!rewrite) {
    CO_TRY(uncontested, co_await proposer_.is_uncontested(ref, current.ballot, deadline));
    rewrite = !uncontested;
  }
  if (!rewrite) co_return current;
  for (int attempt = 1;; ++attempt) {
    auto touched = co_await proposer_.write_back(ref, WriteBack::complete, true, deadline);
    if (touched || attempt == kTouchesMax) co_return touched;
    co_await clock_.sleep_until(clock_.boot() + Duration(kTouchAgain));
  }
}

Task<RegisterHealth> RegisterRepair::examine(RegisterRef ref, bool touch, Deadline deadline) {
  CO_TRY(current, co_await proposer_.read_background(ref, ReadWant::value, deadline));
  if (touch) {
    CO_TRY(touched, co_await this->touch(ref, std::move(current), deadline));
    current = std::move(touched);
  }
  if (current.kind() == ValueKind::upload_completing ||
      current.kind() == ValueKind::upload_reopening) {
    RegisterHealth health;
    CO_TRY(upload, upload_record(*current.value));
    if (!upload.target) co_return health;
    CO_TRY(target, co_await named_by_record(blobs_, ref, std::move(*upload.target), deadline));
    health.waits = health_of(blobs_, target).misplaced > 0;
    co_return health;
  }
  CO_TRY(named, co_await named_by(blobs_, ref, std::move(current), deadline));
  const RegisterHealth health = health_of(blobs_, named);
  if (health.misplaced == 0 || ref.key.kind != RowKind::part) co_return health;
  CO_TRY(state, co_await upload_state(proposer_, ref, deadline));
  if (state == ValueKind::upload_open) co_return health;
  // Once their upload has ended parts belong to the object, or to nobody. Until then no replica
  // takes a new row of them: fragments made now would be orphans at once.
  RegisterHealth none;
  none.waits = is_open_upload(state);
  co_return none;
}

Task<Repaired> RegisterRepair::repair(RegisterRef ref, Deadline deadline) {
  CO_TRY(current, co_await proposer_.read_background(ref, ReadWant::value, deadline));
  CO_TRY(named, co_await named_by(blobs_, ref, std::move(current), deadline));
  Mover mover(blobs_, named, deadline);
  CO_CHECK(co_await mover.run());
  if (mover.moves.empty()) co_return mover.repaired;
  std::vector<LeaseKeeper*> leases;
  for (const auto& writer : mover.writers) leases.push_back(writer.get());
  const Deadline until = clock_.boot() + Duration(limits::kOperationDeadline);
  Relocate update(std::move(mover.moves), std::move(leases), until);
  CO_CHECK(co_await proposer_.update_background(ref, update, until));
  co_return mover.repaired;
}

}  // namespace penstock
