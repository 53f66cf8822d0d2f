#include "gateway/canonical_text.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>

#include "gateway/percent_encoding.h"

namespace penstock {
namespace {

// Most names and values stand as they are; only the others are worth a string of their own.
void append_encoded(std::string& out, std::string_view text) {
  const auto unreserved = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
  };
  if (std::all_of(text.begin(), text.end(), unreserved)) {
    out += text;
  } else {
    out += percent_encode(text, /*keep_slash=*/false);
  }
}

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void append_collapsed(std::string& out, std::string_view value) {
  bool pending = false;
  bool first = true;
  for (const char c : value) {
    if (is_blank(c)) {
      pending = true;
      continue;
    }
    if (pending && !first) out += ' ';
    pending = false;
    first = false;
    out += c;
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
