// The bytes of one file on a FakeDisk: what a reader sees now, and what a power cut may leave of
// it.
//
// Pages are shared between versions and copied when written, so that a write costs its own length,
// and a snapshot or an undo costs a pointer per page. Thread-safety: none; FakeDisk locks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "penstock/runtime.h"
#include "penstock/types.h"

namespace penstock {

// What survives a power cut of that which was not synced.
enum class Keep : std::uint8_t { none, some, all };

class FakeContent {
 public:
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::size_t kSectorBytes = 512;  // what a disk writes whole or not at all

  std::uint64_t size() const { return size_; }
  // Returns how many bytes there were.
  std::size_t read(std::uint64_t offset, MutBytes buffer) const;

  // Changes; none is durable before sync().
  void write(std::uint64_t offset, ConstBytes data);
  void extend(std::uint64_t size);  // grows with zeros; never shrinks
  void truncate(std::uint64_t size);

  void sync();
  bool is_synced() const { return changes_.empty(); }
  // Goes back to the last synced state and repeats what `keep` says of the changes since. `some`:
  // each change survives whole, not at all, or torn; each sector ends in one of the states that it
  // went through.
  void crash(Keep keep, Random& random);

  // Changes the medium under the file: in what is read now and in what a crash goes back to.
  void flip_bit(std::uint64_t byte, unsigned bit);

 private:
  using Page = std::vector<std::byte>;
  struct Change {
    enum class Kind : std::uint8_t { write, extend, truncate } kind;
    std::uint64_t offset = 0;  // or the new size
    std::vector<std::byte> data;
  };

  std::byte* writable_page(std::size_t index);
  void remember(std::size_t index);
  void apply_write(std::uint64_t offset, ConstBytes data);
  void apply_extend(std::uint64_t size);
  void apply_truncate(std::uint64_t size);
  void apply_sectors(const std::vector<Change>& changes, Random& random);

  std::uint64_t size_ = 0;
  std::vector<std::shared_ptr<Page>> pages_;  // null = zeros; bytes past size_ are zero
  std::uint64_t synced_size_ = 0;
  std::map<std::size_t, std::shared_ptr<Page>>
      synced_pages_;  // of the pages changed since the last sync
  std::vector<Change> changes_;
};

}  // namespace penstock
