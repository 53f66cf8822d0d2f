// What damage of a volume's files does: the volume stays out, or nothing that it had synced is lost
// or wrong. Whatever the files are made of: these tests only take them away, cut, flip and swap.
#include <cstring>

#include "penstock/checksum.h"
#include "tests/unit/volume/volume_harness.h"

namespace penstock {
namespace {

constexpr const char* kBoot = "one boot";
constexpr const char* kNextBoot = "the next boot";

VolumeOptions small_logs(const std::string& boot_id = kBoot) {
  VolumeOptions options = VolumeHarness::options();
  options.database.write_buffer_bytes = 64 * limits::kKiB;
  options.database.log_file_bytes_min = 64 * limits::kKiB;
  options.boot_id = boot_id;
  return options;
}

void write_whole(FakeDisk& disk, const std::string& name, std::string_view bytes) {
  auto file = disk.open(name, OpenMode::write_new);
  REQUIRE(file);
  REQUIRE((*file)->write_at(0, as_bytes(bytes)));
  REQUIRE((*file)->sync());
  REQUIRE(disk.sync_directory(""));
  REQUIRE(disk.sync_directory("db"));
}

std::vector<std::string> names_with(const FakeDisk& disk, std::string_view part) {
  std::vector<std::string> found;
  for (const std::string& name : disk.files()) {
    if (name.find(part) != std::string::npos) found.push_back(name);
  }
  return found;
}

// A volume with rows in tables, in a log that has rotated, and in the newest one.
struct Damaged {
  // `fill`: what its bytes are made of. `seed`: of what the volume draws, like its markers. All
  // else is the same for the same count.
  explicit Damaged(std::uint64_t count = 700, char fill = 'x', std::uint64_t seed = 1)
      : fill_byte(fill) {
    h.random = SeededRandom(seed);
    REQUIRE(h.format());
    h.open(small_logs());
    add_rows(count);
  }
  void add_rows(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i, ++rows) {
      h.store(h.object(key_of(rows)), ballot_of(rows), h.value(rows + 1), bytes_of(rows));
    }
  }
  static std::string key_of(std::uint64_t row) { return "key" + std::to_string(row % 150); }
  Ballot ballot_of(std::uint64_t row) const { return {begun + row, 9, 1}; }
  std::string bytes_of(std::uint64_t row) const {
    return std::to_string(row) + std::string(100 + more_bytes + row % 400, fill_byte);
  }
  // `kill`: the process ends, the machine runs on.
  void kill() { h.crash(Keep::all, Keep::all); }

  // "refused", "whole", or what is lost. A row that answers `corrupt` is not lost: the other
  // replicas have it, and nobody takes it for absent.
  std::string verdict(const std::string& boot_id = kBoot) {
    auto opened = h.try_open(small_logs(boot_id));
    if (!opened) {
      if (opened.error().code == Errc::corrupt || opened.error().code == Errc::not_found ||
          opened.error().code == Errc::invalid) {
        return "refused";
      }
      return "refused for another reason: " + opened.error().context;
    }
    h.volume = std::move(*opened);
    std::string lost;
    if (!h.run(h.volume->set_epochs({GroupEpoch{kGroup, Epoch{1}, {}}}))) return "refused";
    for (std::uint64_t row = rows < 150 ? 0 : rows - 150; row < rows; ++row) {
      const auto found = h.read(h.object(key_of(row)), ReadWant::value_and_inline);
      if (!found && found.error().code == Errc::corrupt) continue;
      if (!found && found.error().code == Errc::unavailable) continue;  // it has closed meanwhile
      const bool right = found && found->ballot == ballot_of(row) && found->inline_bytes &&
                         *found->inline_bytes == bytes_of(row);
      if (!right) lost += " " + key_of(row);
    }
    return lost.empty() ? "whole" : "lost:" + lost;
  }

  VolumeHarness h;
  const std::uint64_t begun = h.now_us() + 1;
  std::uint64_t rows = 0;
  std::size_t more_bytes = 0;  // of each row
  const char fill_byte;
};

bool is_good(const std::string& verdict) { return verdict == "refused" || verdict == "whole"; }

}  // namespace

