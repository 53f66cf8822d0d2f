#include "tests/fake/fake_holder.h"

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <cassert>
#include <stdexcept>

namespace penstock {

class FakeFragmentWriter final : public FragmentWriter {
 public:
  FakeFragmentWriter(FakeHolder& volume, FragmentId id, FragmentShape shape)
      : volume_(volume), id_(id), shape_(shape) {
    ++volume_.counters.writers_open;
  }
  ~FakeFragmentWriter() override { --volume_.counters.writers_open; }

  Task<> append(Buffer data, std::vector<std::uint32_t> crcs, Deadline) override {
    assert(!std::exchange(busy_, true) && "one append at a time");
    ++volume_.counters.appends;
    FakeFaults& faults = volume_.faults;
    if (faults.stall_append > 0 && --faults.stall_append == 0) {
      CO_CHECK(co_await volume_.stall());
    }
    busy_ = false;
    if (faults.state != VolumeStatus::State::open) co_return fail(Errc::unavailable, "closed");
    if (faults.full) co_return fail(Errc::full, "fake volume is full");
    if (faults.fail_append > 0 && --faults.fail_append == 0) co_return fail(Errc::io, "fake EIO");
    take(data.bytes(), crcs);
    if (faults.keep_pieces) volume_.kept.push_back(std::move(data));
    co_return Result<>{};
  }

  Task<> commit(Deadline) override {
    if (volume_.faults.stall_commit) CO_CHECK(co_await volume_.stall());
    if (volume_.faults.state != VolumeStatus::State::open) {
      co_return fail(Errc::unavailable, "closed");
    }
    if (volume_.faults.fail_commit) co_return fail(Errc::io, "fake EIO in commit");
    assert(bytes_.size() == shape_.data_bytes && "all announced bytes were appended");
    volume_.fragments_[id_] = std::make_shared<std::vector<std::byte>>(bytes_);
    volume_.owners_[id_] = shape_.owner;
    co_return Result<>{};
  }

 private:
  void take(ConstBytes data, const std::vector<std::uint32_t>& crcs) {
    constexpr std::uint64_t kBlock = limits::kBlockBytes;
    assert(data.size() > 0 && data.size() <= limits::kPieceBytes);
    assert(bytes_.size() % kBlock == 0 && "only the last piece is no multiple of a block");
    assert(bytes_.size() + data.size() <= shape_.data_bytes);
    assert(crcs.size() == (data.size() + kBlock - 1) / kBlock);
    for (std::size_t i = 0; i < crcs.size(); ++i) {
      const auto block = data.subspan(i * kBlock, std::min(kBlock, data.size() - i * kBlock));
      const auto crc =
          fragment_block_crc(id_.write_id, id_.slot, bytes_.size() / kBlock + i, block);
      assert(crc == crcs[i] && "a block checksum is wrong");
      (void)crc;
    }
    bytes_.insert(bytes_.end(), data.begin(), data.end());
  }

