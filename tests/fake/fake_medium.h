// What several FakeDisk objects and their files stand on: names, nodes, faults. Internal to
// tests/fake. Thread-safety: callers hold `mutex`.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fake/fake_disk.h"

namespace penstock {

struct FakeInode {
  bool is_directory = false;
  FakeContent content;
};
using FakeInodePtr = std::shared_ptr<FakeInode>;  // shared by names (a rename: two) and open files
using FakeNames = std::map<std::string, FakeInodePtr>;

std::string fake_parent_of(const std::string& name);

struct FakeDisk::Snapshot {
  std::map<std::string, FakeInode> nodes;
};

struct FakeDisk::Medium {
  explicit Medium(std::string label) : name(std::move(label)) {}

  // A change of names, whole or not at all: a create, a removal or a rename. Null = the name goes.
  struct NameChange {
    std::vector<std::pair<std::string, FakeInodePtr>> effects;
  };
  struct Rule {
    Call call;
    std::uint64_t countdown;
    Fault fault;
    bool lasting;
  };

  mutable std::mutex mutex;
  std::string name;
  FakeNames names;
  FakeNames synced_names;
  std::vector<NameChange> name_changes;  // not synced
  std::set<std::string> locks;
  std::uint64_t life = 0;  // +1 per crash: files of an earlier life are dead
  std::uint64_t used_bytes = 0;
  std::uint64_t capacity = 0;
  bool cold = false;
  bool failing = false;
  bool stopped = false;
  std::uint64_t stop_countdown = 0;
  std::vector<Rule> rules;
  std::array<std::uint64_t, kCalls> counts{};
  std::uint64_t failed_changes = 0;

  Error error(Errc code, std::string_view what, const std::string& file) const;

  struct Strike {
    Fault fault;
    bool cut = false;  // the power goes with this very call
  };
  // Counts a call; the fault that strikes it, if one does.
  std::optional<Strike> enter(Call call);
  std::optional<Strike> strike_of(Call call);
  static Errc code_of(Fault fault);
  Result<> check(Call call, const std::string& file);

  bool is_directory(const std::string& file) const;
  FakeInodePtr find_file(const std::string& file) const;

  void change_names(NameChange change);

  // The names of `directory`, and those tied to them by a rename, become durable as they are now.
  void sync_names(const std::string& directory);

  // The names after a crash; everything in their nodes is durable. Open files are dead.
  void become(FakeNames next);

  // Accounts for a file that grows or shrinks. Errors: full.
  Result<> resize(const std::string& file, std::uint64_t from, std::uint64_t to);
};

}  // namespace penstock
