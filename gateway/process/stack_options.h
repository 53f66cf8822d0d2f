// What each stack of a process is told of the command line and the configuration.
// Thread-safety: a start uses them.
#pragma once
#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "gateway/gateway_stack.h"
#include "gateway/local_config.h"
#include "gateway/process_shares.h"
#include "server/node/server_stack.h"
#include "server/node/volume_memory.h"

namespace penstock {

inline constexpr int kExitFailed = 1;
// After a signal: threads stuck in a disk were left behind, or a start was cut off.
inline constexpr int kExitStuck = 3;

ProcessOptions options_of_process(const LocalConfig& config, const MemoryShares& memory);
// Without the directories.
ServerOptions options_of_server(const LocalConfig& config, const ProcessShares& shares,
                                RowReaders readers);
GatewayOptions options_of_gateway(const LocalConfig& config, const std::string& accounts_file);

// `asked`: by the command line; empty: as the configuration says. Null: none.
Result<std::unique_ptr<AccessLog>> open_access_log(const LocalConfig& config,
                                                   const std::string& asked);

std::vector<boost::asio::io_context*> contexts_of(IoThreads& io);

}  // namespace penstock
