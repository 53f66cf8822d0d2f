// The command line of `penstock`: its options, and what is wrong with a given one.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "gateway/bench_arguments.h"
#include "gateway/cluster_arguments.h"
#include "gateway/local_arguments.h"

namespace penstock {

// Of a store of `penstock local`.
struct RingArguments {
  std::string directory;
  std::string volume;
  std::string with;
  bool wait = false;
};

struct CommandLine {
  enum class Command : std::uint8_t {
    local,
    server,
    gateway,
    ring_make,
    ring_add,
    ring_show,
    ring_what_if,
    ring_status,
    ring_restore,
    ring_export,
    ring_replace,
    admin_keygen,
    admin_status,
    bench,
  };
  Command command = Command::local;
  LocalArguments local;
  RingArguments ring;
  ServerArguments server;
  GatewayArguments gateway;
  RingMakeArguments ring_make;
  RingMakeArguments ring_add;
  RingLookArguments ring_show;
  RingLookArguments ring_what_if;
  RingLookArguments ring_look;  // status, of a cluster or of a store
  RingLookArguments ring_restore;
  RingExportArguments ring_export;
  AdminStatusArguments admin_status;
  std::string key_file;  // of keygen
  BenchArguments bench;
};

inline constexpr int kUsageError = 2;  // exit code

// What is to be done; else nothing is, and `exit_code` says how the process ends: help and version
// were written to standard output (0), or the reason to standard error (kUsageError).
struct ParsedCommandLine {
  std::optional<CommandLine> command;
  int exit_code = 0;
};
ParsedCommandLine parse_command_line(int argc, const char* const* argv);

}  // namespace penstock
