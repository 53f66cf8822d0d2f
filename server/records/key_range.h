// Arithmetic on keys in byte order, as lists need it. Pure.
#pragma once
#include <string>
#include <string_view>

namespace penstock {

// The smallest string greater than every string that begins with `prefix`; empty = there is none.
inline std::string prefix_end(std::string_view prefix) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xff) end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

// The smallest string greater than `key`.
inline std::string key_after(std::string_view key) {
  std::string next(key);
  next.push_back('\0');
  return next;
}

// The common prefix that stands for `key` in a list with `delimiter`: through the first delimiter
// behind the list's own prefix, of `prefix_bytes` bytes. Empty: the key stands for itself.
inline std::string_view common_prefix(std::string_view key, std::size_t prefix_bytes,
                                      std::string_view delimiter) {
  if (delimiter.empty() || key.size() < prefix_bytes) return {};
  const auto found = key.find(delimiter, prefix_bytes);
  if (found == std::string_view::npos) return {};
  return key.substr(0, found + delimiter.size());
}

}  // namespace penstock