TEST_CASE("a log that is lost whole after a rotation keeps the volume out") {
  for (const bool orderly : {false, true}) {
    CAPTURE(orderly);
    Damaged d;
    if (orderly) {
      d.h.close();
    } else {
      d.kill();
    }
    const auto logs = log_files(d.h.disk);
    REQUIRE(!logs.empty());
    d.h.disk.lose_file(logs.back());
    CHECK(d.verdict() == "refused");
    CHECK(d.verdict(kNextBoot) == "refused");
  }
}

namespace {

// A call that wants a descriptor or memory and does not get it, the `nth` of its kind and name
// since it was armed.
struct Want {
  FakeDisk::Call call;
  std::string part;  // its name's end; empty: the volume's own directory
  int nth = 0;
  bool armed = false;
  bool struck = false;
};

void open_wanting(Damaged& d, Want& want) {
  auto observe = [&d, &want](FakeDisk::Call call, const std::string& name) {
    const bool meant = want.part.empty() ? name.empty() : name.ends_with(want.part);
    if (!want.armed || call != want.call || !meant || --want.nth != 0) return;
    d.h.disk.fail(call, 1, FakeDisk::Fault::scarce);
    want.struck = true;
  };
  auto view = make_observed_disk(d.h.disk.share(), std::move(observe));
  auto opened = Volume::open({std::move(view), d.h.clock, d.h.random, d.h.buffers, d.h.workers()},
                             small_logs());
  REQUIRE(opened);
  d.h.volume = std::move(*opened);
  REQUIRE(d.h.run(d.h.volume->set_epochs({GroupEpoch{kGroup, Epoch{1}, {}}})));
  want.armed = true;
}

// How many batches were refused.
int add_rows_again(Damaged& d, std::uint64_t count, const bool* stop) {
  int refused = 0;
  for (std::uint64_t i = 0; i < count && !(stop != nullptr && *stop); ++i, ++d.rows) {
    const auto key = d.h.object(d.key_of(d.rows));
    const auto stored =
        d.h.accept(key, d.ballot_of(d.rows), d.h.value(d.rows + 1), d.bytes_of(d.rows));
    if (stored) continue;
    ++refused;
    CHECK(stored.error().code == Errc::overloaded);
    d.h.store(key, d.ballot_of(d.rows), d.h.value(d.rows + 1), d.bytes_of(d.rows));
  }
  return refused;
}

}  // namespace

TEST_CASE("want of descriptors while a log is begun or dropped refuses one batch and no more") {
  using Call = FakeDisk::Call;
  for (const auto& [call, part] : {std::pair<Call, std::string>{Call::create, ".log"},
                                   {Call::create, "witness.tmp"},
                                   {Call::write, "witness.tmp"},
                                   {Call::rename, "witness.tmp"},
                                   {Call::sync_directory, ""},
                                   {Call::remove, ".log"}}) {
    for (int nth = 1; nth <= 16; ++nth) {
      for (const bool at_once : {true, false}) {  // the end comes
        CAPTURE(static_cast<int>(call));
        CAPTURE(part);
        CAPTURE(nth);
        CAPTURE(at_once);
        Damaged d(0);
        d.more_bytes = 6000;
        d.h.close();
        Want want{call, part, nth};
        open_wanting(d, want);
        const int refused = add_rows_again(d, 220, at_once ? &want.struck : nullptr);
        CHECK(refused <= 1);
        CHECK(d.h.volume->status().state == VolumeStatus::State::open);
        want.armed = false;
        const bool killed = nth % 2 == 0;
        d.h.crash(killed ? Keep::all : Keep::none, killed ? Keep::all : Keep::none);
        const std::string found = d.verdict(killed ? kBoot : kNextBoot);
        CHECK_MESSAGE(found == "whole", found);
      }
    }
  }
}

TEST_CASE("a manifest with a damaged end is taken only if nothing is lost by that") {
  int refused = 0;
  // The last that it says is now a new table for a log, now a merge of tables.
  for (const std::uint64_t count : {150, 300, 450, 600, 700}) {
    CAPTURE(count);
    Damaged d(count);
    d.kill();
    const auto before = d.h.disk.snapshot();
    const auto manifests = names_with(d.h.disk, "MANIFEST-");
    REQUIRE(manifests.size() == 1);
    const std::string bytes = read_file(d.h.disk, manifests[0]);
    for (std::size_t back = 1; back < bytes.size(); back += 17) {
      for (const bool cut : {false, true}) {
        CAPTURE(back);
        CAPTURE(cut);
        d.h.disk.restore(*before);
        if (cut) {
          write_whole(d.h.disk, manifests[0], bytes.substr(0, bytes.size() - back));
        } else {
          d.h.disk.flip_bit(manifests[0], bytes.size() - back, 3);
        }
        const std::string found = d.verdict(kNextBoot);
        CHECK_MESSAGE(is_good(found), found);
        refused += found == "refused";
        d.h.close();
      }
    }
  }
  CHECK(refused > 0);
}

