#include "gateway/s3/s3_xml.h"

#include <array>
#include <charconv>

#include "gateway/s3/utf8.h"

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

// What is written of a byte at most.
constexpr std::array<std::uint8_t, 256> make_bytes_max() {
  constexpr std::size_t kSpecial = 6;  // &quot; or &#x1f;
  std::array<std::uint8_t, 256> bytes{};
  for (std::size_t c = 0; c < bytes.size(); ++c) {
    bytes[c] = kPlain[c] ? 1 : static_cast<std::uint8_t>(c < 0x80 ? kSpecial : kReplacement.size());
  }
  return bytes;
}
constexpr auto kBytesMax = make_bytes_max();

void append_special(std::string& out, char c) {
  switch (c) {
    case '<':
      out += "&lt;";
      return;
    case '>':
      out += "&gt;";
      return;
    case '&':
      out += "&amp;";
      return;
    case '"':
      out += "&quot;";
      return;
    case '\'':
      out += "&#39;";
      return;
    default:
      break;
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

std::size_t escaped_bytes_max(std::string_view text) {
  std::size_t bytes = 0;
  for (const char c : text) bytes += kBytesMax[static_cast<unsigned char>(c)];
  return bytes;
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

void XmlWriter::escaped(std::string_view name, std::string_view value) {
  open(name);
  out_ += value;
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
