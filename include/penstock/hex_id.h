// 64-bit ids in texts: 16 hexadecimal digits, lower case. Thread-safety: any thread.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock {

std::string hex_id(std::uint64_t id);
// nullopt: anything else.
std::optional<std::uint64_t> number_of_hex_id(std::string_view text);

}  // namespace penstock
