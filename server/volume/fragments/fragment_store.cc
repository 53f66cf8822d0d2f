#include "server/volume/fragments/fragment_store.h"

#include "penstock/planted.h"
#include "server/volume/fragments/fragment_core.h"
#include "server/volume/fragments/fragment_reader.h"
#include "server/volume/fragments/fragment_writer.h"

namespace penstock {
namespace {

using CorePtr = std::shared_ptr<FragmentCore>;

constexpr std::size_t kListedHeadBytes = 64;  // of an entry in a list, beside its owner's texts

// Counts a wrong checksum, and forgets the handle: the next read looks at the disk again.
void note(FragmentCore& core, const FragmentId& id, const Result<Piece>& result) {
  if (result || result.error().code != Errc::corrupt) return;
  core.count_corrupt();
  core.cache.erase(id);
}

Result<Piece> read_blocking(FragmentCore& core, const FragmentReadRequest& request) {
  CHECK_OK(core.check_open());
  TRY(handle, core.load(request.id));
  CHECK_OK(check_range(*handle, request));
  auto piece = read_verified(handle, request, core.parts.buffers, true);
  note(core, request.id, *piece);  // a read that may block always answers
  return std::move(*piece);
}

// A place among the jobs of the read worker; given back when the job is done or dropped.
class ReadSlot {
 public:
  explicit ReadSlot(CorePtr core) : core_(std::move(core)) {
    taken_ = core_->reads_waiting.fetch_add(1) < limits::kFragmentReadsMax;
  }
  ReadSlot(const ReadSlot&) = delete;
  ReadSlot& operator=(const ReadSlot&) = delete;
  ~ReadSlot() { core_->reads_waiting.fetch_sub(1); }
  explicit operator bool() const { return taken_; }

