#include "server/objects/multipart_complete.h"

#include <algorithm>

#include "penstock/byte_codec.h"
#include "penstock/checksum.h"
#include "penstock/md5.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {
CompletePlan faulty(PartFault fault, std::uint16_t part = 0) {
  CompletePlan plan;
  plan.fault = fault;
  plan.fault_part = part;
  return plan;
}

// A checksum that is named is compared: what cannot be compared is refused.
PartFault compare(const CompletePart& named, const PartInfo& part) {
  if (named.etag != md5_hex(part.md5)) return PartFault::missing;
  if (named.checksum.algorithm == ChecksumAlgorithm::none) return PartFault::none;
  if (named.checksum.algorithm != part.checksum.algorithm) return PartFault::algorithm;
  return named.checksum.raw == part.checksum.raw ? PartFault::none : PartFault::missing;
}

// Moves the parts that are named from `stored` to the plan, the others' blobs to left_over.
CompletePlan pick_parts(std::vector<PartInfo> stored, const std::vector<CompletePart>& named) {
  if (named.empty()) return faulty(PartFault::missing);
  for (std::size_t i = 1; i < named.size(); ++i) {
    if (named[i].number <= named[i - 1].number) return faulty(PartFault::order, named[i].number);
  }
  CompletePlan plan;
  plan.parts.reserve(named.size());
  auto part = stored.begin();
  const auto leave_over = [&plan](PartInfo& skipped) {
    if (skipped.blob) plan.left_over.push_back(std::move(*skipped.blob));
  };
  for (const CompletePart& wanted : named) {
    for (; part != stored.end() && part->number < wanted.number; ++part) leave_over(*part);
    const bool found = part != stored.end() && part->number == wanted.number;
    const PartFault fault = found ? compare(wanted, *part) : PartFault::missing;
    if (fault != PartFault::none) return faulty(fault, wanted.number);
    plan.parts.push_back(std::move(*part++));
  }
  for (; part != stored.end(); ++part) leave_over(*part);
  return plan;
}

// Of an upload that named no algorithm: the CRC that all its parts carry, if there is one.
ChecksumAlgorithm common_crc(const std::vector<PartInfo>& parts) {
  const ChecksumAlgorithm first = parts.front().checksum.algorithm;
  const bool same = std::all_of(parts.begin(), parts.end(), [first](const PartInfo& part) {
    return part.checksum.algorithm == first;
  });
  return same && is_combinable(first) ? first : ChecksumAlgorithm::none;
}

// The checksum that the object gets; algorithm none if it gets none.
StoredChecksum object_checksum(const UploadRecord& upload, const std::vector<PartInfo>& parts) {
  const bool named = upload.checksum_algorithm != ChecksumAlgorithm::none;
  const auto algorithm = named ? upload.checksum_algorithm : common_crc(parts);
  const auto type = named ? upload.checksum_type : ChecksumType::full_object;
  return combined_checksum(algorithm, type, parts).value_or(StoredChecksum{});
}

PartFault check_whole(const UploadRecord& upload, const CompleteRequest& request,
                      const StoredChecksum& computed, std::uint64_t size_bytes) {
  if (size_bytes > limits::kObjectBytesMax) return PartFault::size;
  if (request.object_size && *request.object_size != size_bytes) return PartFault::size;
  const bool named = upload.checksum_algorithm != ChecksumAlgorithm::none;
  const auto type = named ? upload.checksum_type : ChecksumType::full_object;
  if (request.checksum_type && *request.checksum_type != type) return PartFault::type;
  if (request.checksum.algorithm == ChecksumAlgorithm::none) return PartFault::none;
  if (request.checksum.algorithm != computed.algorithm) {
    return named || computed.algorithm != ChecksumAlgorithm::none ? PartFault::type
                                                                  : PartFault::checksum;
  }
  return request.checksum.raw == computed.raw ? PartFault::none : PartFault::checksum;
}
}  // namespace

