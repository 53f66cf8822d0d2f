// Options of command lines that name servers as other processes call them.
#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "gateway/local_arguments.h"

namespace penstock {

// Each value of the option must be an ADDRESS:PORT that can be called.
inline CLI::Option* wants_reachable(CLI::Option* option) {
  const std::function<std::string(const std::string&)> check = [option](const std::string& text) {
    const auto checked = check_reachable(text, option->get_name().c_str());
    return checked ? std::string() : checked.error().context;
  };
  return option->check(check, "ADDRESS:PORT");
}

}  // namespace penstock
