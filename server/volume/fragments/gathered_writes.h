// Writes of small fragments into segments. Those that wait while others are being written go to the
// disk together, in one call where they lie side by side: segments are filled from front to back,
// so they do as a rule. A call of the disk costs more processor time than the bytes of a small
// fragment.
//
// Thread-safety: all methods from any thread.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "penstock/buffer.h"
#include "penstock/runtime.h"
#include "server/volume/fragments/segment.h"

namespace penstock {

// Shared with jobs that may never end.
class GatheredWrites : public std::enable_shared_from_this<GatheredWrites> {
 public:
  static constexpr std::size_t kCallBytesMax = limits::kMiB;  // of one call of the disk
  static constexpr std::size_t kBuffersMax = 2;               // of one write
  static constexpr std::size_t kCallWritesMax = File::kPartsMax / kBuffersMax;

  // `may_write`: asked before each call. Errors: those of a store that is closed.
  GatheredWrites(Worker& worker, std::shared_ptr<SegmentSet> segments,
                 std::function<Result<>()> may_write)
      : worker_(worker), segments_(std::move(segments)), may_write_(std::move(may_write)) {}

  // The bytes of one fragment, and who waits for them. Called on the worker.
  class Write {
   public:
    virtual ~Write() = default;
    // What to write: whole granules, aligned to them, in kBuffersMax buffers at most. Nothing:
    // nobody waits for it any more, and end() is not called. Once.
    virtual std::vector<Buffer> begin() = 0;
    virtual void end(const Result<>& result) = 0;
  };
  // `write` fills `span`, where no other one writes.
  void add(const ExtentSpan& span, std::shared_ptr<Write> write);
  // The worker was abandoned: what waits is forgotten, with its bytes, and what comes later.
  void abandon();

 private:
  using Place = std::pair<std::uint32_t, std::uint64_t>;  // segment, offset
  struct Waiting {
    ExtentSpan span;
    std::shared_ptr<Write> write;
  };
  void submit();
  void write_some();
  std::vector<Waiting> take_neighbours();
  void write_all(std::span<Waiting> taken);
  void write_run(std::span<Waiting> run, std::vector<Buffer> buffers);
  Result<> write_bytes(const ExtentSpan& first, const std::vector<Buffer>& buffers);
  static void end(Waiting& one, const Result<>& result);

  Worker& worker_;
  const std::shared_ptr<SegmentSet> segments_;
  const std::function<Result<>()> may_write_;
  std::mutex mutex_;  // guards what follows; never held during I/O
  std::map<Place, Waiting> waiting_;
  Place next_;            // all have their turn, from here on to the last one, then from the first
  bool running_ = false;  // a job is queued or runs
  bool abandoned_ = false;
};

}  // namespace penstock
