#include "server/volume/acceptor/body_collector.h"

#include "penstock/log.h"
#include "penstock/row_key.h"

namespace penstock {
namespace {

constexpr double kLiveShareMin = 0.8;
constexpr std::uint64_t kBatchesBetweenLooks = 16;
// Of bodies and their rows in one step. Much more than a page, else the pages of others that are
// written between two steps would make the new file as empty as the old one.
constexpr std::size_t kStepBytes = 256 * limits::kKiB;

}  // namespace

BodyCollector::BodyCollector(RegisterCore& core, RegisterCommit& commit)
    : core_(core), commit_(commit), shared_(std::make_shared<Shared>(core.database)) {
  shared_->self = this;
}

BodyCollector::~BodyCollector() {
  std::lock_guard lock(shared_->mutex);
  shared_->self = nullptr;
}

void BodyCollector::schedule(const std::shared_ptr<Shared>& shared) {
  shared->database.run_later([shared] {
    std::lock_guard lock(shared->mutex);
    if (shared->self != nullptr) shared->self->step();
  });
}

void BodyCollector::poke() {
  if (++batches_ % kBatchesBetweenLooks != 0 || shared_->working) return;
  if (!core_.database.log().is_wasteful(kLiveShareMin)) return;
  passes_left_ = core_.database.log().usage().files;
  shared_->working = true;
  schedule(shared_);
}

// What it has found is moved before the next step begins.
void BodyCollector::step() {
  if (shared_->failed.exchange(false)) pass_.reset();
  if (!pass_ && !begin_pass()) {
    shared_->working = false;
    return;
  }
  auto moves = next_moves();
  if (!moves) return give_up(moves.error());
  if (moves->empty()) return end_pass();
  auto done = [shared = shared_](Result<std::size_t> skipped) {
    if (!skipped) {  // also if the queue is full: then this runs within the step
      shared->failed = true;
      shared->working = false;
      return;
    }
    if (*skipped > 0) shared->skipped = true;
    schedule(shared);
  };
  commit_.submit(MoveWork{std::move(*moves), std::move(done)});
}

bool BodyCollector::begin_pass() {
  if (passes_left_ == 0 || !core_.database.log().is_wasteful(kLiveShareMin)) return false;
  --passes_left_;
  const auto file = core_.database.log().emptiest(kLiveShareMin, stuck_);
  if (!file) return false;
  pass_ = Pass{*file, {}};
  shared_->skipped = false;
  return true;
}

// A body that was skipped is looked at again in the next pass.
void BodyCollector::end_pass() {
  const std::uint64_t file = pass_->file;
  pass_.reset();
  if (shared_->skipped) {
    shared_->working = false;
    return;
  }
  core_.database.log().set_empty(file);
  schedule(shared_);
}

void BodyCollector::give_up(const Error& why) {
  if (why.code == Errc::not_found) return end_pass();  // its last body has gone meanwhile
  log_event(LogLevel::warn, "log_file_stays",
            {{"file", std::to_string(pass_->file)}, {"reason", why.context}});
  if (why.code != Errc::overloaded) stuck_.push_back(pass_->file);
  pass_.reset();
  shared_->working = false;
}

// Empty: there are no more in this file.
Result<std::vector<BodyMove>> BodyCollector::next_moves() {
  std::vector<BodyMove> moves;
  std::size_t bytes = 0;
  const auto visit = [&](std::uint64_t, std::uint64_t offset,
                         std::string_view payload) -> Result<> {
    if (bytes >= kStepBytes) return fail(Errc::busy, "enough for a step");
    TRY(added, add_moves(payload, offset, moves));
    bytes += added;
    return {};
  };
  const auto walked = core_.database.log().walk(pass_->file, pass_->at, visit);
  if (!walked && walked.error().code != Errc::busy) return walked.error();
  return moves;
}

// Those of one record, whose payload is at `offset`; how many bytes they take in the log. Errors:
// those of the rows of today.
Result<std::size_t> BodyCollector::add_moves(std::string_view payload, std::uint64_t offset,
                                             std::vector<BodyMove>& moves) {
  std::size_t logged = 0;
  const auto add = [&](const LoggedChange& change) -> Result<> {
    const auto decoded = decode_row_key(change.key);
    const auto* key = decoded ? std::get_if<RegisterKey>(&*decoded) : nullptr;
    if (change.removes || key == nullptr) return {};
    TRY(row, decode_row(change.key, change.value));
    const BodyPlace& place = row->body;
    const bool here = place.file == pass_->file && place.offset >= offset &&
                      place.offset - offset + row->inline_size <= payload.size();
    if (!here) return {};
    TRY(now, core_.load(*key));
    if (now->body != place) return {};
    const auto bytes = payload.substr(place.offset - offset, row->inline_size);
    if (body_crc(row->op_id, bytes) != place.crc) return fail(Errc::corrupt, "a body is damaged");
    logged += logged_bytes(change.key, *now);
    moves.push_back({*key, place, std::make_shared<const std::string>(bytes)});
    return {};
  };
  CHECK_OK(read_record(payload, add));
  return logged;
}

}  // namespace penstock
