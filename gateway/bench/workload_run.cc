#include "gateway/bench/workload_run.h"

#include <algorithm>
#include <utility>

#include "penstock/checksum.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

using Kind = Workload::Kind;

constexpr double kCheckpointEveryS = 1800;     // of a job of full size
constexpr double kCheckpointShare = 1.0 / 64;  // of it, at scale 1

Duration duration_of(double seconds) { return Duration(static_cast<std::int64_t>(seconds * 1e6)); }
double seconds_of(Duration duration) { return static_cast<double>(duration.count()) * 1e-6; }

// The `late` requests from `first` on were meant to begin and never did: they waited until the end
// at least. There may be billions of them: at most 10,000 groups are recorded, each by its first.
void record_late(const RequestPace& pace, std::uint64_t first, std::uint64_t late, BenchTime until,
                 Latencies& latencies) {
  constexpr std::uint64_t kGroups = 10'000;
  const std::uint64_t step = late / kGroups + 1;
  for (std::uint64_t done = 0; done < late; done += step) {
    latencies.record(until - pace.intended(first + done), std::min(step, late - done));
  }
}

// Nothing is sent.
class IdleSource : public LoadSource {
 public:
  Turn next(BenchTime now, LoadRequest& request) override {
    request.intended = now + Duration(1'000'000);
    return Turn::later;
  }
};

}  // namespace

WorkloadRun::WorkloadRun(const BenchArguments& arguments, const Content& content,
                         BenchTarget& target, std::string stamp)
    : arguments_(arguments), content_(content), target_(target), stamp_(std::move(stamp)) {}

std::uint32_t WorkloadRun::connections_of(const Workload& workload) const {
  return arguments_.connections > 0 ? arguments_.connections : workload.connections;
}

LoadOptions WorkloadRun::timed(std::uint32_t connections) const {
  LoadOptions options = target_.usual(connections);
  options.warm_up = duration_of(arguments_.warm_up);
  options.measure = duration_of(arguments_.seconds);
  return options;
}

Result<double> WorkloadRun::rate_of(const Workload& workload) const {
  if (arguments_.rate > 0) return arguments_.rate;
  if (!workload.half_rate) return 0.0;
  if (last_rate_ > 0) return last_rate_ / 2;
  return fail(Errc::invalid,
              "half of which rate? Measure the workload before it in the same run, "
              "or give --rate");
}

NumberedSource::Fill WorkloadRun::fill_of(const Workload& workload) const {
  const RequestMaker& maker = target_.maker();
  if (workload.kind == Kind::put) {
    std::string prefix = std::string(kBenchPrefix) + std::string(workload.name) + "-" + stamp_;
    return putting(maker, prefix + "/", workload.bytes);
  }
  const DataSet set = data_set(workload.set, arguments_.scale);
  return workload.kind == Kind::mixed ? mixing(maker, set) : reading(maker, workload, set);
}

Result<> WorkloadRun::measure_numbered(const Workload& workload, BenchRow& row) {
  TRY(rate, rate_of(workload));
  LoadOptions options = timed(row.connections);
  std::uint64_t count = 0;
  if (workload.passes) {
    options.warm_up = options.measure = {};
    count = 2 * data_set(workload.set, arguments_.scale).count;
    rate = 0;
  }
  row.offered_per_s = rate;
  const RequestPace pace(rate, bench_now());
  const BenchTime until = bench_now() + options.warm_up + options.measure;
  NumberedSource source(fill_of(workload), count, pace);
  TRY(result, target_.run(row.workload, source, options));
  row.result = std::move(result);
  if (pace.is_open()) {
    row.late = std::max(pace.due(until), source.begun()) - source.begun();
    record_late(pace, source.begun(), row.late, until, row.result.tally.latency);
  }
  if (row.result.wall_s > 0) {
    last_rate_ = static_cast<double>(row.result.tally.good) / row.result.wall_s;
  }
  return {};
}

Result<> WorkloadRun::measure_training(const Workload& workload, BenchRow& row) {
  TrainingShape shape = training_shape(workload.training);
  shape.compute = Duration(static_cast<std::int64_t>(static_cast<double>(shape.compute.count()) *
                                                     arguments_.compute_time));
  row.connections = arguments_.accelerators * shape.readers;
  const LoadOptions options = timed(row.connections);
  const BenchTime from = bench_now() + options.warm_up;
  const BenchTime until = from + options.measure;
  TrainingSource source(fill_of(workload), shape, arguments_.accelerators, from, until);
  TRY(result, target_.run(row.workload, source, options));
  row.result = std::move(result);
  row.utilisation = source.utilisation(until);
  row.enough = shape.enough;
  return {};
}

Result<> WorkloadRun::measure_idle(BenchRow& row) {
  IdleSource source;
  TRY(result, target_.run(row.workload, source, timed(1)));
  row.connections = 0;
  row.result = std::move(result);
  return {};
}

