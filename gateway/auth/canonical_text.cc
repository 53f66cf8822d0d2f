#include "gateway/auth/canonical_text.h"

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>

namespace penstock {
namespace {

constexpr std::array<bool, 256> make_unreserved() {
  std::array<bool, 256> table{};
  for (int c = '0'; c <= '9'; ++c) table[static_cast<std::size_t>(c)] = true;
  for (int c = 'a'; c <= 'z'; ++c) table[static_cast<std::size_t>(c)] = true;
  for (int c = 'A'; c <= 'Z'; ++c) table[static_cast<std::size_t>(c)] = true;
  for (const char c : {'-', '.', '_', '~'}) table[static_cast<std::size_t>(c)] = true;
  return table;
}
constexpr auto kUnreserved = make_unreserved();

// percent_encode() without a string for each value: this runs for every presigned request.
void append_encoded(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::size_t run = 0;  // where what stands as it is begins
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (kUnreserved[byte]) continue;
    out.append(text, run, i - run);
    const char escaped[] = {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    out.append(escaped, sizeof(escaped));
    run = i + 1;
  }
  out.append(text, run, text.size() - run);
}

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void append_collapsed(std::string& out, std::string_view value) {
  while (!value.empty()) {
    const auto blank = std::find_if(value.begin(), value.end(), is_blank);
    const auto word = static_cast<std::size_t>(blank - value.begin());
    out.append(value, 0, word);
    value.remove_prefix(word);
    const auto next = std::find_if_not(value.begin(), value.end(), is_blank);
    value.remove_prefix(static_cast<std::size_t>(next - value.begin()));
    if (word > 0 && !value.empty()) out += ' ';
  }
}

}  // namespace

void append_canonical_query(std::string& out, const S3Request& request, std::string_view without) {
  struct Parameter {
    std::size_t begin, name_end, end;  // in `text`
  };
  std::string text;
  text.reserve(512);
  boost::container::small_vector<Parameter, 24> parameters;
  for (const auto& [name, value] : request.query) {
    if (!without.empty() && name == without) continue;
    Parameter parameter{text.size(), 0, 0};
    append_encoded(text, name);
    parameter.name_end = text.size();
    text += '=';
    append_encoded(text, value);
    parameter.end = text.size();
    parameters.push_back(parameter);
  }
  const std::string_view all = text;
  const auto name_of = [all](const Parameter& p) {
    return all.substr(p.begin, p.name_end - p.begin);
  };
  const auto value_of = [all](const Parameter& p) {
    return all.substr(p.name_end, p.end - p.name_end);
  };
  std::sort(parameters.begin(), parameters.end(), [&](const Parameter& a, const Parameter& b) {
    const int order = name_of(a).compare(name_of(b));
    return order != 0 ? order < 0 : value_of(a) < value_of(b);
  });
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (i > 0) out += '&';
    out += all.substr(parameters[i].begin, parameters[i].end - parameters[i].begin);
  }
}

std::vector<std::string_view> split_names(std::string_view list) {
  std::vector<std::string_view> names;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(';'), list.size());
    names.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return names;
}

void append_canonical_header(std::string& out, const S3Request& request, std::string_view name) {
  out.append(name).append(":");
  bool first = true;
  for (const auto& [header, value] : request.headers) {
    if (header != name) continue;
    if (!first) out += ',';
    first = false;
    append_collapsed(out, value);
  }
  out += '\n';
}

}  // namespace penstock
