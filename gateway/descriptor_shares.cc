#include "gateway/descriptor_shares.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "penstock/log.h"
#include "penstock/pinned_pages.h"

namespace penstock {

namespace {

// As far as it may be raised; RLIM_INFINITY is the largest number. `unknown`: if it cannot be told.
rlim_t raise_limit(__rlimit_resource resource, rlim_t unknown) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return unknown;
  const rlim_t before = std::exchange(limit.rlim_cur, limit.rlim_max);
  return setrlimit(resource, &limit) == 0 ? limit.rlim_cur : before;
}

}  // namespace

std::size_t raise_file_limit() {
  return static_cast<std::size_t>(std::min<rlim_t>(raise_limit(RLIMIT_NOFILE, 1024), 1'000'000));
}

Result<> check_file_size_limit() {
  const rlim_t limit = raise_limit(RLIMIT_FSIZE, RLIM_INFINITY);
  if (limit >= kFileSizeMin) return {};
  return fail(Errc::invalid, "the limit of the size of files is " + std::to_string(limit) +
                                 " bytes: at least " + std::to_string(kFileSizeMin) +
                                 " are needed (ulimit -f, LimitFSIZE=)");
}

Result<DescriptorShares> share_descriptors(std::size_t limit, std::size_t volumes,
                                           std::size_t connections_wanted, bool uncopied) {
  const std::size_t least =
      limits::kDescriptorsSpare + volumes * limits::kDescriptorsPerVolumeMin + 2 * volumes;
  if (limit < least + limits::kDescriptorsServingMin) {
    return fail(Errc::invalid, "the limit of open files is " + std::to_string(limit) + ": " +
                                   std::to_string(volumes) + " volumes need at least " +
                                   std::to_string(least + limits::kDescriptorsServingMin) +
                                   " (ulimit -n, LimitNOFILE=)");
  }
  const std::size_t room = limit - limits::kDescriptorsSpare - 2 * volumes;
  const std::size_t full = 2 * limits::kReadHandlesPerVolume;
  DescriptorShares shares;
  shares.per_volume = std::clamp(room / 2 / std::max<std::size_t>(volumes, 1),
                                 limits::kDescriptorsPerVolumeMin, full);
  const std::size_t rest = room - shares.per_volume * volumes;
  if (uncopied) {
    const std::size_t beyond = rest - limits::kDescriptorsServingMin;  // what connections can spare
    shares.pipes = std::min<std::size_t>({room / 32, PinnedPages::kPipesMax, beyond / 2});
  }
  shares.connections = std::min(connections_wanted, rest - 2 * shares.pipes);
  if (shares.connections < connections_wanted) {
    log_event(LogLevel::warn, "connections_limited",
              {{"connections_max", std::to_string(shares.connections)},
               {"wanted", std::to_string(connections_wanted)},
               {"open_files_max", std::to_string(limit)}});
  }
  return shares;
}

}  // namespace penstock