  FakeHolder& volume_;
  FragmentId id_;
  FragmentShape shape_;
  std::vector<std::byte> bytes_;
  bool busy_ = false;
};

FakeHolder::FakeHolder(VolumeId id) : id_(id) {}

FakeHolder::~FakeHolder() = default;

void FakeHolder::release(Result<> answer) {
  const auto stalled = std::exchange(stalled_, {});
  for (const auto& done : stalled) done(answer);
}

Task<> FakeHolder::stall() {
  auto start = [this](Completion<void> done) { stalled_.push_back(std::move(done)); };
  return await_completion<void>(std::move(start));
}

VolumeStatus FakeHolder::status() const {
  VolumeStatus status;
  status.state = faults.state;
  status.full = faults.full;
  status.reason = faults.reason;
  status.fragment_count = fragments_.size();
  return status;
}

Task<std::unique_ptr<FragmentWriter>> FakeHolder::write_fragment(FragmentId id, FragmentShape shape,
                                                                 Deadline) {
  if (faults.stall_open) CO_CHECK(co_await stall());
  if (faults.state != VolumeStatus::State::open) co_return fail(Errc::unavailable, "closed");
  if (faults.full) co_return fail(Errc::full, "fake volume is full");
  if (faults.fail_open) co_return fail(faults.open_error, "fake fault in open");
  std::unique_ptr<FragmentWriter> writer = std::make_unique<FakeFragmentWriter>(*this, id, shape);
  co_return writer;
}

Result<Piece> FakeHolder::piece_of(const FragmentReadRequest& request) {
  if (faults.state != VolumeStatus::State::open) return fail(Errc::unavailable, "closed");
  if (faults.fail_reads) return fail(faults.read_error, "fake read error");
  const auto found = fragments_.find(request.id);
  if (found == fragments_.end()) return fail(Errc::not_found, "no such fragment");
  const auto& bytes = *found->second;
  assert(request.length > 0 && request.length <= limits::kPieceBytes);
  if (request.offset + request.length > bytes.size()) {
    return fail(Errc::invalid, "the range passes the fragment's end");
  }
  const auto bad = bad_blocks_.find(request.id);
  if (bad != bad_blocks_.end()) {
    const auto first = bad->second.lower_bound(request.offset / kBlock);
    const std::uint64_t last = (request.offset + request.length - 1) / kBlock;
    if (first != bad->second.end() && *first <= last) return fail(Errc::corrupt, "fake bit flip");
  }
  Piece piece;
  std::size_t from = request.offset;
  piece.length = request.length;
  if (request.with_checksums) {
    from -= from % kBlock;
    const std::size_t end = request.offset + request.length;
    piece.length = std::min(bytes.size(), (end + kBlock - 1) / kBlock * kBlock) - from;
  }
  piece.memory = Buffer::copy_of(ConstBytes(bytes).subspan(from, piece.length));
  for (std::size_t at = 0; request.with_checksums && at < piece.length; at += kBlock) {
    const auto block = piece.bytes().subspan(at, std::min(kBlock, piece.length - at));
    piece.block_crcs.push_back(
        fragment_block_crc(request.id.write_id, request.id.slot, (from + at) / kBlock, block));
  }
  counters.bytes_read += request.length;
  if (request.file_allowed && faults.piece_file >= 0) {
    piece.memory = Buffer{};
    piece.fd = faults.piece_file;
  }
  return piece;
}

Task<Piece> FakeHolder::read_fragment(FragmentReadRequest request, Deadline) {
  ++counters.reads;
  if (faults.stall_reads) CO_CHECK(co_await stall());
  const auto executor = co_await boost::asio::this_coro::executor;
  for (int turn = 0; turn < faults.late_reads; ++turn) {
    co_await boost::asio::post(executor, use_task);
  }
  co_return piece_of(request);
}

std::optional<Result<Piece>> FakeHolder::read_fragment_now(const FragmentReadRequest& request) {
  if (!faults.cached) return std::nullopt;
  ++counters.reads_now;
  return piece_of(request);
}

Task<std::vector<FragmentId>> FakeHolder::pin(std::vector<FragmentId> ids, Deadline) {
  ++counters.pins;
  if (faults.during_pin) faults.during_pin();
  if (faults.fail_pin || faults.state != VolumeStatus::State::open) {
    co_return fail(Errc::unavailable, "no pin");
  }
  std::vector<FragmentId> missing;
  for (const FragmentId& id : ids) {
    if (!fragments_.contains(id)) missing.push_back(id);
    unpinned.erase(id);
  }
  co_return missing;
}

Task<std::vector<FragmentId>> FakeHolder::pin_for_reader(std::vector<FragmentId> ids, Deadline) {
  ++counters.reader_pins;
  being_read.insert(ids.begin(), ids.end());
  co_return std::vector<FragmentId>{};
}

Task<> FakeHolder::remove_fragment_if(FragmentId id, RemovalRule rule, Deadline deadline) {
  const bool pinned = rule == RemovalRule::unpinned && !unpinned.contains(id);
  const bool reading = rule == RemovalRule::unread && being_read.contains(id);
  if (fragments_.contains(id) && (pinned || reading)) co_return fail(Errc::busy, "pinned");
  if (faults.fail_removal) co_return fail(Errc::io, "fake EIO in a removal");
  co_return co_await remove_fragment(id, deadline);
}

Task<std::vector<FragmentEntry>> FakeHolder::list_fragments(std::optional<FragmentId> after,
                                                            std::uint32_t count, Deadline) {
  if (faults.state != VolumeStatus::State::open) co_return fail(Errc::unavailable, "closed");
  std::vector<FragmentEntry> entries;
  for (const auto& [id, bytes] : fragments_) {
    if (after && id <= *after) continue;
    if (entries.size() == std::min<std::size_t>(count, listed_max)) break;
    FragmentEntry entry;
    entry.id = id;
    entry.data_bytes = bytes->size();
    entry.pinned = !unpinned.contains(id);
    if (!entry.pinned) entry.unpinned = unpinned_for;
    entry.owner = owners_[id];
    entries.push_back(std::move(entry));
  }
  co_return entries;
}

Task<> FakeHolder::probe(Deadline) {
  ++counters.probes;
  if (faults.throw_probe) throw std::runtime_error("planted");
  if (faults.stall_open || faults.stall_commit) CO_CHECK(co_await stall());
  if (faults.state != VolumeStatus::State::open) co_return fail(Errc::unavailable, "closed");
  co_return Result<>{};
}

Task<> FakeHolder::remove_fragment(FragmentId id, Deadline) {
  if (faults.state != VolumeStatus::State::open) co_return fail(Errc::unavailable, "closed");
  fragments_.erase(id);
  co_return Result<>{};
}

Task<PrepareReply> FakeHolder::prepare(std::shared_ptr<const PrepareRequest>, Deadline) {
  co_return fail(Errc::unavailable, "no registers here");
}
Task<AcceptReply> FakeHolder::accept(std::shared_ptr<const AcceptRequest>, Deadline) {
  co_return fail(Errc::unavailable, "no registers here");
}
Task<Accepted> FakeHolder::read(std::shared_ptr<const ReadRequest>, Deadline) {
  co_return fail(Errc::unavailable, "no registers here");
}
Task<ScanReply> FakeHolder::scan(std::shared_ptr<const ScanRequest>, Deadline) {
  co_return fail(Errc::unavailable, "no registers here");
}
Task<> FakeHolder::drop(std::shared_ptr<const DropRequest>, Deadline) {
  co_return fail(Errc::unavailable, "no registers here");
}

}  // namespace penstock
