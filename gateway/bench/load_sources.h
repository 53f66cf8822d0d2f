// The loads of the workloads (load_source.h): each a plan that follows from the request's number,
// so that two runs send the same.
// Ownership: all borrow the maker. Thread-safety: as LoadSource.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gateway/bench/accelerators.h"
#include "gateway/bench/request_maker.h"
#include "gateway/bench/request_pace.h"
#include "gateway/bench/workloads.h"

namespace penstock {

// Numbered requests of one kind: `fill` makes request `number`.
class NumberedSource : public LoadSource {
 public:
  using Fill = std::function<void(std::uint64_t number, LoadRequest& request)>;
  // `count`: how many in all; zero: without end.
  NumberedSource(Fill fill, std::uint64_t count, RequestPace pace = {})
      : fill_(std::move(fill)), count_(count), pace_(pace) {}
  Turn next(BenchTime now, LoadRequest& request) override;
  std::uint64_t begun() const { return next_.load(); }

 private:
  const Fill fill_;
  const std::uint64_t count_;
  const RequestPace pace_;
  std::atomic<std::uint64_t> next_{0};
};

// Numbered requests that all have to succeed: what fails is sent again a little later, a few times,
// as SDKs do. Ends when all have succeeded, or one has failed for good.
class PersistentSource : public LoadSource {
 public:
  static constexpr std::uint32_t kTriesMax = 6;
  PersistentSource(NumberedSource::Fill fill, std::uint64_t count)
      : fill_(std::move(fill)), count_(count) {}
  Turn next(BenchTime now, LoadRequest& request) override;
  void done(const LoadRequest& request, const LoadOutcome& outcome) override;
  // What was wrong with the one that failed for good; empty: none has.
  std::string lost() const;

 private:
  const NumberedSource::Fill fill_;
  const std::uint64_t count_;
  mutable std::mutex mutex_;  // guards the rest
  std::uint64_t next_ = 0;
  std::map<std::uint64_t, std::uint32_t> failures_;  // of each that has not succeeded yet
  std::vector<std::uint64_t> again_;
  std::string lost_;
};

// What `workload` asks of `set`, as a function of the request's number. Pre: it reads or lists.
NumberedSource::Fill reading(const RequestMaker& maker, const Workload& workload,
                             const DataSet& set);
// Writes the objects of the set, one after another.
NumberedSource::Fill filling(const RequestMaker& maker, const DataSet& set);
// Reads them, one after another.
NumberedSource::Fill passing(const RequestMaker& maker, const DataSet& set);
// PUTs of new objects below `prefix`.
NumberedSource::Fill putting(const RequestMaker& maker, std::string prefix, std::uint64_t bytes);
// Writes and deletes take turns on 64 keys beside the set, so that it does not grow.
NumberedSource::Fill mixing(const RequestMaker& maker, const DataSet& set);

// The parts of uploads, whose ETags it keeps.
struct Upload {
  std::string key;
  std::string id;
  std::uint64_t part_bytes = 0;
  std::uint32_t parts = 0;
  std::vector<std::string> etags;    // by part
  std::vector<std::string> sha256s;  // if they are signed
  std::vector<std::uint64_t> crcs;   // if they have a trailer
};
class PartsSource : public LoadSource {
 public:
  PartsSource(const RequestMaker& maker, std::vector<Upload> uploads)
      : maker_(maker), uploads_(std::move(uploads)) {}
  Turn next(BenchTime now, LoadRequest& request) override;
  void done(const LoadRequest& request, const LoadOutcome& outcome) override;
  // When all is done.
  const std::vector<Upload>& uploads() const { return uploads_; }
  // From the first request until the last part of each upload had come.
  Duration slowest() const;

 private:
  const RequestMaker& maker_;
  mutable std::mutex mutex_;  // guards the rest
  std::vector<Upload> uploads_;
  std::uint64_t next_ = 0;
  BenchTime first_{};
  BenchTime last_{};
};

// Readers of emulated accelerators.
class TrainingSource : public LoadSource {
 public:
  TrainingSource(NumberedSource::Fill fill, const TrainingShape& shape, std::uint32_t count,
                 BenchTime from, BenchTime until);
  Turn next(BenchTime now, LoadRequest& request) override;
  void done(const LoadRequest& request, const LoadOutcome& outcome) override;
  double utilisation(BenchTime now);

 private:
  const NumberedSource::Fill fill_;
  const std::uint32_t readers_;
  std::atomic<std::uint64_t> next_{0};
  std::mutex mutex_;  // guards accelerators_
  Accelerators accelerators_;
};

// One call whose answer is kept.
class OneCall : public LoadSource {
 public:
  explicit OneCall(std::function<void(LoadRequest&)> fill) : fill_(std::move(fill)) {}
  Turn next(BenchTime now, LoadRequest& request) override;
  void done(const LoadRequest& request, const LoadOutcome& outcome) override;
  const LoadOutcome& outcome() const { return outcome_; }

 private:
  const std::function<void(LoadRequest&)> fill_;
  bool begun_ = false;
  LoadOutcome outcome_;
};

}  // namespace penstock
