#include "tests/fake/fake_file.h"

#include <algorithm>
#include <cassert>
#include <vector>

namespace penstock {
namespace {
constexpr std::uint64_t kDirectAlignment = 4096;
}  // namespace

Result<std::size_t> FakeFile::read_at(std::uint64_t offset, MutBytes buffer) {
  std::lock_guard lock(medium_->mutex);
  return read_locked(offset, buffer);
}

std::optional<Result<std::size_t>> FakeFile::read_now(std::uint64_t offset, MutBytes buffer) {
  std::lock_guard lock(medium_->mutex);
  if (medium_->cold) return std::nullopt;
  return read_locked(offset, buffer);
}

// One call of the disk: a fault or a cut meets all parts.
Result<> FakeFile::write_parts(std::uint64_t offset, std::span<const ConstBytes> parts) {
  assert(!parts.empty() && parts.size() <= kPartsMax);
  assert(mode_ != OpenMode::direct || offset % kDirectAlignment == 0);
  for ([[maybe_unused]] const ConstBytes& part : parts) {
    if (mode_ != OpenMode::direct) continue;
    assert(part.size() % kDirectAlignment == 0);
    assert(reinterpret_cast<std::uintptr_t>(part.data()) % kDirectAlignment == 0);
  }
  if (parts.size() == 1) return write_checked(offset, parts.front());
  std::vector<std::byte> all;
  for (const ConstBytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return write_checked(offset, all);
}

Result<> FakeFile::write_checked(std::uint64_t offset, ConstBytes data) {
  assert(mode_ != OpenMode::read);
  std::lock_guard lock(medium_->mutex);
  CHECK_OK(alive());
  const auto strike = medium_->enter(Call::write);
  if (strike && strike->fault == FakeDisk::Fault::short_write) data = data.first(data.size() / 2);
  if (!strike || strike->cut || strike->fault == FakeDisk::Fault::short_write) {
    const std::uint64_t size = node_->content.size();
    CHECK_OK(medium_->resize(name_, size, std::max<std::uint64_t>(size, offset + data.size())));
    node_->content.write(offset, data);
  }
  if (!strike) return {};
  return medium_->error(medium_->code_of(strike->fault), "fake fault: write", name_);
}

Result<> FakeFile::sync() {
  std::lock_guard lock(medium_->mutex);
  CHECK_OK(alive());
  CHECK_OK(medium_->check(Call::sync, name_));
  node_->content.sync();
  return {};
}

Result<> FakeFile::allocate(std::uint64_t offset, std::uint64_t length) {
  std::lock_guard lock(medium_->mutex);
  CHECK_OK(alive());
  CHECK_OK(medium_->check(Call::allocate, name_));
  const std::uint64_t size = node_->content.size();
  CHECK_OK(medium_->resize(name_, size, std::max(size, offset + length)));
  node_->content.extend(offset + length);
  return {};
}

Result<> FakeFile::truncate(std::uint64_t length) {
  std::lock_guard lock(medium_->mutex);
  CHECK_OK(alive());
  CHECK_OK(medium_->check(Call::truncate, name_));
  CHECK_OK(medium_->resize(name_, node_->content.size(), length));
  node_->content.truncate(length);
  return {};
}

Result<std::uint64_t> FakeFile::size() const {
  std::lock_guard lock(medium_->mutex);
  CHECK_OK(alive());
  return node_->content.size();
}

Result<> FakeFile::alive() const {
  if (life_ == medium_->life) return {};
  return medium_->error(Errc::io, "opened before the power cut:", name_);
}
Result<std::size_t> FakeFile::read_locked(std::uint64_t offset, MutBytes buffer) {
  CHECK_OK(alive());
  CHECK_OK(medium_->check(Call::read, name_));
  return node_->content.read(offset, buffer);
}

}  // namespace penstock
