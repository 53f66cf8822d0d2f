// What is known in memory of fragments that are read: their places, their tables, their readers.
//
// FragmentHolds says who may still touch the bytes of a fragment; FragmentCache keeps the handles
// of recently read ones. A handle keeps its hold, a Piece that points into a file keeps its handle.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "penstock/counted_mutex.h"
#include "server/volume/fragments/fragment_file.h"
#include "server/volume/fragments/fragment_format.h"
#include "server/volume/fragments/free_space.h"

namespace penstock {

// Thread-safety: all methods from any thread.
class FragmentHolds : public std::enable_shared_from_this<FragmentHolds> {
 public:
  // `release` is called, without locks, when nobody can touch a retired span any more.
  using Release = std::function<void(const ExtentSpan&)>;
  explicit FragmentHolds(Release release) : release_(std::move(release)) {}

  // Shared by all who read one fragment; the last one returns the space of a removed fragment.
  class Hold {
   public:
    Hold(std::shared_ptr<FragmentHolds> holds, FragmentId id) : holds_(std::move(holds)), id_(id) {}
    ~Hold();
    bool is_retired() const { return retired_.load(); }

   private:
    friend class FragmentHolds;             // one class in two halves
    std::shared_ptr<FragmentHolds> holds_;  // a hold may outlive the store
    FragmentId id_;
    std::atomic<bool> retired_{false};
    std::vector<ExtentSpan> spans_;  // guarded by holds_->mutex_
  };

  // Take it before looking at the row: a removal that the row does not show yet will see the hold.
  std::shared_ptr<Hold> acquire(const FragmentId& id);
  // The row of `id` is gone or names another place: `span` is free once no hold taken before is
  // left.
  void retire(const FragmentId& id, std::optional<ExtentSpan> span);

 private:
  Release release_;
  std::mutex mutex_;
  std::unordered_map<FragmentId, std::weak_ptr<Hold>> holds_;
};

// A fragment that can be read. Immutable.
struct FragmentHandle {
  FragmentId id;
  ExtentRow row;
  FragmentGeometry geometry;
  std::vector<std::uint32_t> table;  // verified
  std::shared_ptr<FragmentFile> file;
  std::shared_ptr<FragmentHolds::Hold> hold;
};
using FragmentHandlePtr = std::shared_ptr<const FragmentHandle>;

// Least recently used first out; bounded by bytes and, for files of their own, by open files.
// Thread-safety: all methods from any thread.
class FragmentCache {
 public:
  FragmentCache(std::size_t bytes_max, std::size_t files_max)
      : bytes_max_(bytes_max), files_max_(files_max) {}
  FragmentHandlePtr find(const FragmentId& id);
  // A handle whose hold is retired is not kept.
  void insert(FragmentHandlePtr handle);
  void erase(const FragmentId& id);
  std::size_t bytes() const;

 private:
  using List = std::list<FragmentHandlePtr>;
  static std::size_t cost(const FragmentHandle& handle);
  static bool is_file(const FragmentHandle& handle) {
    return handle.row.place == FragmentPlace::file;
  }
  // Moves what must go from `list` to `evicted`, to be destroyed without the lock.
  void drop(List::iterator at, List& evicted);

  const std::size_t bytes_max_;
  const std::size_t files_max_;
  mutable CountedMutex mutex_{LockName::fragments};
  List recent_[2];  // front = newest; [0] extents, [1] files
  std::unordered_map<FragmentId, List::iterator> by_id_;
  std::size_t bytes_ = 0;
};

}  // namespace penstock
