#include "tests/fake/fake_content.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace penstock {
namespace {
std::size_t pages_for(std::uint64_t size) {
  return static_cast<std::size_t>((size + FakeContent::kPageBytes - 1) / FakeContent::kPageBytes);
}
bool coin(Random& random) { return (random.next() & 64) != 0; }
}  // namespace

std::size_t FakeContent::read(std::uint64_t offset, MutBytes buffer) const {
  if (offset >= size_) return 0;
  const auto length =
      static_cast<std::size_t>(std::min<std::uint64_t>(buffer.size(), size_ - offset));
  for (std::size_t done = 0; done < length;) {
    const std::uint64_t at = offset + done;
    const auto within = static_cast<std::size_t>(at % kPageBytes);
    const std::size_t step = std::min(length - done, kPageBytes - within);
    const auto& page = pages_[static_cast<std::size_t>(at / kPageBytes)];
    if (page == nullptr) {
      std::memset(buffer.data() + done, 0, step);
    } else {
      std::memcpy(buffer.data() + done, page->data() + within, step);
    }
    done += step;
  }
  return length;
}

void FakeContent::write(std::uint64_t offset, ConstBytes data) {
  changes_.push_back({Change::Kind::write, offset, {data.begin(), data.end()}});
  apply_write(offset, data);
}
void FakeContent::extend(std::uint64_t size) {
  if (size <= size_) return;
  changes_.push_back({Change::Kind::extend, size, {}});
  apply_extend(size);
}
void FakeContent::truncate(std::uint64_t size) {
  if (size == size_) return;
  changes_.push_back({Change::Kind::truncate, size, {}});
  apply_truncate(size);
}

void FakeContent::sync() {
  synced_size_ = size_;
  synced_pages_.clear();
  changes_.clear();
}

void FakeContent::crash(Keep keep, Random& random) {
  if (keep == Keep::all) return sync();
  const std::vector<Change> changes = std::move(changes_);
  changes_.clear();
  pages_.resize(pages_for(synced_size_));
  for (auto& [index, page] : synced_pages_) pages_[index] = std::move(page);
  synced_pages_.clear();
  size_ = synced_size_;
  if (keep == Keep::some) apply_sectors(changes, random);
  sync();
}

void FakeContent::apply_sectors(const std::vector<Change>& changes, Random& random) {
  // Which change is the last that reached the medium, sector by sector. A sector that has a later
  // version has the earlier ones too, since each was made on top of the one before.
  std::map<std::uint64_t, std::size_t> last;
  std::vector<bool> kept(changes.size());
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const Change& change = changes[i];
    const std::uint64_t fate = random.next() % 3;  // 0 lost, 1 whole, 2 torn
    kept[i] = change.kind == Change::Kind::write ? fate != 0 : coin(random);
    if (change.kind != Change::Kind::write || fate == 0 || change.data.empty()) continue;
    const std::uint64_t end = change.offset + change.data.size();
    for (std::uint64_t s = change.offset / kSectorBytes; s * kSectorBytes < end; ++s) {
      if (fate == 1 || coin(random)) last[s] = i;
    }
  }
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const Change& change = changes[i];
    if (change.kind == Change::Kind::extend && kept[i])
      apply_extend(std::max(size_, change.offset));
    if (change.kind == Change::Kind::truncate && kept[i]) apply_truncate(change.offset);
    if (change.kind != Change::Kind::write) continue;
    const std::uint64_t end = change.offset + change.data.size();
    for (std::uint64_t s = change.offset / kSectorBytes; s * kSectorBytes < end; ++s) {
      const auto found = last.find(s);
      if (found == last.end() || found->second < i) continue;
      const std::uint64_t from = std::max(change.offset, s * kSectorBytes);
      const std::uint64_t to = std::min(end, (s + 1) * kSectorBytes);
      apply_write(from, ConstBytes(change.data).subspan(from - change.offset, to - from));
    }
  }
}

void FakeContent::flip_bit(std::uint64_t byte, unsigned bit) {
  if (byte >= size_) return;
  const auto index = static_cast<std::size_t>(byte / kPageBytes);
  const auto flip = [&](std::shared_ptr<Page>& page) {
    page = page == nullptr ? std::make_shared<Page>(kPageBytes) : std::make_shared<Page>(*page);
    (*page)[byte % kPageBytes] ^= static_cast<std::byte>(1u << (bit % 8));
  };
  flip(pages_[index]);
  if (const auto synced = synced_pages_.find(index); synced != synced_pages_.end()) {
    if (byte < synced_size_) flip(synced->second);
  }
}

void FakeContent::remember(std::size_t index) {
  if (index < pages_for(synced_size_)) synced_pages_.try_emplace(index, pages_[index]);
}

std::byte* FakeContent::writable_page(std::size_t index) {
  remember(index);
  auto& page = pages_[index];
  if (page == nullptr) {
    page = std::make_shared<Page>(kPageBytes);
  } else if (page.use_count() > 1) {
    page = std::make_shared<Page>(*page);
  }
  return page->data();
}

void FakeContent::apply_write(std::uint64_t offset, ConstBytes data) {
  apply_extend(std::max(size_, offset + data.size()));
  for (std::size_t done = 0; done < data.size();) {
    const std::uint64_t at = offset + done;
    const auto within = static_cast<std::size_t>(at % kPageBytes);
    const std::size_t step = std::min(data.size() - done, kPageBytes - within);
    std::byte* page = writable_page(static_cast<std::size_t>(at / kPageBytes));
    std::memcpy(page + within, data.data() + done, step);
    done += step;
  }
}

void FakeContent::apply_extend(std::uint64_t size) {
  size_ = size;
  pages_.resize(std::max(pages_.size(), pages_for(size)));
}

void FakeContent::apply_truncate(std::uint64_t size) {
  if (size >= size_) return apply_extend(size);
  for (std::size_t i = pages_for(size); i < pages_.size(); ++i) remember(i);
  pages_.resize(pages_for(size));
  size_ = size;
  if (const auto within = static_cast<std::size_t>(size % kPageBytes); within != 0) {
    std::memset(writable_page(pages_.size() - 1) + within, 0, kPageBytes - within);
  }
}

}  // namespace penstock
