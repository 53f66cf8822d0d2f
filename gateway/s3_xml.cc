#include "gateway/s3_xml.h"

#include <array>
#include <charconv>

namespace penstock {
namespace {

constexpr std::string_view kDeclaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
constexpr std::string_view kNamespace = " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

constexpr std::array<bool, 256> make_plain() {
  std::array<bool, 256> plain{};
  for (int c = 0x20; c < 0x7F; ++c) plain[static_cast<std::size_t>(c)] = true;
  for (const char c : {'<', '>', '&', '"', '\''}) plain[static_cast<unsigned char>(c)] = false;
  return plain;
}
constexpr auto kPlain = make_plain();

// Length of the UTF-8 sequence at the front that XML may hold; 0 if there is none.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!follows(1) || !follows(2)) return 0;
    const unsigned code = ((first & 15u) << 12) | ((byte(1) & 63u) << 6) | (byte(2) & 63u);
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    return code < 0x800 || surrogate || code >= 0xFFFE ? 0 : 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    const unsigned code = ((first & 7u) << 18) | ((byte(1) & 63u) << 12) |
                          ((byte(2) & 63u) << 6) | (byte(3) & 63u);
    return code < 0x10000 || code > 0x10FFFF ? 0 : 4;
  }
  return 0;
}

void append_special(std::string& out, char c) {
  switch (c) {
    case '<': out += "&lt;"; return;
    case '>': out += "&gt;"; return;
    case '&': out += "&amp;"; return;
    case '"': out += "&quot;"; return;
    case '\'': out += "&#39;"; return;
    default: break;
  }
  char digits[4];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits,
                                          static_cast<unsigned>(static_cast<unsigned char>(c)), 16);
  out += "&#x";
  out.append(digits, end);
  out += ';';
}

}  // namespace

void append_escaped(std::string& out, std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    std::size_t run = i;
    while (run < text.size() && kPlain[static_cast<unsigned char>(text[run])]) ++run;
    out.append(text.data() + i, run - i);
    i = run;
    if (i == text.size()) return;
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      append_special(out, text[i++]);
      continue;
    }
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) {
      out += kReplacement;
      ++i;
      continue;
    }
    out.append(text.data() + i, length);
    i += length;
  }
}

XmlWriter::XmlWriter(std::size_t reserve_bytes) {
  out_.reserve(reserve_bytes);
  out_ += kDeclaration;
}

void XmlWriter::open_root(std::string_view name) {
  out_ += '<';
  out_ += name;
  out_ += kNamespace;
  out_ += '>';
}

void XmlWriter::open(std::string_view name) {
  out_ += '<';
  out_ += name;
  out_ += '>';
}

void XmlWriter::close(std::string_view name) {
  out_ += "</";
  out_ += name;
  out_ += '>';
}

void XmlWriter::element(std::string_view name, std::string_view value) {
  open(name);
  append_escaped(out_, value);
  close(name);
}

void XmlWriter::element(std::string_view name, std::uint64_t value) {
  char digits[20];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  open(name);
  out_.append(digits, end);
  close(name);
}

void XmlWriter::text(std::string_view text) { append_escaped(out_, text); }

void XmlWriter::etag(std::string_view etag) {
  out_ += "<ETag>&quot;";
  append_escaped(out_, etag);
  out_ += "&quot;</ETag>";
}

}  // namespace penstock