namespace {

// A record as LevelDB's log has it (its log_format page there).
std::string leveldb_record(std::string_view payload) {
  std::string body(1, '\1');
  body += payload;
  const std::uint32_t crc = crc32c(as_bytes(body));
  const std::uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
  std::string record(reinterpret_cast<const char*>(&masked), 4);
  record.push_back(static_cast<char>(payload.size() & 255));
  record.push_back(static_cast<char>(payload.size() >> 8));
  return record + body;
}

// What a file of LevelDB may hold, for each of the next sequence numbers: an empty batch.
std::string records_of_a_profile() {
  std::string bytes;
  for (std::uint64_t sequence = 1; sequence < 64; ++sequence) {
    std::string batch(12, '\0');
    std::memcpy(batch.data(), &sequence, sizeof sequence);
    bytes += leveldb_record(batch);
  }
  return bytes;
}

}  // namespace

TEST_CASE("a user's bytes never decide whether the end of a log is torn") {
  for (const bool own_log : {false, true}) {
    CAPTURE(own_log);
    Damaged d(5);
    const auto logs = log_files(d.h.disk);
    REQUIRE(logs.size() == 1);
    const auto begin = log_pages(d.h.used_of(logs[0]));
    // Records of LevelDB, or what this very log has held up to now, where a record may begin.
    const std::string held =
        own_log ? read_file(d.h.disk, logs[0]).substr(0, kLogPageBytes) : records_of_a_profile();
    constexpr std::size_t kBeforeBody = kFrameHeadBytes + sizeof(std::uint32_t);
    std::string body(kLogPageBytes - kBeforeBody, 'x');
    while (body.size() < 10 * kLogPageBytes) body += held;
    d.h.store(d.h.object("theirs"), d.ballot_of(1000), d.h.value(1000), body);
    d.kill();
    REQUIRE(d.h.used_of(logs[0]) > begin + 10 * kLogPageBytes);
    const auto whole = d.h.disk.snapshot();
    // A kill leaves no head; a power cut any pages.
    d.h.unwrite(logs[0], begin, begin + kLogPageBytes);
    const auto torn = d.h.disk.snapshot();
    CHECK(d.verdict() == "whole");
    d.h.close();
    d.h.disk.restore(*torn);
    CHECK(d.verdict(kNextBoot) == "whole");
    d.h.close();
    for (int page = 1; page < 10; ++page) {
      d.h.disk.restore(*whole);
      const auto from = begin + static_cast<std::uint64_t>(page) * kLogPageBytes;
      d.h.unwrite(logs[0], from, from + kLogPageBytes);
      CHECK(d.verdict(kNextBoot) == "whole");
      d.h.close();
    }
  }
}

