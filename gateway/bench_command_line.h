// The command line of `penstock bench`: its options and help text.
#pragma once
#include <CLI/CLI.hpp>

#include "gateway/bench_arguments.h"

namespace penstock {

// `arguments` gets what is said; it outlives the parsing.
CLI::App* add_bench(CLI::App& app, BenchArguments& arguments);

}  // namespace penstock
