// The command lines of `penstock ring` and `penstock admin`: their options and help texts.
#pragma once
#include <CLI/CLI.hpp>
#include <utility>
#include <vector>

#include "gateway/command_line.h"

namespace penstock {

// Each subcommand with what it asks for.
using CommandTable = std::vector<std::pair<const CLI::App*, CommandLine::Command>>;

// `line` gets what is said; both outlive the parsing.
void add_ring_commands(CLI::App& app, CommandLine& line, CommandTable& table);
void add_admin_commands(CLI::App& app, CommandLine& line, CommandTable& table);

}  // namespace penstock
