// The server that is measured: small calls to it, buckets and data sets in it.
// Thread-safety: one thread; calls block.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "gateway/bench/content.h"
#include "gateway/bench/data_sets.h"
#include "gateway/bench/load_engine.h"
#include "gateway/bench/load_sources.h"
#include "gateway/bench/request_maker.h"
#include "gateway/bench_arguments.h"

namespace penstock {

class BenchTarget {
 public:
  using Tell = std::function<void(const std::string& what, const LoadProgress& progress)>;
  // Ownership: borrows all but `endpoint` and `tell`. `interrupted`: true ends what is under way,
  // as `aborted`.
  BenchTarget(const BenchArguments& arguments, const Content& content, S3Endpoint endpoint,
              const std::atomic<bool>& interrupted, Tell tell);

  const RequestMaker& maker() const { return maker_; }
  const S3Endpoint& endpoint() const { return endpoint_; }

  // Runs a load; what it is doing is told as `what`.
  Result<LoadResult> run(const std::string& what, LoadSource& source, const LoadOptions& options);
  // What every load has in common.
  LoadOptions usual(std::uint32_t connections) const;

  // A small call. Errors: unavailable - the server was not reached, or did not answer. Statuses are
  // no errors.
  Result<LoadOutcome> call(std::string_view method, const std::string& key, std::string_view query,
                           std::string_view body = {});
  // Makes the bucket if it is not there. Errors: unavailable; refused - says what the server said.
  Result<> find_bucket();
  // Has all of a set, or writes it; then reads it once, so that it is warm. Errors: as above; and
  // invalid - it is not there, and must not be written (a server of files).
  Result<> prepare(const DataSet& set, bool warm);
  // An upload of objects that were written by parts.
  Result<std::string> begin_upload(const std::string& key);
  Result<> complete_upload(const Upload& upload);
  // One that cannot be completed, so that its parts do not stay. Best effort.
  void abort_upload(const Upload& upload);
  // Deletes all that this program has written; the bucket too, if this run made it.
  Result<> remove_all();

 private:
  Result<LoadOutcome> call(LoadOptions options, std::string_view method, const std::string& key,
                           std::string_view query, std::string_view body = {});
  Result<> fill(const DataSet& set);
  Error complaint(const std::string& doing, const LoadOutcome& outcome) const;

  const BenchArguments& arguments_;
  const Content& content_;
  const S3Endpoint endpoint_;
  const std::atomic<bool>& interrupted_;
  const RequestSigner signer_;
  const RequestMaker maker_;
  const Tell tell_;
  bool made_bucket_ = false;
};

}  // namespace penstock
