#include "penstock/request_name.h"

#include <utility>

#include "penstock/text_codec.h"

namespace penstock {
namespace {
constexpr std::size_t kIdDigits = 16;
constexpr int kDigitBits = 4;
}  // namespace

void write_request_id(std::uint64_t number, std::string& id) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  id.resize(kIdDigits);
  for (char& digit : id) {
    digit = kDigits[number & 15];
    number >>= kDigitBits;
  }
}

std::string request_id_text(const Trace& trace) {
  std::string text;
  write_request_id(trace.request, text);
  return text;
}

std::uint64_t request_number(std::string_view id) {
  if (id.size() != kIdDigits) return 0;
  std::uint64_t number = 0;
  for (std::size_t i = kIdDigits; i-- > 0;) {  // the first digit is the lowest
    const int value = hex_digit(id[i]);
    if (value < 0) return 0;
    number = number << kDigitBits | static_cast<std::uint64_t>(value);
  }
  return number;
}

std::string trace_text(const Trace& trace) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  if (trace.trace[0] == 0 && trace.trace[1] == 0) return text;
  for (const std::uint64_t half : trace.trace) {
    for (int shift = 64 - kDigitBits; shift >= 0; shift -= kDigitBits) {
      text.push_back(kDigits[half >> shift & 15]);
    }
  }
  return text;
}

LogField trace_field(const Trace& trace) {
  std::string text = trace_text(trace);
  return {text.empty() ? "" : "trace_id", std::move(text)};
}

}  // namespace penstock