Upload WorkloadRun::planned_upload(const Workload& workload, const std::string& key,
                                   std::uint64_t total_bytes) const {
  using Payload = Workload::Payload;
  Upload upload;
  upload.key = key;
  upload.part_bytes = workload.bytes;
  const double parts =
      static_cast<double>(total_bytes) * arguments_.scale / static_cast<double>(workload.bytes);
  upload.parts = std::clamp(static_cast<std::uint32_t>(parts), 2U, 10'000U);
  upload.etags.resize(upload.parts);
  if (workload.payload == Payload::plain) return upload;
  for (std::uint32_t part = 0; part < upload.parts; ++part) {
    const bool signs = workload.payload == Payload::signed_sha256;
    Checksummer sum(signs ? ChecksumAlgorithm::sha256 : ChecksumAlgorithm::none);
    std::uint64_t crc = 0;
    for (std::uint64_t done = 0; done < workload.bytes;) {
      const ConstBytes piece = content_.at(content_.start_of(key) + part * workload.bytes + done,
                                           static_cast<std::size_t>(workload.bytes - done));
      sum.update(piece);
      if (!signs) crc = crc64nvme(piece, crc);
      done += piece.size();
    }
    if (signs) {
      upload.sha256s.push_back(hex_encode(sum.raw()));
    } else {
      upload.crcs.push_back(crc);
    }
  }
  return upload;
}

// What is measured are the parts; to complete is told beside it.
Result<> WorkloadRun::upload(std::vector<Upload> uploads, BenchRow& row) {
  for (Upload& one : uploads) {
    TRY(id, target_.begin_upload(one.key));
    one.id = std::move(id);
  }
  PartsSource source(target_.maker(), std::move(uploads));
  auto result = target_.run(row.workload, source, target_.usual(row.connections));
  const bool whole = result && result->tally.failed == 0;
  if (!whole) {  // nothing can be completed
    for (const Upload& one : source.uploads()) target_.abort_upload(one);
  }
  if (!result) return std::move(result).error();
  row.result = std::move(*result);
  row.slowest_s = seconds_of(source.slowest());
  if (!whole) return {};
  const BenchTime begun = bench_now();
  for (const Upload& one : source.uploads()) CHECK_OK(target_.complete_upload(one));
  row.complete_ms = seconds_of(bench_now() - begun) * 1e3;
  return {};
}

Result<> WorkloadRun::measure_parts(const Workload& workload, BenchRow& row) {
  const std::string key = std::string(kBenchPrefix) + "upload-" + std::string(workload.name);
  CHECK_OK(upload({planned_upload(workload, key, workload.total_bytes)}, row));
  row.slowest_s.reset();
  return {};
}

Result<> WorkloadRun::read_back(const std::string& what, NumberedSource::Fill fill,
                                std::uint64_t count, BenchRow& row) {
  NumberedSource source(std::move(fill), count);
  TRY(result, target_.run(what, source, target_.usual(row.connections)));
  row.result = std::move(result);
  row.slowest_s = row.result.wall_s;
  return {};
}

Result<> WorkloadRun::measure_checkpoint(const Workload& workload, BenchRow& write,
                                         BenchRow& read) {
  const std::uint64_t ranks = workload.connections;
  const auto bytes = static_cast<std::uint64_t>(static_cast<double>(workload.total_bytes / ranks) *
                                                arguments_.scale);
  const std::string prefix = std::string(kBenchPrefix) + "checkpoint/rank-";
  const RequestMaker& maker = target_.maker();
  NumberedSource source(
      [&](std::uint64_t rank, LoadRequest& request) {
        maker.put(request, prefix + std::to_string(rank), bytes);
      },
      ranks);
  TRY(result, target_.run(write.workload, source, target_.usual(write.connections)));
  write.result = std::move(result);
  write.slowest_s = static_cast<double>(write.result.tally.latency.max_us()) * 1e-6;
  return read_back(
      read.workload,
      [&](std::uint64_t rank, LoadRequest& request) {
        maker.read(request, "GET", prefix + std::to_string(rank), bytes);
      },
      ranks, read);
}

Result<> WorkloadRun::measure_shards(const Workload& workload, BenchRow& write, BenchRow& read) {
  constexpr std::uint64_t kRanks = 8;
  std::vector<Upload> uploads;
  for (std::uint64_t rank = 0; rank < kRanks; ++rank) {
    const std::string key =
        std::string(kBenchPrefix) + std::string(workload.name) + "/rank-" + std::to_string(rank);
    uploads.push_back(planned_upload(workload, key, workload.total_bytes / kRanks));
  }
  const std::uint64_t parts = uploads.front().parts;
  CHECK_OK(upload(uploads, write));
  // A job of this share of the size that writes one each half hour of its share of the time.
  const double computes = kCheckpointEveryS * kCheckpointShare * arguments_.scale;
  write.utilisation = computes / (computes + write.slowest_s.value_or(0));
  return read_back(
      read.workload,
      [&, parts](std::uint64_t number, LoadRequest& request) {
        const Upload& one = uploads[number % kRanks];
        target_.maker().read(request, "GET", one.key, one.part_bytes * parts,
                             RequestMaker::Range{number / kRanks * one.part_bytes, one.part_bytes});
      },
      kRanks * parts, read);
}

std::vector<BenchRow> WorkloadRun::measure(const Workload& workload) {
  std::vector<BenchRow> rows(1);
  rows.front().workload = workload.name;
  rows.front().connections = connections_of(workload);
  if (workload.kind == Kind::checkpoint || workload.kind == Kind::shards) {
    rows.push_back(rows.front());
    rows[0].workload += "-w";
    rows[1].workload += "-r";
  }
  const auto measured = [&]() -> Result<> {
    switch (workload.kind) {
      case Kind::training:
        return measure_training(workload, rows.front());
      case Kind::idle:
        return measure_idle(rows.front());
      case Kind::parts:
        return measure_parts(workload, rows.front());
      case Kind::checkpoint:
        return measure_checkpoint(workload, rows[0], rows[1]);
      case Kind::shards:
        return measure_shards(workload, rows[0], rows[1]);
      default:
        return measure_numbered(workload, rows.front());
    }
  }();
  if (!measured) rows.front().error = measured.error().context;
  return rows;
}

}  // namespace penstock
