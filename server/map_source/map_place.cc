#include "server/map_source/map_place.h"

#include <charconv>
#include <cstdio>
#include <optional>
#include <utility>

namespace penstock {
namespace {

constexpr std::string_view kEtcd = "etcd://";
constexpr std::string_view kEtcdByTls = "etcds://";
constexpr std::string_view kFile = "file:";

// Without what may be a password.
std::string shown(std::string_view text) {
  const std::size_t at = text.rfind('@');
  if (at == std::string_view::npos) return std::string(text);
  const std::size_t scheme = text.find("://");
  const bool has_scheme = scheme != std::string_view::npos && scheme < at;
  return std::string(text.substr(0, has_scheme ? scheme + 3 : 0)) + "...@" +
         std::string(text.substr(at + 1));
}

Error malformed(std::string_view what) {
  return fail(Errc::invalid,
              "a map source is etcd://HOST:PORT[,HOST:PORT...]/CLUSTER-ID, "
              "etcds://HOST:PORT[,...]/CLUSTER-ID?ca=FILE&cert=FILE&key=FILE, "
              "file:PATH or PATH; this is none: " +
                  shown(what));
}

std::string id_text(ClusterId cluster) {
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016llx%016llx",
                static_cast<unsigned long long>(cluster.high),
                static_cast<unsigned long long>(cluster.low));
  return digits;
}

std::optional<EtcdEndpoint> parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]@/") != std::string_view::npos) {
    return std::nullopt;
  }
  EtcdEndpoint endpoint;
  endpoint.host = std::string(host);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  const bool whole = error == std::errc() && end == port.data() + port.size();
  if (!whole || endpoint.port == 0) return std::nullopt;
  return endpoint;
}

Result<std::vector<EtcdEndpoint>> parse_endpoints(std::string_view list) {
  std::vector<EtcdEndpoint> endpoints;
  while (true) {
    const std::size_t comma = list.find(',');
    const auto endpoint = parse_endpoint(list.substr(0, comma));
    if (!endpoint) return malformed(list.substr(0, comma));
    endpoints.push_back(*endpoint);
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  if (endpoints.size() > kEndpointsMax) return malformed("more than 16 endpoints");
  return endpoints;
}

// ca=FILE&cert=FILE&key=FILE, in any order.
Result<EtcdTlsFiles> parse_files(std::string_view words) {
  EtcdTlsFiles files;
  while (!words.empty()) {
    const std::size_t end = words.find('&');
    const std::string_view word = words.substr(0, end);
    const std::size_t equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    std::string* const file = key == "ca"     ? &files.authorities
                              : key == "cert" ? &files.certificate
                              : key == "key"  ? &files.key
                                              : nullptr;
    const bool has_value = equals != std::string_view::npos && equals + 1 < word.size();
    if (file == nullptr || !file->empty() || !has_value) return malformed(word);
    *file = std::string(word.substr(equals + 1));
    words.remove_prefix(end == std::string_view::npos ? words.size() : end + 1);
  }
  if (files.certificate.empty() != files.key.empty())
    return malformed("cert= and key= go together");
  return files;
}

}  // namespace

std::string endpoint_text(const EtcdEndpoint& endpoint) {
  const bool bare = endpoint.host.find(':') == std::string::npos;
  return (bare ? endpoint.host : "[" + endpoint.host + "]") + ":" + std::to_string(endpoint.port);
}

Result<MapPlace> parse_map_place(std::string_view text, ClusterId cluster) {
  MapPlace place;
  place.tls = text.starts_with(kEtcdByTls);
  const std::string_view scheme = place.tls ? kEtcdByTls : kEtcd;
  if (!text.starts_with(scheme)) {
    const std::string_view path = text.starts_with(kFile) ? text.substr(kFile.size()) : text;
    if (path.empty() || path.find("://") != std::string_view::npos) return malformed(text);
    place.file = std::string(path);
    place.text = std::string(kFile) + place.file;
    return place;
  }
  std::string_view rest = text.substr(scheme.size());
  if (const std::size_t query = rest.find('?'); place.tls && query != std::string_view::npos) {
    TRY(files, parse_files(rest.substr(query + 1)));
    place.tls_files = std::move(files);
    rest = rest.substr(0, query);
  }
  const std::size_t slash = rest.rfind('/');
  if (slash == std::string_view::npos) return malformed(text);
  const std::string_view id = rest.substr(slash + 1);
  rest = rest.substr(0, slash);
  if (const std::size_t at = rest.rfind('@'); at != std::string_view::npos) {
    const std::string_view who = rest.substr(0, at);
    const std::size_t colon = who.find(':');
    if (colon == std::string_view::npos || colon == 0) return malformed("USER:PASSWORD@ is broken");
    place.user = std::string(who.substr(0, colon));
    place.password = std::string(who.substr(colon + 1));
    rest.remove_prefix(at + 1);
  }
  TRY(endpoints, parse_endpoints(rest));
  place.endpoints = std::move(endpoints);
  if (id != id_text(cluster)) {
    return fail(Errc::invalid, "the map source is of cluster \"" + std::string(id) +
                                   "\", the key of cluster " + id_text(cluster));
  }
  place.text = std::string(scheme) + std::string(rest) + "/" + std::string(id);
  return place;
}

}  // namespace penstock