namespace {

// One way to damage `name`, whose bytes are `bytes`; false: it would change nothing.
using Damage =
    std::function<bool(FakeDisk& disk, const std::string& name, const std::string& bytes)>;

bool change(FakeDisk& disk, const std::string& name, const std::string& from, std::string to) {
  if (to == from) return false;
  write_whole(disk, name, to);
  return true;
}

std::vector<std::pair<std::string, Damage>> damages(FakeDisk& other,
                                                    const FakeDisk::Snapshot& old) {
  const auto older = std::make_shared<FakeDisk>();
  older->restore(old);
  const auto from = [](FakeDisk& source) {
    return [&source](FakeDisk& disk, const std::string& name, const std::string& bytes) {
      const auto there = source.files();
      if (std::find(there.begin(), there.end(), name) == there.end()) return false;
      return change(disk, name, bytes, read_file(source, name));
    };
  };
  std::vector<std::pair<std::string, Damage>> all{
      {"lost",
       [](FakeDisk& disk, const std::string& name, const std::string&) {
         disk.lose_file(name);
         return true;
       }},
      {"another volume's", from(other)},
      {"an older copy",
       [older, from](FakeDisk& disk, const std::string& name, const std::string& bytes) {
         return from(*older)(disk, name, bytes);
       }}};
  for (const double part : {0.0, 0.3, 0.9, 0.999}) {
    all.emplace_back("cut to " + std::to_string(part),
                     [part](FakeDisk& disk, const std::string& name, const std::string& bytes) {
                       const auto left =
                           static_cast<std::size_t>(static_cast<double>(bytes.size()) * part);
                       return change(disk, name, bytes, bytes.substr(0, left));
                     });
  }
  for (int step = 0; step < 24; ++step) {
    all.emplace_back("a flipped bit at " + std::to_string(step) + "/24",
                     [step](FakeDisk& disk, const std::string& name, const std::string& bytes) {
                       if (bytes.empty()) return false;
                       const auto at = bytes.size() * static_cast<std::size_t>(step) / 24;
                       disk.flip_bit(name, at, static_cast<unsigned>(step % 8));
                       return true;
                     });
  }
  for (int back = 1; back < 40; back += 3) {
    all.emplace_back("a flipped bit at its end - " + std::to_string(back),
                     [back](FakeDisk& disk, const std::string& name, const std::string& bytes) {
                       const auto from_end = static_cast<std::size_t>(back);
                       if (from_end > bytes.size()) return false;
                       disk.flip_bit(name, bytes.size() - from_end, 4);
                       return true;
                     });
  }
  return all;
}

}  // namespace

TEST_CASE("no damage of a file loses a row in silence: the volume stays out, or has all its rows") {
  Damaged other(700, 'o', 2);
  other.add_rows(300);
  other.h.close();
  for (const bool orderly : {true, false}) {
    Damaged d;
    const auto older = d.h.disk.snapshot();
    d.add_rows(300);
    if (orderly) {
      d.h.close();
    } else {
      d.kill();
    }
    const auto before = d.h.disk.snapshot();
    const auto all = d.h.disk.files();
    const auto logs = log_files(d.h.disk);
    for (const std::string& name : all) {
      d.h.disk.restore(*before);
      const std::string bytes = name.starts_with("segments") ? "" : read_file(d.h.disk, name);
      for (const auto& [how, damage] : damages(other.h.disk, *older)) {
        // Of the newest log after a kill: only its last frame, or a cut at a frame's border, can be
        // mistaken for a write that was cut off.
        const bool newest = !orderly && name == logs.back();
        const bool border = how == "an older copy" || how == "cut to 0.000000";
        const bool end =
            how != "lost" && how != "another volume's" && how != "a flipped bit at 0/24";
        for (const std::string boot : {kBoot, kNextBoot}) {
          if (newest && (border || (end && boot == kNextBoot))) continue;
          d.h.disk.restore(*before);
          if (!damage(d.h.disk, name, bytes)) continue;
          const std::string found = d.verdict(boot);
          CHECK_MESSAGE(is_good(found), orderly, " ", name, " ", how, " ", boot, ": ", found);
          d.h.close();
        }
      }
    }
  }
}

TEST_CASE("within one boot a last record is whole or has no head") {
  Damaged d(0);
  d.more_bytes = 2 * kLogPageBytes;  // a page ends inside of the last record
  d.add_rows(5);
  d.kill();
  const std::string log = log_files(d.h.disk).back();
  const auto used = d.h.used_of(log);
  const auto page_end = used / kLogPageBytes * kLogPageBytes;
  const auto before = d.h.disk.snapshot();
  for (const auto left : {used - 1, page_end + 1, page_end, page_end - 1}) {
    CAPTURE(left);
    for (const std::string boot : {kBoot, kNextBoot}) {
      d.h.disk.restore(*before);
      d.h.unwrite(log, left, used);
      CHECK(d.verdict(boot) == (boot == kBoot ? "refused" : "lost: key4"));
      d.h.close();
    }
  }
  const auto head = page_end - 2 * kLogPageBytes;
  for (const std::string boot : {kBoot, kNextBoot}) {
    d.h.disk.restore(*before);
    d.h.unwrite(log, head, head + kLogPageBytes);
    CHECK(d.verdict(boot) == "lost: key4");
    d.h.close();
  }
}

}  // namespace penstock
