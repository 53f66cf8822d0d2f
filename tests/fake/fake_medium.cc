#include "tests/fake/fake_medium.h"

#include <algorithm>

namespace penstock {
namespace {
std::uint64_t on_disk(std::uint64_t size) { return (size + 4095) / 4096 * 4096; }
}  // namespace

std::string fake_parent_of(const std::string& name) {
  const auto slash = name.rfind('/');
  return slash == std::string::npos ? std::string() : name.substr(0, slash);
}

Error FakeDisk::Medium::error(Errc code, std::string_view what, const std::string& file) const {
  return penstock::fail(code, std::string(what) + " " + name + "/" + file);
}

std::optional<FakeDisk::Medium::Strike> FakeDisk::Medium::enter(Call call) {
  const auto strike = strike_of(call);
  const bool failed = strike && strike->fault != Fault::full && strike->fault != Fault::scarce;
  if (failed && call != Call::read) ++failed_changes;
  return strike;
}

std::optional<FakeDisk::Medium::Strike> FakeDisk::Medium::strike_of(Call call) {
  ++counts[static_cast<std::size_t>(call)];
  if (failing || stopped) return Strike{Fault::io};
  if (call != Call::read && stop_countdown > 0 && --stop_countdown == 0) {
    stopped = true;
    return Strike{Fault::io, true};
  }
  std::optional<Strike> strike;
  for (Rule& rule : rules) {
    if (rule.call != call || (rule.countdown > 0 && --rule.countdown > 0)) continue;
    strike = Strike{rule.fault};
  }
  std::erase_if(rules, [](const Rule& rule) { return rule.countdown == 0 && !rule.lasting; });
  return strike;
}

Errc FakeDisk::Medium::code_of(Fault fault) {
  if (fault == Fault::full) return Errc::full;
  return fault == Fault::scarce ? Errc::overloaded : Errc::io;
}

Result<> FakeDisk::Medium::check(Call call, const std::string& file) {
  const auto strike = enter(call);
  if (!strike) return {};
  return error(code_of(strike->fault), "fake fault:", file);
}

bool FakeDisk::Medium::is_directory(const std::string& file) const {
  if (file.empty()) return true;
  const auto found = names.find(file);
  return found != names.end() && found->second->is_directory;
}

FakeInodePtr FakeDisk::Medium::find_file(const std::string& file) const {
  const auto found = names.find(file);
  return found == names.end() || found->second->is_directory ? nullptr : found->second;
}

void FakeDisk::Medium::change_names(NameChange change) {
  for (auto& [file, node] : change.effects) {
    if (node == nullptr) {
      names.erase(file);
    } else {
      names[file] = node;
    }
  }
  name_changes.push_back(std::move(change));
}

void FakeDisk::Medium::sync_names(const std::string& directory) {
  std::set<std::string> settled;
  for (const NameChange& change : name_changes) {
    const bool touches =
        std::any_of(change.effects.begin(), change.effects.end(),
                    [&](const auto& e) { return fake_parent_of(e.first) == directory; });
    if (!touches) continue;
    for (const auto& [file, node] : change.effects) settled.insert(file);
  }
  for (const std::string& file : settled) {
    const auto now = names.find(file);
    if (now == names.end()) {
      synced_names.erase(file);
    } else {
      synced_names[file] = now->second;
    }
  }
  for (NameChange& change : name_changes) {
    std::erase_if(change.effects, [&](const auto& e) { return settled.contains(e.first); });
  }
  std::erase_if(name_changes, [](const NameChange& change) { return change.effects.empty(); });
}

void FakeDisk::Medium::become(FakeNames next) {
  names = std::move(next);
  // What lies in a directory whose own name was lost is lost with it.
  std::erase_if(names,
                [this](const auto& entry) { return !is_directory(fake_parent_of(entry.first)); });
  synced_names = names;
  name_changes.clear();
  locks.clear();
  rules.clear();
  failing = stopped = false;
  stop_countdown = 0;
  ++life;
  used_bytes = 0;
  for (const auto& [file, node] : names) used_bytes += on_disk(node->content.size());
}

Result<> FakeDisk::Medium::resize(const std::string& file, std::uint64_t from, std::uint64_t to) {
  const std::uint64_t next = used_bytes - std::min(used_bytes, on_disk(from)) + on_disk(to);
  if (capacity != 0 && to > from && next > capacity) return error(Errc::full, "no space:", file);
  used_bytes = next;
  return {};
}

}  // namespace penstock
