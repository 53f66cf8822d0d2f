// A disk in memory that forgets like a real one: bytes not synced and names whose directory was not
// synced may be lost, kept or torn by a power cut, drawn from a Random. Calls can be made to fail,
// bits to flip, files to vanish, an old state to come back.
//
// Several FakeDisk objects may stand on one medium (share()): what crashes is the medium. The
// object that made it stays usable for the next start; those from share(), and files opened before
// a crash, answer `io` afterwards: a process that is dead writes nothing.
// Thread-safety: every method from any thread; one mutex per medium.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/volume/disk/disk.h"
#include "tests/fake/fake_content.h"

namespace penstock {

class FakeDisk final : public Disk {
 public:
  explicit FakeDisk(std::string name = "fake");
  ~FakeDisk() override;
  // Another view of the same medium, for owners that want a Disk of their own.
  std::unique_ptr<Disk> share() const;

  // ---- Disk
  Result<std::unique_ptr<File>> open(const std::string& name, OpenMode mode) override;
  Result<> rename(const std::string& from, const std::string& to) override;
  Result<> remove(const std::string& name) override;
  Result<std::vector<std::string>> list(const std::string& directory) override;
  Result<> make_directory(const std::string& name) override;
  Result<> sync_directory(const std::string& name) override;
  bool exists(const std::string& name) override;
  Result<std::uint64_t> file_size(const std::string& name) override;
  Result<std::unique_ptr<File>> lock(const std::string& name) override;
  Result<Space> space() override;
  std::string path(const std::string& name) const override;

  // ---- power
  // Cuts the power: every open file is dead, locks are free, faults are forgotten; of what was not
  // synced, `data` and `names` say how much is there afterwards.
  void crash(Random& random, Keep data = Keep::some, Keep names = Keep::some);
  // The `nth` changing call from now (1 = the next) does not succeed, nor does any call after it,
  // until crash(). If it is a write, its bytes are in the cache: the crash may keep a part of them.
  void stop_at_change(std::uint64_t nth);
  // True once the call of stop_at_change() was reached.
  bool is_stopped() const;

  // ---- faults
  enum class Call : std::uint8_t {
    create,
    read,
    write,
    sync,
    allocate,
    truncate,
    rename,
    remove,
    make_directory,
    sync_directory
  };
  static constexpr std::size_t kCalls = 10;
  enum class Fault : std::uint8_t { io, full, short_write, scarce };  // scarce: `overloaded`
  // The `nth` call of this kind from now fails; with `lasting`, every later one of this kind fails
  // too.
  void fail(Call call, std::uint64_t nth, Fault fault, bool lasting = false);
  // From now on every call fails with `io`, reads too, until heal() or crash().
  void fail_all();
  void heal();
  std::uint64_t calls(Call call) const;
  std::uint64_t changes() const;  // calls of all kinds but `read`
  // Changing calls that failed with `io` since the last crash.
  std::uint64_t failed_changes() const;
  // read_now() answers nullopt: nothing is in the page cache.
  void set_cold(bool cold);
  // 0 = without bound.
  void set_capacity(std::uint64_t total_bytes);

  // ---- damage, at once durable. A file that is not there is left alone.
  void flip_bit(const std::string& name, std::uint64_t byte, unsigned bit);
  void lose_file(const std::string& name);
  // All files and directories are gone, as after a format; open files are dead.
  void wipe();

  // ---- old copies
  // The state as a reader sees it now.
  struct Snapshot;
  std::shared_ptr<const Snapshot> snapshot() const;
  // Puts a state back, durable; open files are dead.
  void restore(const Snapshot& old);

  // Every file by name, for tests that choose one. Sorted.
  std::vector<std::string> files() const;

  struct Medium;

 private:
  explicit FakeDisk(std::shared_ptr<Medium> medium);
  Result<> alive(const std::string& name) const;  // pre: the medium's mutex is held
  std::shared_ptr<Medium> medium_;
  const std::optional<std::uint64_t> life_;  // of share()
};

}  // namespace penstock
