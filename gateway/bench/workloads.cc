#include "gateway/bench/workloads.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace penstock {
namespace {

using Kind = Workload::Kind;
using Payload = Workload::Payload;
constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kSample = 114'660;  // resnet50's

constexpr std::array kWorkloads{
    Workload{.name = "W1",
             .what = "8 MiB aligned ranges of big shards",
             .kind = Kind::aligned_ranges,
             .set = SetName::big,
             .connections = 16,
             .bytes = 8 * kMiB},
    Workload{.name = "W2",
             .what = "whole objects of 146.6 MB +- 68 MB, as unet3d reads",
             .set = SetName::volumes,
             .connections = 4,
             .passes = true,
             .usual = false},
    Workload{
        .name = "W3", .what = "one connection, whole shards", .set = SetName::big, .passes = true},
    Workload{.name = "W4a",
             .what = "whole objects of 114,660 B, as resnet50 reads",
             .set = SetName::samples,
             .connections = 64},
    Workload{.name = "W4b",
             .what = "random ranges of 114,660 B of big shards",
             .kind = Kind::random_ranges,
             .set = SetName::big,
             .connections = 64,
             .bytes = kSample},
    Workload{.name = "W4c",
             .what = "random ranges of 4 KiB of big shards",
             .kind = Kind::random_ranges,
             .set = SetName::big,
             .connections = 64,
             .bytes = 4096},
    Workload{.name = "W5",
             .what = "whole objects of 2.83 MB, as cosmoflow reads",
             .set = SetName::cosmo,
             .connections = 8,
             .usual = false},
    Workload{.name = "W5open",
             .what = "the same, open loop at half the rate of W5",
             .set = SetName::cosmo,
             .connections = 32,
             .half_rate = true,
             .usual = false},
    Workload{
        .name = "W6get", .what = "GET of 4 KiB objects", .set = SetName::small, .connections = 64},
    Workload{.name = "W6head",
             .what = "HEAD of the same",
             .kind = Kind::head,
             .set = SetName::small,
             .connections = 64},
    Workload{.name = "W10",
             .what = "list, pages of 1,000 keys",
             .kind = Kind::list,
             .set = SetName::small,
             .bytes = 1000},
    Workload{.name = "W10b",
             .what = "list, pages of 100 keys",
             .kind = Kind::list,
             .set = SetName::small,
             .bytes = 100,
             .usual = false},
    Workload{.name = "W10d",
             .what = "list by folders: one page, one folder",
             .kind = Kind::list,
             .set = SetName::small,
             .bytes = 1000,
             .delimiter = true,
             .usual = false},
    Workload{.name = "W7",
             .what = "PUT of 4 KiB objects",
             .kind = Kind::put,
             .connections = 64,
             .bytes = 4096},
    Workload{.name = "W7b",
             .what = "PUT of 114,660 B objects",
             .kind = Kind::put,
             .connections = 64,
             .bytes = kSample},
    Workload{.name = "W8",
             .what = "multipart upload, parts of 64 MiB",
             .kind = Kind::parts,
             .connections = 8,
             .bytes = 64 * kMiB,
             .total_bytes = 2048 * kMiB},
    Workload{.name = "W8b",
             .what = "multipart upload, parts of 8 MiB",
             .kind = Kind::parts,
             .connections = 10,
             .bytes = 8 * kMiB,
             .total_bytes = 1024 * kMiB},
    Workload{.name = "W8c",
             .what = "the same with a CRC64-NVME in the trailer",
             .kind = Kind::parts,
             .connections = 10,
             .bytes = 8 * kMiB,
             .total_bytes = 1024 * kMiB,
             .payload = Payload::crc64_trailer,
             .usual = false},
    Workload{.name = "W8s",
             .what = "the same with signed payloads (SHA-256)",
             .kind = Kind::parts,
             .connections = 10,
             .bytes = 8 * kMiB,
             .total_bytes = 1024 * kMiB,
             .payload = Payload::signed_sha256,
             .usual = false},
    Workload{.name = "W9",
             .what = "checkpoint: 8 ranks, one PUT each at once, then read back",
             .kind = Kind::checkpoint,
             .connections = 8,
             .total_bytes = 8 * 205'000'000ULL,
             .usual = false},
    Workload{.name = "W11",
             .what = "45 % GET, 30 % HEAD, 15 % PUT, 10 % DELETE, 10 MiB",
             .kind = Kind::mixed,
             .set = SetName::mixed_large,
             .connections = 20,
             .usual = false},
    Workload{.name = "W11b",
             .what = "the same with 256 KiB",
             .kind = Kind::mixed,
             .set = SetName::mixed_small,
             .connections = 20,
             .usual = false},
    Workload{.name = "W12a",
             .what = "W1 again: take volumes away first, and --compare",
             .kind = Kind::aligned_ranges,
             .set = SetName::big,
             .connections = 16,
             .bytes = 8 * kMiB,
             .usual = false},
    Workload{.name = "W12b",
             .what = "W4b again: take volumes away first, and --compare",
             .kind = Kind::random_ranges,
             .set = SetName::big,
             .connections = 64,
             .bytes = kSample,
             .usual = false},
    Workload{.name = "W14",
             .what = "10 KiB objects, as a batch is fetched without a batch call",
             .set = SetName::items,
             .connections = 64,
             .usual = false},
    Workload{.name = "W15idle",
             .what = "nothing: time and memory of a server that is not used",
             .kind = Kind::idle,
             .connections = 0,
             .usual = false},
    Workload{.name = "W15read",
             .what = "W1 over 256 connections: peak memory",
             .kind = Kind::aligned_ranges,
             .set = SetName::big,
             .connections = 256,
             .bytes = 8 * kMiB,
             .usual = false},
    Workload{.name = "W15write",
             .what = "W8b over 256 connections: peak memory",
             .kind = Kind::parts,
             .connections = 256,
             .bytes = 8 * kMiB,
             .total_bytes = 2560 * kMiB,
             .usual = false},
    Workload{.name = "unet3d",
             .what = "MLPerf: 7 objects of 146.6 MB a step of 0.323 s",
             .kind = Kind::training,
             .set = SetName::volumes,
             .usual = false,
             .training = "unet3d"},
    Workload{.name = "resnet50",
             .what = "MLPerf: 400 ranges of 114,660 B a step of 0.224 s",
             .kind = Kind::training,
             .set = SetName::big,
             .bytes = kSample,
             .usual = false,
             .training = "resnet50"},
    Workload{.name = "retinanet",
             .what = "MLPerf: 24 objects of 322,957 B a step of 0.048 s",
             .kind = Kind::training,
             .set = SetName::images,
             .usual = false,
             .training = "retinanet"},
    Workload{.name = "cosmoflow",
             .what = "MLPerf: one object of 2.83 MB a step of 3.5 ms",
             .kind = Kind::training,
             .set = SetName::cosmo,
             .usual = false,
             .training = "cosmoflow"},
    Workload{.name = "llama3-8b",
             .what = "MLPerf: checkpoint, 8 ranks by parts, 1/64 of 105 GB",
             .kind = Kind::shards,
             .connections = 32,
             .bytes = 8 * kMiB,
             .total_bytes = 8 * 205'000'000ULL,
             .usual = false},
};
constexpr std::string_view kTls =
    "W13 (TLS) is not there: this client speaks no TLS, and the store serves none";

bool is_model(const Workload& workload) {
  return !workload.training.empty() || workload.kind == Kind::shards;
}

bool is_name(std::string_view name) {
  return std::any_of(kWorkloads.begin(), kWorkloads.end(),
                     [&](const Workload& workload) { return workload.name == name; });
}

// W1 is the beginning of W10, too, but not its family: what follows a family's name is no digit.
bool means(std::string_view name, const Workload& workload) {
  if (name == "all") return true;
  if (name == "mlperf") return is_model(workload);
  if (is_name(name) || !name.starts_with('W')) return name == workload.name;
  if (!workload.name.starts_with(name)) return false;
  return std::isdigit(static_cast<unsigned char>(workload.name[name.size()])) == 0;
}

}  // namespace

