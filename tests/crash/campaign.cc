#include "tests/crash/campaign.h"

#include <cstdio>
#include <filesystem>
#include <numeric>

#include "server/node/server_stack.h"
#include "tests/crash/verifier.h"

namespace penstock::crash {
namespace {

namespace fs = std::filesystem;
using DiskCall = FakeDisk::Call;
using DiskFault = FakeDisk::Fault;

constexpr std::uint64_t kCutsPerLoad = 500;
constexpr std::uint64_t kDamagesPerLoad = 60;
constexpr std::uint64_t kChangesToAge = 300;  // an older copy is so old, or less
constexpr unsigned kChildSeconds = 120;
constexpr std::int64_t kStartedAsTheBinary = 16;  // one of so many
constexpr const char* kBoot = "one boot";
constexpr const char* kNextBoot = "the next boot";

const char* word(DiskCall call) {
  constexpr const char* kWords[] = {"create",         "read",          "write",  "sync",
                                    "allocate",       "truncate",      "rename", "remove",
                                    "make_directory", "sync_directory"};
  return kWords[static_cast<std::size_t>(call)];
}
const char* word(CampaignMode mode) {
  return mode == CampaignMode::cuts ? "cuts" : mode == CampaignMode::calls ? "calls" : "damages";
}
const char* word(DiskFault fault) {
  return fault == DiskFault::io ? "EIO" : fault == DiskFault::full ? "ENOSPC" : "a short write";
}

// What a call of this kind can come back with.
DiskFault draw_fault(sim::SimRandom& random, DiskCall call) {
  const auto dice = random.between(0, 2);
  if (call == DiskCall::write) {
    return dice == 0 ? DiskFault::io : dice == 1 ? DiskFault::full : DiskFault::short_write;
  }
  const bool makes =
      call == DiskCall::create || call == DiskCall::allocate || call == DiskCall::make_directory;
  return makes && dice == 0 ? DiskFault::full : DiskFault::io;
}

// Whom to ask for numbers of one child: the same for the same load and call.
sim::SimRandom random_of(std::uint64_t seed, std::uint64_t number) {
  return sim::SimRandom(mix_hash(seed * 1'000'003 + number));
}

std::string describe(const Recording::Call& call) {
  return std::string(word(call.kind)) + " of v" + std::to_string(call.volume) + "/" + call.name;
}

// `count` of the numbers 1 … total, drawn.
std::set<std::uint64_t> draw_numbers(std::uint64_t seed, std::uint64_t total, std::uint64_t count) {
  sim::SimRandom random(seed ^ 0xc0ffee);
  std::set<std::uint64_t> numbers;
  while (numbers.size() < std::min(total, count)) numbers.insert(1 + random.bits() % total);
  return numbers;
}

const char* phrase(CampaignMode mode) {
  return mode == CampaignMode::cuts    ? "cut before change "
         : mode == CampaignMode::calls ? "call "
                                       : "killed before change ";
}

Disks copy_of(const Disks& disks) {
  Disks copies;
  for (const auto& disk : disks) {
    copies.push_back(std::make_unique<FakeDisk>());
    copies.back()->restore(*disk->snapshot());
  }
  return copies;
}

}  // namespace

Campaign::Campaign(CampaignOptions options)
    : options_(std::move(options)), children_(options_.jobs, kChildSeconds) {}

bool Campaign::run_cuts(std::uint64_t count) { return run(CampaignMode::cuts, count); }
bool Campaign::run_calls(std::uint64_t count) { return run(CampaignMode::calls, count); }
bool Campaign::run_damages(std::uint64_t count) { return run(CampaignMode::damages, count); }

// Of calls all, one after another; of changes some. Damage behind the last change is done to
// volumes that were closed in order.
std::set<std::uint64_t> Campaign::choose(const Recording& rehearsal, std::uint64_t count) const {
  if (options_.at != 0) return {options_.at};
  const std::uint64_t changes = rehearsal.changes();
  if (mode_ == CampaignMode::cuts) {
    return draw_numbers(seed_, changes, std::min(kCutsPerLoad, count));
  }
  if (mode_ == CampaignMode::damages) {
    return draw_numbers(seed_, changes + changes / 2, std::min(kDamagesPerLoad, count));
  }
  std::set<std::uint64_t> chosen;
  for (std::uint64_t n = 1; n <= std::min(rehearsal.calls(), count); ++n) {
    chosen.insert(chosen.end(), n);
  }
  return chosen;
}

bool Campaign::run(CampaignMode mode, std::uint64_t count) {
  mode_ = mode;
  count_ = count;
  begin_ = printed_ = std::chrono::steady_clock::now();
  std::uint64_t planned = 0;
  std::uint64_t loads = 0;
  for (seed_ = options_.from; planned < count; ++seed_, ++loads) {
    Recording rehearsal(seed_, options_.operations);
    rehearsal.set_boot(mode_ == CampaignMode::damages ? kBoot : "");
    rehearsal.run({});
    const auto chosen = choose(rehearsal, count - planned);
    if (options_.at != 0) planned = count;
    planned += chosen.size();
    record(seed_, chosen, rehearsal.trace());
  }
  children_.wait_all();
  print_progress(true);
  const std::uint64_t failed = children_.failed() + failed_;
  std::printf("%llu %s of %llu loads from seed %llu, %llu failed\n",
              static_cast<unsigned long long>(children_.ended()), word(mode_),
              static_cast<unsigned long long>(loads),
              static_cast<unsigned long long>(options_.from),
              static_cast<unsigned long long>(failed));
  return failed == 0;
}

void Campaign::record(std::uint64_t seed, const std::set<std::uint64_t>& chosen,
                      std::uint64_t trace) {
  Recording recording(seed, options_.operations);
  recording.set_boot(mode_ == CampaignMode::damages ? kBoot : "");
  older_.clear();
  bool child = false;
  recording.run([&](const Recording::Call& call) {
    if (mode_ != CampaignMode::calls && call.kind == DiskCall::read) return;
    const std::uint64_t number = mode_ == CampaignMode::calls ? call.number : call.change;
    const bool aging = mode_ == CampaignMode::damages && number % kChangesToAge == 0;
    if (aging || (mode_ == CampaignMode::damages && older_.empty())) {
      older_ = copy_of(recording.disks());
    }
    if (!chosen.contains(number)) return;
    what_ = "load " + std::to_string(seed) + ", " + phrase(mode_) + std::to_string(number) + " (" +
            describe(call) + ")";
    if (children_.fork(what_, slot_)) return print_progress(false);
    child = true;
    call_ = call;
    if (mode_ == CampaignMode::cuts) Children::finish(check_cut(recording, call));
    if (mode_ == CampaignMode::damages) Children::finish(check_damage(recording, number, false));
    inject(recording, call);
  });
  if (child) Children::finish(check_fault(recording));
  if (mode_ == CampaignMode::damages) damage_after(recording, chosen);
  std::vector<std::string> violations = recording.violations();
  if (recording.trace() != trace) violations.push_back("two runs of the load differ");
  if (violations.empty()) return;
  what_ = "load " + std::to_string(seed) + ", without any fault";
  call_ = {};
  ++failed_;
  report(recording, std::move(violations));
}

// Damage to volumes that were closed in order.
void Campaign::damage_after(Recording& recording, const std::set<std::uint64_t>& chosen) {
  for (const std::uint64_t number : chosen) {
    if (number <= recording.changes()) continue;
    what_ = "load " + std::to_string(seed_) + ", closed, damage " + std::to_string(number);
    if (children_.fork(what_, slot_)) {
      print_progress(false);
      continue;
    }
    call_.change = number;
    Children::finish(check_damage(recording, number, true));
  }
}

// ---- in a child

bool Campaign::check_damage(Recording& recording, std::uint64_t number, bool orderly) {
  sim::SimRandom random = random_of(seed_, number ^ 0xda3a6e);
  for (const auto& disk : recording.disks()) disk->crash(random, Keep::all, Keep::all);
  boot_id_ = orderly && random.chance(0.5) ? kNextBoot : kBoot;
  const Damage damage = draw_damage(random, recording.disks(), older_, orderly);
  suspect_ = damage.volume;
  what_ += ": " + to_string(damage) + (boot_id_ == kBoot ? "" : ", and the machine was restarted");
  judge_alone(damage, recording.disks(), boot_id_);
  if (!violations_.empty()) return report(recording, std::move(violations_));
  const Cut others = draw_cut(random, recording.disks().size());
  return verify(recording, random, others.left_out);
}

// Damages the volume; it stays out, or what it shows is what it had.
void Campaign::judge_alone(const Damage& damage, const Disks& disks, const std::string& boot_id) {
  const FakeDisk& disk = *disks[damage.volume];
  const auto before = read_rows(disk, boot_id);
  if (!before || !before->complete) {
    violations_.push_back("the harness cannot read the rows that were there");
    return;
  }
  inflict(damage, disks);
  const auto after = read_rows(disk, boot_id);
  if (!after) return;
  for (const auto& [key, value] : after->rows) {
    const auto found = before->rows.find(key);
    const bool same = found != before->rows.end() && found->second == value;
    if (!same && after->complete) violations_.push_back("it shows a row that it had not");
  }
  const bool fewer = after->rows.size() < before->rows.size();
  if (after->complete && fewer) {
    violations_.push_back("it has lost " +
                          std::to_string(before->rows.size() - after->rows.size()) + " of " +
                          std::to_string(before->rows.size()) + " rows in silence");
  }
}

bool Campaign::check_cut(Recording& recording, const Recording::Call& call) {
  sim::SimRandom random = random_of(seed_, call.change);
  const Cut cut = draw_cut(random, recording.disks().size());
  what_ += ": " + to_string(cut);
  strike(cut, random, recording.disks());
  if (cut.again_at != 0 && !start_and_stop(recording, cut, random)) return false;
  return verify(recording, random, cut.left_out);
}

// The power goes a second time, during the start.
bool Campaign::start_and_stop(Recording& recording, const Cut& cut, sim::SimRandom& random) {
  sim::SimTime time;
  time.at(recording.now(), [] {});
  time.run_until([&] { return time.now() >= recording.now(); }, recording.now());
  Process process(time, random.bits(), recording.cluster());
  for (const std::size_t i : cut.hit) recording.disks()[i]->stop_at_change(cut.again_at);
  for (std::size_t i = 0; i < recording.disks().size(); ++i) {
    const auto& disk = recording.disks()[i];
    const auto opened = process.open(i, disk->share());
    if (opened || disk->is_stopped()) continue;
    violations_.push_back("v" + std::to_string(i) + " does not start: " + opened.error().context);
    return report(recording, std::move(violations_));
  }
  process.serve();
  strike(cut, random, recording.disks());
  process.close();
  return true;
}

bool Campaign::inject(Recording& recording, const Recording::Call& call) {
  sim::SimRandom random = random_of(seed_, call.number);
  Recording::Fault fault;
  fault.kind = draw_fault(random, call.kind);
  fault.lasting = random.chance(0.25);
  what_ +=
      std::string(" fails with ") + word(fault.kind) + (fault.lasting ? ", and all after" : "");
  // Reads change nothing; a full disk gives its ballast or refuses, and stays; the ballast itself
  // is a comfort.
  must_leave_ =
      call.kind != DiskCall::read && fault.kind != DiskFault::full && call.name != "ballast";
  recording.fail_here(call, fault);
  return true;
}

bool Campaign::check_fault(Recording& recording) {
  sim::SimRandom random = random_of(seed_, call_.number ^ 0xfa17);
  violations_ = recording.violations();
  if (must_leave_ && !recording.failed_volume_left()) {
    violations_.push_back("v" + std::to_string(call_.volume) + " goes on after the failed call");
  }
  if (!violations_.empty()) return report(recording, std::move(violations_));
  Cut cut = draw_cut(random, recording.disks().size());
  if (random.chance(0.3)) cut.hit.clear();  // only the process was restarted
  what_ += "; then " + to_string(cut);
  strike(cut, random, recording.disks());
  // What was written since is promised without the failed volume only.
  return verify(recording, random, {call_.volume});
}

bool Campaign::verify(Recording& recording, sim::SimRandom& random,
                      const std::set<std::size_t>& left_out) {
  Verifier::OpenDisk open_disk = [&](std::size_t i) -> Result<std::unique_ptr<Disk>> {
    return recording.disks()[i]->share();
  };
  const std::string base = options_.directory + "/" + std::to_string(slot_);
  const bool files = !options_.directory.empty();
  if (files) {
    fs::remove_all(base);
    for (std::size_t i = 0; i < recording.disks().size(); ++i) {
      const std::string path = base + "/v" + std::to_string(i);
      fs::create_directories(path);
      const auto written = write_out(*recording.disks()[i], path);
      if (!written) violations_.push_back("the harness failed: " + written.error().context);
    }
    open_disk = [&](std::size_t i) { return make_posix_disk(base + "/v" + std::to_string(i)); };
    if (!suspect_ && random.between(1, kStartedAsTheBinary) == 1) start_as_the_binary_does(base);
  }
  Verifier verifier(recording.ledger(), recording.cluster(), random.bits(), recording.now());
  verifier.set_boot(boot_id_);
  if (suspect_) verifier.suspect(*suspect_);
  if (violations_.empty()) violations_ = verifier.run(open_disk, left_out);
  const bool good = report(recording, std::move(violations_));
  if (files && good) fs::remove_all(base);
  return good;
}

// With the composition of `penstock local`: its threads, clock and checks between volumes.
void Campaign::start_as_the_binary_does(const std::string& base) {
  ServerOptions options;
  options.process.idle_buffer_bytes = limits::kMiB;
  options.store.directories = {base};
  options.store.volume = crash_volume_options();
  options.store.volume.database.background = Background::on_worker;
  ServerStack server(std::move(options));
  if (const auto started = server.start(); !started) {
    violations_.push_back("the store does not start: " + started.error().context);
    return;
  }
  if (server.was_formatted()) violations_.push_back("the store was formatted anew");
  for (const auto& volume : server.volumes().states()) {
    if (volume.status.state == VolumeStatus::State::open) continue;
    violations_.push_back("the store starts without " + volume.name + ": " + volume.status.reason);
  }
}

bool Campaign::report(const Recording&, std::vector<std::string> violations) {
  if (violations.empty()) return true;
  std::string text = what_ + "\n";
  for (const std::string& violation : violations) text += "  " + violation.substr(0, 600) + "\n";
  text += "  again: penstock-crash --" + std::string(word(mode_)) + " 1 --from " +
          std::to_string(seed_);
  const std::uint64_t number = mode_ == CampaignMode::calls ? call_.number : call_.change;
  if (number != 0) text += " --at " + std::to_string(number);
  text += " --operations " + std::to_string(options_.operations) + " --verbose\n";
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  return false;
}

void Campaign::print_progress(bool last) {
  const auto now = std::chrono::steady_clock::now();
  if (!last && now - printed_ < std::chrono::seconds(2)) return;
  printed_ = now;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const auto done = static_cast<double>(children_.ended());
  std::printf("%llu of %llu %s, %.1f/s, load %llu, %llu failed\n",
              static_cast<unsigned long long>(children_.ended()),
              static_cast<unsigned long long>(count_), word(mode_), done / seconds,
              static_cast<unsigned long long>(seed_),
              static_cast<unsigned long long>(children_.failed() + failed_));
  std::fflush(stdout);
}

}  // namespace penstock::crash