CompletePlan plan_complete(const UploadRecord& upload, std::vector<PartInfo> stored,
                           const CompleteRequest& request) {
  CompletePlan plan = pick_parts(std::move(stored), request.parts);
  if (plan.fault != PartFault::none) return plan;
  std::uint64_t size_bytes = 0;
  for (std::size_t i = 0; i < plan.parts.size(); ++i) {
    const bool last = i + 1 == plan.parts.size();
    if (!last && plan.parts[i].size_bytes < request.part_bytes_min) {
      CompletePlan refused = faulty(PartFault::too_small, plan.parts[i].number);
      refused.fault_bytes = plan.parts[i].size_bytes;
      return refused;
    }
    size_bytes += plan.parts[i].size_bytes;
  }
  StoredChecksum checksum = object_checksum(upload, plan.parts);
  const PartFault fault = check_whole(upload, request, checksum, size_bytes);
  if (fault != PartFault::none) return faulty(fault);
  plan.target.size_bytes = size_bytes;
  plan.target.etag = multipart_etag(plan.parts);
  plan.target.owner = upload.owner;
  plan.target.headers = upload.headers;
  plan.target.part_count = static_cast<std::uint32_t>(plan.parts.size());
  if (checksum.algorithm != ChecksumAlgorithm::none) {
    plan.target.checksums.push_back(std::move(checksum));
  }
  return plan;
}

std::string complete_digest(const CompleteRequest& request) {
  std::string asked;
  ByteWriter out(asked);
  const auto add_checksum = [&out](const StoredChecksum& checksum) {
    out.number(static_cast<std::uint8_t>(checksum.algorithm));
    out.number(static_cast<std::uint8_t>(checksum.type));
    out.text(checksum.raw);
  };
  out.number(static_cast<std::uint64_t>(request.parts.size()));
  for (const CompletePart& part : request.parts) {
    out.number(part.number);
    out.text(part.etag);
    add_checksum(part.checksum);
  }
  out.text(request.condition.if_match);
  out.text(request.condition.if_none_match);
  out.number(static_cast<std::uint8_t>(request.object_size.has_value()));
  out.number(request.object_size.value_or(0));
  add_checksum(request.checksum);
  out.number(request.checksum_type ? static_cast<std::uint8_t>(*request.checksum_type)
                                   : std::uint8_t{255});
  return checksum_of(ChecksumAlgorithm::sha256, as_bytes(asked));
}

std::string multipart_etag(const std::vector<PartInfo>& parts) {
  Md5 all;
  for (const PartInfo& part : parts) all.update(std::as_bytes(std::span(part.md5)));
  const Md5Digest digest = all.digest();
  return md5_hex(digest) + "-" + std::to_string(parts.size());
}

std::optional<StoredChecksum> combined_checksum(ChecksumAlgorithm algorithm, ChecksumType type,
                                                const std::vector<PartInfo>& parts) {
  if (algorithm == ChecksumAlgorithm::none || parts.empty()) return std::nullopt;
  if (type == ChecksumType::full_object && !is_combinable(algorithm)) return std::nullopt;
  StoredChecksum whole;
  whole.algorithm = algorithm;
  whole.type = type;
  std::string digests;
  for (const PartInfo& part : parts) {
    const bool usable = part.checksum.algorithm == algorithm &&
                        part.checksum.raw.size() == checksum_bytes(algorithm);
    if (!usable) return std::nullopt;
    if (type == ChecksumType::composite) {
      digests += part.checksum.raw;
    } else if (whole.raw.empty()) {
      whole.raw = part.checksum.raw;
    } else {
      whole.raw = combine_crc(algorithm, whole.raw, part.checksum.raw, part.size_bytes);
    }
  }
  if (type == ChecksumType::composite) whole.raw = checksum_of(algorithm, as_bytes(digests));
  return whole;
}

}  // namespace penstock
