// An open file of a FakeDisk. Internal to tests/fake.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tests/fake/fake_medium.h"

namespace penstock {

class FakeFile final : public File {
 public:
  using Medium = FakeDisk::Medium;
  using Call = FakeDisk::Call;
  // Pre: the medium's mutex is held.
  FakeFile(std::shared_ptr<Medium> medium, FakeInodePtr node, std::string name, OpenMode mode)
      : medium_(std::move(medium)),
        node_(std::move(node)),
        name_(std::move(name)),
        mode_(mode),
        life_(medium_->life) {}

  Result<std::size_t> read_at(std::uint64_t offset, MutBytes buffer) override;
  std::optional<Result<std::size_t>> read_now(std::uint64_t offset, MutBytes buffer) override;
  Result<> write_parts(std::uint64_t offset, std::span<const ConstBytes> parts) override;
  Result<> sync() override;
  Result<> allocate(std::uint64_t offset, std::uint64_t length) override;
  Result<> truncate(std::uint64_t length) override;
  Result<std::uint64_t> size() const override;

 private:
  Result<> alive() const;
  Result<std::size_t> read_locked(std::uint64_t offset, MutBytes buffer);
  Result<> write_checked(std::uint64_t offset, ConstBytes data);

  std::shared_ptr<Medium> medium_;
  FakeInodePtr node_;
  std::string name_;
  OpenMode mode_;
  std::uint64_t life_;
};

// What lock() hands out: holds the name until it is destroyed or the power is cut.
class FakeLock final : public File {
 public:
  FakeLock(std::shared_ptr<FakeDisk::Medium> medium, std::string name)
      : medium_(std::move(medium)), name_(std::move(name)), life_(medium_->life) {}
  ~FakeLock() override {
    std::lock_guard lock(medium_->mutex);
    if (life_ == medium_->life) medium_->locks.erase(name_);
  }
  Result<std::size_t> read_at(std::uint64_t, MutBytes) override { return refuse(); }
  std::optional<Result<std::size_t>> read_now(std::uint64_t, MutBytes) override {
    return Result<std::size_t>(refuse());
  }
  Result<> write_parts(std::uint64_t, std::span<const ConstBytes>) override { return refuse(); }
  Result<> sync() override { return refuse(); }
  Result<> allocate(std::uint64_t, std::uint64_t) override { return refuse(); }
  Result<> truncate(std::uint64_t) override { return refuse(); }
  Result<std::uint64_t> size() const override { return std::uint64_t{0}; }

 private:
  static Error refuse() { return fail(Errc::invalid, "a lock holds no bytes"); }
  std::shared_ptr<FakeDisk::Medium> medium_;
  std::string name_;
  std::uint64_t life_;
};

}  // namespace penstock