 private:
  CorePtr core_;
  bool taken_ = false;
};

// Runs `function(core)`, returning Result<T>, on the read worker. Errors: overloaded.
template <class T, class Function>
Task<T> on_read_worker(CorePtr core, Function function, Deadline deadline) {
  auto slot = std::make_shared<ReadSlot>(core);
  if (!*slot) co_return fail(Errc::overloaded, "too many reads wait for one volume");
  auto job = [core, slot, f = std::move(function)]() mutable -> Result<T> {
    CHECK_OK(core->check_open());
    return f(*core);
  };
  co_return co_await core->pending->run_on<T>(core->parts.read_worker, std::move(job), deadline);
}

Task<Piece> read_fragment(CorePtr core, FragmentReadRequest request, Deadline deadline) {
  auto job = [request](FragmentCore& c) { return read_blocking(c, request); };
  return on_read_worker<Piece>(std::move(core), std::move(job), deadline);
}

using Pin = Result<bool> (FragmentLeases::*)(const FragmentId&);

Result<std::vector<FragmentId>> pin_blocking(FragmentCore& core, std::vector<FragmentId> ids,
                                             Pin pin) {
  std::vector<FragmentId> missing;
  for (const FragmentId& id : ids) {
    // First the lease, then the look: a removal either sees the lease or has taken the row.
    TRY(pinned, (core.leases.*pin)(id));
    if (!pinned) {
      missing.push_back(id);
      continue;
    }
    TRY(row, core.find_row(id));
    if (row) continue;
    core.leases.forget(id);
    missing.push_back(id);
  }
  return missing;
}

Task<> remove_fragment(CorePtr core, FragmentId id, FragmentStore::Removal condition,
                       Deadline deadline) {
  CO_CHECK(core->check_open());
  CO_TRY(claim, core->leases.claim(id));
  auto find = [id](FragmentCore& c) { return c.find_row(id); };
  CO_TRY(row, co_await on_read_worker<std::optional<ExtentRow>>(core, std::move(find), deadline));
  if (!row) co_return Result<>{};
  // R11 (3): at the removal, while the claim keeps new pins away.
  const bool pinned = condition == RemovalRule::unpinned && holds(Rule::removal_pinned) &&
                      !core->leases.unpinned_for(id, *row);
  const bool read =
      condition == RemovalRule::unread && holds(Rule::hint_reader) && core->leases.is_read(id);
  if (pinned || read) co_return fail(Errc::busy, "fragment " + to_string(id) + " is pinned");
  CO_CHECK(core->check_open());  // the volume may have been closed meanwhile
  CO_CHECK(co_await core->parts.rows.erase(id));
  core->leases.forget(id);
  core->count_removed(row->data_bytes);
  core->forget_place(id, *row);
  if (row->place == FragmentPlace::segment) co_return Result<>{};
  // Those who read the file keep it open; its space is the file system's to reuse.
  auto unlink = [core, id] { return core->files.remove(BigFiles::name_of(id)); };
  const Result<> removed =
      co_await core->pending->run_on<void>(core->parts.write_worker, std::move(unlink), deadline);
  if (!removed && removed.error().code != Errc::timeout) core->fail_for_good(removed.error());
  co_return removed;
}

Result<std::vector<FragmentEntry>> list_blocking(FragmentCore& core,
                                                 std::optional<FragmentId> after,
                                                 std::size_t count) {
  std::vector<FragmentEntry> entries;
  if (count == 0) return entries;
  std::size_t weight = 0;
  const auto visit = [&](const FragmentId& id, std::string_view bytes) -> Result<bool> {
    TRY(row, decode_extent_row(bytes));
    const auto unpinned = core.leases.unpinned_for(id, row);
    weight += kListedHeadBytes + row.owner.key.size() + row.owner.upload_id.size();
    entries.push_back(
        {id, row.data_bytes, !unpinned, unpinned.value_or(Duration{}), std::move(row.owner)});
    return entries.size() < count && weight < limits::kReplyBytesMax;
  };
  CHECK_OK(core.parts.rows.for_each(after, visit));
  return entries;
}

}  // namespace

FragmentStore::FragmentStore(CorePtr core) : core_(std::move(core)) {}
FragmentStore::~FragmentStore() { core_->close(); }

Result<std::unique_ptr<FragmentStore>> FragmentStore::open(FragmentStoreParts parts,
                                                           FragmentStoreOptions options) {
  auto core = std::make_shared<FragmentCore>(std::move(parts), options);
  CHECK_OK(core->open());
  return std::unique_ptr<FragmentStore>(new FragmentStore(std::move(core)));
}

Task<std::unique_ptr<FragmentWriter>> FragmentStore::create(FragmentId id, FragmentShape shape,
                                                            Deadline deadline) {
  return open_fragment_writer(core_, id, shape, deadline);
}

Task<Piece> FragmentStore::read(FragmentReadRequest request, Deadline deadline) {
  return read_fragment(core_, request, deadline);
}

std::optional<Result<Piece>> FragmentStore::read_now(const FragmentReadRequest& request) {
  if (auto open = core_->check_open(); !open) return Result<Piece>(std::move(open).error());
  const FragmentHandlePtr handle = core_->cache.find(request.id);
  if (handle == nullptr) return std::nullopt;
  if (auto fits = check_range(*handle, request); !fits) {
    return Result<Piece>(std::move(fits).error());
  }
  auto piece = read_verified(handle, request, core_->parts.buffers, false);
  if (piece) note(*core_, request.id, *piece);
  return piece;
}

Task<std::vector<FragmentId>> FragmentStore::pin(std::vector<FragmentId> ids, Deadline deadline) {
  auto job = [ids = std::move(ids)](FragmentCore& core) {
    return pin_blocking(core, ids, &FragmentLeases::pin);
  };
  return on_read_worker<std::vector<FragmentId>>(core_, std::move(job), deadline);
}

Task<std::vector<FragmentId>> FragmentStore::pin_for_reader(std::vector<FragmentId> ids,
                                                            Deadline deadline) {
  auto job = [ids = std::move(ids)](FragmentCore& core) {
    return pin_blocking(core, ids, &FragmentLeases::pin_for_reader);
  };
  return on_read_worker<std::vector<FragmentId>>(core_, std::move(job), deadline);
}

Task<> FragmentStore::remove(FragmentId id, Removal condition, Deadline deadline) {
  return remove_fragment(core_, id, condition, deadline);
}

Task<std::vector<FragmentEntry>> FragmentStore::list(std::optional<FragmentId> after,
                                                     std::size_t count, Deadline deadline) {
  count = std::min(count, limits::kFragmentListMax);
  auto job = [after, count](FragmentCore& core) { return list_blocking(core, after, count); };
  return on_read_worker<std::vector<FragmentEntry>>(core_, std::move(job), deadline);
}

Task<> FragmentStore::probe(Deadline deadline) {
  static constexpr std::array<std::byte, 8> kMark{};
  auto job = [core = core_]() -> Result<> {
    CHECK_OK(core->check_open());
    TRY(file, core->parts.disk.open("probe", OpenMode::append));
    CHECK_OK(file->write_at(0, kMark));
    return file->sync();
  };
  co_return co_await core_->pending->run_on<void>(core_->parts.write_worker, std::move(job),
                                                  deadline);
}

void FragmentStore::abandon(const Error& why) { core_->abandon(why); }

void FragmentStore::expire(BootTime now) { core_->pending->expire(now); }

FragmentStatistics FragmentStore::statistics() const { return core_->statistics(); }

}  // namespace penstock