std::span<const Workload> all_workloads() { return kWorkloads; }

Result<std::vector<Workload>> find_workloads(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto is_meant = [&](const Workload& workload) { return means(name, workload); };
    if (name.size() > 1 && std::any_of(kWorkloads.begin(), kWorkloads.end(), is_meant)) continue;
    if (name == "W13") return fail(Errc::invalid, std::string(kTls));
    if (name == "all" || name == "mlperf") continue;
    return fail(Errc::invalid, "--only: there is no workload \"" + name +
                                   "\"; `penstock bench --list` names them");
  }
  std::vector<Workload> found;
  for (const Workload& workload : kWorkloads) {
    const bool wanted = names.empty()
                            ? workload.usual
                            : std::any_of(names.begin(), names.end(),
                                          [&](const auto& name) { return means(name, workload); });
    if (wanted) found.push_back(workload);
  }
  return found;
}

std::string describe_workloads() {
  std::string text;
  for (const Workload& workload : kWorkloads) {
    std::string line = std::string(workload.usual ? "* " : "  ") + std::string(workload.name);
    line.resize(13, ' ');
    std::string connections = std::to_string(workload.connections);
    connections.insert(0, 4 - std::min<std::size_t>(connections.size(), 4), ' ');
    if (workload.kind == Kind::training) connections = "   -";
    text += line + connections + "  " + std::string(workload.what) + "\n";
  }
  text += "The number: connections. *: run unless --only names others.\n";
  text += "--only W4: W4a, W4b, W4c, since none is called W4; --only mlperf; --only all.\n";
  return text + std::string(kTls) + ".\n";
}

}  // namespace penstock
