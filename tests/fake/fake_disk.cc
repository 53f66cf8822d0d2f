#include "tests/fake/fake_disk.h"

#include <algorithm>
#include <cassert>
#include <set>

#include "tests/fake/fake_file.h"
#include "tests/fake/fake_medium.h"

namespace penstock {
namespace {
constexpr std::uint64_t kUnbounded = std::uint64_t{1} << 40;
}  // namespace

FakeDisk::FakeDisk(std::string name) : medium_(std::make_shared<Medium>(std::move(name))) {}
FakeDisk::FakeDisk(std::shared_ptr<Medium> medium)
    : medium_(std::move(medium)), life_(medium_->life) {}
FakeDisk::~FakeDisk() = default;
std::unique_ptr<Disk> FakeDisk::share() const {
  std::lock_guard lock(medium_->mutex);
  return std::unique_ptr<Disk>(new FakeDisk(medium_));
}
Result<> FakeDisk::alive(const std::string& name) const {
  if (!life_ || *life_ == medium_->life) return {};
  return medium_->error(Errc::io, "of a process that is dead:", name);
}

Result<std::unique_ptr<File>> FakeDisk::open(const std::string& name, OpenMode mode) {
  std::lock_guard lock(medium_->mutex);
  CHECK_OK(alive(name));
  const bool may_create = mode == OpenMode::write_new || mode == OpenMode::append;
  FakeInodePtr node = medium_->find_file(name);
  if (node == nullptr) {
    if (!may_create || medium_->is_directory(name) ||
        !medium_->is_directory(fake_parent_of(name))) {
      CHECK_OK(medium_->check(Call::read, name));
      return medium_->error(Errc::not_found, "no such file:", name);
    }
    CHECK_OK(medium_->check(Call::create, name));
    node = std::make_shared<FakeInode>();
    medium_->change_names({{{name, node}}});
  } else if (mode == OpenMode::write_new) {
    CHECK_OK(medium_->check(Call::truncate, name));
    CHECK_OK(medium_->resize(name, node->content.size(), 0));
    node->content.truncate(0);
  } else {
    CHECK_OK(medium_->check(Call::read, name));
  }
  return std::unique_ptr<File>(std::make_unique<FakeFile>(medium_, std::move(node), name, mode));
}

Result<> FakeDisk::rename(const std::string& from, const std::string& to) {
  std::lock_guard lock(medium_->mutex);
  CHECK_OK(alive(from));
  CHECK_OK(medium_->check(Call::rename, from));
  const FakeInodePtr node = medium_->find_file(from);
  if (node == nullptr || !medium_->is_directory(fake_parent_of(to))) {
    return medium_->error(Errc::not_found, "no such file or directory:", from);
  }
  if (from == to) return {};
  if (const FakeInodePtr old = medium_->find_file(to)) {
    CHECK_OK(medium_->resize(to, old->content.size(), 0));
  }
  medium_->change_names({{{from, nullptr}, {to, node}}});
  return {};
}

Result<> FakeDisk::remove(const std::string& name) {
  std::lock_guard lock(medium_->mutex);
  CHECK_OK(alive(name));
  CHECK_OK(medium_->check(Call::remove, name));
  const auto found = medium_->names.find(name);
  if (found == medium_->names.end()) {
    return medium_->error(Errc::not_found, "no such file:", name);
  }
  if (found->second->is_directory) {
    const auto inside = medium_->names.lower_bound(name + "/");
    if (inside != medium_->names.end() && inside->first.starts_with(name + "/")) {
      return medium_->error(Errc::io, "directory not empty:", name);
    }
  }
  CHECK_OK(medium_->resize(name, found->second->content.size(), 0));
  medium_->change_names({{{name, nullptr}}});
  return {};
}

Result<std::vector<std::string>> FakeDisk::list(const std::string& directory) {
  std::lock_guard lock(medium_->mutex);
  CHECK_OK(alive(directory));
  CHECK_OK(medium_->check(Call::read, directory));
  if (!medium_->is_directory(directory)) {
    return medium_->error(Errc::not_found, "no such directory:", directory);
  }
  std::vector<std::string> found;
  const std::string prefix = directory.empty() ? "" : directory + "/";
  for (auto it = medium_->names.lower_bound(prefix); it != medium_->names.end(); ++it) {
    if (!it->first.starts_with(prefix)) break;
    const std::string rest = it->first.substr(prefix.size());
    if (rest.find('/') == std::string::npos) found.push_back(rest);
  }
  return found;
}

Result<> FakeDisk::make_directory(const std::string& name) {
  std::lock_guard lock(medium_->mutex);
  CHECK_OK(alive(name));
  CHECK_OK(medium_->check(Call::make_directory, name));
  if (medium_->is_directory(name)) return {};
  if (medium_->find_file(name) != nullptr || !medium_->is_directory(fake_parent_of(name))) {
    return medium_->error(Errc::io, "cannot make directory:", name);
  }
  auto node = std::make_shared<FakeInode>();
  node->is_directory = true;
  medium_->change_names({{{name, std::move(node)}}});
  return {};
}

Result<> FakeDisk::sync_directory(const std::string& name) {
  std::lock_guard lock(medium_->mutex);
  CHECK_OK(alive(name));
  CHECK_OK(medium_->check(Call::sync_directory, name));
  if (!medium_->is_directory(name)) {
    return medium_->error(Errc::not_found, "no such directory:", name);
  }
  medium_->sync_names(name);
  return {};
}

bool FakeDisk::exists(const std::string& name) {
  std::lock_guard lock(medium_->mutex);
  return name.empty() || medium_->names.contains(name);
}

Result<std::uint64_t> FakeDisk::file_size(const std::string& name) {
  std::lock_guard lock(medium_->mutex);
  CHECK_OK(alive(name));
  CHECK_OK(medium_->check(Call::read, name));
  const FakeInodePtr node = medium_->find_file(name);
  if (node == nullptr) return medium_->error(Errc::not_found, "no such file:", name);
  return node->content.size();
}

Result<std::unique_ptr<File>> FakeDisk::lock(const std::string& name) {
  std::lock_guard lock(medium_->mutex);
  CHECK_OK(alive(name));
  CHECK_OK(medium_->check(Call::read, name));
  if (!medium_->locks.insert(name).second) {
    return medium_->error(Errc::busy, "another process holds", name);
  }
  return std::unique_ptr<File>(std::make_unique<FakeLock>(medium_, name));
}

Result<Disk::Space> FakeDisk::space() {
  std::lock_guard lock(medium_->mutex);
  CHECK_OK(medium_->check(Call::read, ""));
  const std::uint64_t total = medium_->capacity == 0 ? kUnbounded : medium_->capacity;
  return Space{total - std::min(total, medium_->used_bytes), total, 1};
}

std::string FakeDisk::path(const std::string& name) const {
  std::lock_guard lock(medium_->mutex);
  return name.empty() ? medium_->name : medium_->name + "/" + name;
}

void FakeDisk::crash(Random& random, Keep data, Keep names) {
  std::lock_guard lock(medium_->mutex);
  medium_->failed_changes = 0;
  FakeNames next = medium_->synced_names;
  for (const auto& change : medium_->name_changes) {
    if (names == Keep::none || (names == Keep::some && random.next() % 2 == 0)) continue;
    for (const auto& [file, node] : change.effects) {
      if (node == nullptr) {
        next.erase(file);
      } else {
        next[file] = node;
      }
    }
  }
  std::set<const FakeInode*> done;  // after a lost half of a rename two names may lead to one file
  for (const auto& [file, node] : next) {
    if (done.insert(node.get()).second) node->content.crash(data, random);
  }
  medium_->become(std::move(next));
}

void FakeDisk::stop_at_change(std::uint64_t nth) {
  std::lock_guard lock(medium_->mutex);
  medium_->stop_countdown = nth;
}
bool FakeDisk::is_stopped() const {
  std::lock_guard lock(medium_->mutex);
  return medium_->stopped;
}

void FakeDisk::fail(Call call, std::uint64_t nth, Fault fault, bool lasting) {
  assert(nth > 0);
  std::lock_guard lock(medium_->mutex);
  medium_->rules.push_back({call, nth, fault, lasting});
}
void FakeDisk::fail_all() {
  std::lock_guard lock(medium_->mutex);
  medium_->failing = true;
}
void FakeDisk::heal() {
  std::lock_guard lock(medium_->mutex);
  medium_->failing = false;
  medium_->rules.clear();
}
std::uint64_t FakeDisk::calls(Call call) const {
  std::lock_guard lock(medium_->mutex);
  return medium_->counts[static_cast<std::size_t>(call)];
}
std::uint64_t FakeDisk::changes() const {
  std::lock_guard lock(medium_->mutex);
  std::uint64_t sum = 0;
  for (const std::uint64_t count : medium_->counts) sum += count;
  return sum - medium_->counts[static_cast<std::size_t>(Call::read)];
}
std::uint64_t FakeDisk::failed_changes() const {
  std::lock_guard lock(medium_->mutex);
  return medium_->failed_changes;
}
void FakeDisk::set_cold(bool cold) {
  std::lock_guard lock(medium_->mutex);
  medium_->cold = cold;
}
void FakeDisk::set_capacity(std::uint64_t total_bytes) {
  std::lock_guard lock(medium_->mutex);
  medium_->capacity = total_bytes;
}

void FakeDisk::flip_bit(const std::string& name, std::uint64_t byte, unsigned bit) {
  std::lock_guard lock(medium_->mutex);
  if (const FakeInodePtr node = medium_->find_file(name)) node->content.flip_bit(byte, bit);
}
void FakeDisk::lose_file(const std::string& name) {
  std::lock_guard lock(medium_->mutex);
  const FakeInodePtr node = medium_->find_file(name);
  if (node == nullptr) return;
  (void)medium_->resize(name, node->content.size(), 0);  // shrinking cannot fail
  medium_->names.erase(name);
  medium_->synced_names.erase(name);
  for (auto& change : medium_->name_changes) {
    std::erase_if(change.effects, [&](const auto& effect) { return effect.first == name; });
  }
}
void FakeDisk::wipe() {
  std::lock_guard lock(medium_->mutex);
  medium_->become({});
}

std::shared_ptr<const FakeDisk::Snapshot> FakeDisk::snapshot() const {
  std::lock_guard lock(medium_->mutex);
  auto copy = std::make_shared<Snapshot>();
  for (const auto& [file, node] : medium_->names) {
    copy->nodes[file] = *node;
    copy->nodes[file].content.sync();
  }
  return copy;
}
void FakeDisk::restore(const Snapshot& old) {
  std::lock_guard lock(medium_->mutex);
  FakeNames next;
  for (const auto& [file, node] : old.nodes) next[file] = std::make_shared<FakeInode>(node);
  medium_->become(std::move(next));
}

std::vector<std::string> FakeDisk::files() const {
  std::lock_guard lock(medium_->mutex);
  std::vector<std::string> found;
  for (const auto& [file, node] : medium_->names) {
    if (!node->is_directory) found.push_back(file);
  }
  return found;
}

}  // namespace penstock
