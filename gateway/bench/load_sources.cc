#include "gateway/bench/load_sources.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "gateway/s3/percent_encoding.h"

namespace penstock {
namespace {

constexpr std::uint64_t kMixedKeys = 64;
constexpr Duration kAgainAfter{200'000};  // times how often it has failed

std::string numbered(const std::string& prefix, std::uint64_t number) {
  std::array<char, 24> digits{};
  std::snprintf(digits.data(), digits.size(), "%07llu", static_cast<unsigned long long>(number));
  return prefix + digits.data();
}

void fill_list(const RequestMaker& maker, const Workload& workload, const DataSet& set,
               std::uint64_t number, LoadRequest& request) {
  const std::uint64_t last = set.count > workload.bytes ? set.count - workload.bytes : 1;
  std::string query;
  std::string prefix = set.prefix();
  if (workload.delimiter) {
    query = "delimiter=%2F&";
    prefix = kBenchPrefix;
  }
  query += "list-type=2&max-keys=" + std::to_string(workload.bytes);
  query += "&prefix=" + percent_encode(prefix, false);
  if (!workload.delimiter) {
    query += "&start-after=" + percent_encode(set.key(mixed(number) % last), false);
  }
  maker.call(request, "GET", {}, query);
  request.keep_bytes = 0;
}

void fill_range(const RequestMaker& maker, const Workload& workload, const DataSet& set,
                std::uint64_t number, LoadRequest& request) {
  const std::uint64_t drawn = mixed(number);
  const std::uint64_t index = drawn % set.count;
  const std::uint64_t rest = drawn / set.count;
  RequestMaker::Range range{0, std::min(workload.bytes, set.bytes)};
  if (workload.kind == Workload::Kind::aligned_ranges) {
    range.offset = rest % (set.bytes / range.bytes) * range.bytes;
  } else {
    range.offset = rest % (set.bytes - range.bytes + 1);
  }
  maker.read(request, "GET", set.key(index), set.bytes, range);
}

}  // namespace

LoadSource::Turn NumberedSource::next(BenchTime now, LoadRequest& request) {
  if (count_ > 0 && next_.load() >= count_) return Turn::end;
  const std::uint64_t number = next_.fetch_add(1);
  if (count_ > 0 && number >= count_) return Turn::end;
  fill_(number, request);
  request.number = number;
  request.intended = pace_.is_open() ? pace_.intended(number) : now;
  return Turn::send;
}

LoadSource::Turn PersistentSource::next(BenchTime now, LoadRequest& request) {
  std::unique_lock lock(mutex_);
  if (!lost_.empty()) return Turn::end;
  request.intended = now;
  if (!again_.empty()) {
    request.number = again_.back();
    again_.pop_back();
    request.intended += kAgainAfter * failures_[request.number];
  } else if (next_ < count_) {
    request.number = next_++;
  } else {
    return Turn::end;  // what is under way and fails comes again on its own connection
  }
  lock.unlock();
  fill_(request.number, request);
  return Turn::send;
}

void PersistentSource::done(const LoadRequest& request, const LoadOutcome& outcome) {
  const std::scoped_lock lock(mutex_);
  if (outcome.good) {
    failures_.erase(request.number);
  } else if (++failures_[request.number] < kTriesMax) {
    again_.push_back(request.number);
  } else {
    lost_ = outcome.error + (outcome.body.empty() ? "" : ": " + outcome.body);
  }
}

std::string PersistentSource::lost() const {
  const std::scoped_lock lock(mutex_);
  return lost_;
}

NumberedSource::Fill reading(const RequestMaker& maker, const Workload& workload,
                             const DataSet& set) {
  using Kind = Workload::Kind;
  return [&maker, workload, set](std::uint64_t number, LoadRequest& request) {
    if (workload.kind == Kind::list) return fill_list(maker, workload, set, number, request);
    if (workload.kind == Kind::aligned_ranges || workload.kind == Kind::random_ranges ||
        (workload.kind == Kind::training && workload.bytes > 0)) {
      return fill_range(maker, workload, set, number, request);
    }
    const std::uint64_t index = workload.passes ? number % set.count : mixed(number) % set.count;
    maker.read(request, workload.kind == Kind::head ? "HEAD" : "GET", set.key(index),
               set.bytes_of(index));
  };
}

NumberedSource::Fill filling(const RequestMaker& maker, const DataSet& set) {
  return [&maker, set](std::uint64_t number, LoadRequest& request) {
    maker.put(request, set.key(number), set.bytes_of(number));
  };
}

NumberedSource::Fill passing(const RequestMaker& maker, const DataSet& set) {
  return [&maker, set](std::uint64_t number, LoadRequest& request) {
    const std::uint64_t index = number % set.count;
    maker.read(request, "GET", set.key(index), set.bytes_of(index));
  };
}

NumberedSource::Fill putting(const RequestMaker& maker, std::string prefix, std::uint64_t bytes) {
  return [&maker, prefix = std::move(prefix), bytes](std::uint64_t number, LoadRequest& request) {
    maker.put(request, numbered(prefix, number), bytes);
  };
}

NumberedSource::Fill mixing(const RequestMaker& maker, const DataSet& set) {
  const std::string beside = std::string(kBenchPrefix) + set.name + "-written/";
  return [&maker, set, beside](std::uint64_t number, LoadRequest& request) {
    const std::uint64_t drawn = mixed(number);
    const std::uint64_t kind = drawn % 100;
    const std::uint64_t index = drawn / 100 % set.count;
    if (kind < 75) {
      return maker.read(request, kind < 45 ? "GET" : "HEAD", set.key(index), set.bytes_of(index));
    }
    const std::string key = numbered(beside, number % kMixedKeys);
    kind < 90 ? maker.put(request, key, set.bytes) : maker.remove(request, key);
  };
}

LoadSource::Turn PartsSource::next(BenchTime now, LoadRequest& request) {
  std::unique_lock lock(mutex_);
  if (first_ == BenchTime{}) first_ = now;
  const std::uint64_t count = uploads_.size();
  const std::uint64_t number = next_;
  const Upload& upload = uploads_[number % count];
  const auto part = static_cast<std::uint32_t>(number / count);
  if (part >= upload.parts) return Turn::end;
  ++next_;
  lock.unlock();  // what is read now does not change
  const RequestMaker::Part which{
      upload.id, part + 1, {part * upload.part_bytes, upload.part_bytes}};
  if (!upload.sha256s.empty()) {
    maker_.put_signed_part(request, upload.key, which, upload.sha256s[part]);
  } else if (!upload.crcs.empty()) {
    maker_.put_part_with_trailer(request, upload.key, which, upload.crcs[part]);
  } else {
    maker_.put_part(request, upload.key, which);
  }
  request.number = number;
  request.intended = now;
  return Turn::send;
}

void PartsSource::done(const LoadRequest& request, const LoadOutcome& outcome) {
  const std::scoped_lock lock(mutex_);
  last_ = std::max(last_, outcome.ended);
  Upload& upload = uploads_[request.number % uploads_.size()];
  upload.etags[request.number / uploads_.size()] = outcome.etag;
}

Duration PartsSource::slowest() const {
  const std::scoped_lock lock(mutex_);
  return last_ > first_ ? last_ - first_ : Duration{};
}

TrainingSource::TrainingSource(NumberedSource::Fill fill, const TrainingShape& shape,
                               std::uint32_t count, BenchTime from, BenchTime until)
    : fill_(std::move(fill)), readers_(shape.readers), accelerators_(shape, count, from, until) {}

LoadSource::Turn TrainingSource::next(BenchTime now, LoadRequest& request) {
  const std::uint32_t accelerator = request.connection / readers_;
  {
    const std::scoped_lock lock(mutex_);
    if (!accelerators_.begin_sample(accelerator, now)) {
      request.intended = accelerators_.ask_again(accelerator, now);
      return Turn::later;
    }
  }
  fill_(next_.fetch_add(1), request);
  request.intended = now;
  return Turn::send;
}

void TrainingSource::done(const LoadRequest& request, const LoadOutcome& outcome) {
  const std::scoped_lock lock(mutex_);
  accelerators_.sample_came(request.connection / readers_, bench_now(), outcome.good);
}

double TrainingSource::utilisation(BenchTime now) {
  const std::scoped_lock lock(mutex_);
  return accelerators_.utilisation(now);
}

LoadSource::Turn OneCall::next(BenchTime now, LoadRequest& request) {
  if (std::exchange(begun_, true)) return Turn::end;
  fill_(request);
  request.intended = now;
  return Turn::send;
}

void OneCall::done(const LoadRequest&, const LoadOutcome& outcome) { outcome_ = outcome; }

}  // namespace penstock
