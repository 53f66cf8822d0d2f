#include "gateway/process_shares.h"

namespace penstock {

Result<ProcessShares> share_process(const LocalConfig& config, std::size_t volumes,
                                    ConnectionsWanted connections) {
  ProcessShares shares;
  TRY(descriptors, share_descriptors(raise_file_limit(), volumes, connections.count,
                                     config.sendfile && volumes > 0));
  connections.count = descriptors.connections;
  TRY(memory, share_memory(static_cast<std::size_t>(config.memory), volumes, connections));
  shares.descriptors = descriptors;
  shares.memory = memory;
  return shares;
}

}  // namespace penstock
