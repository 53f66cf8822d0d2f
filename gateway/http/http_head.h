// The head of one request as views into the connection's buffer: no copies, no maps.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "gateway/http/http_guard.h"

namespace penstock {

struct HttpField {
  std::string_view name;   // as sent
  std::string_view value;  // without the blanks around it
};

struct HttpHead {
  std::string_view method;
  std::string_view target;  // origin form ("/path?query") or "*"; the host of an absolute form is
                            // dropped, it equals Host
  bool http_1_0 = false;
  bool keep_alive = false;  // what the client wishes
  HeadFraming framing;
  std::vector<HttpField> fields;  // in order; at most limits::kHeaderFieldsMax

  // The first of that name (given in lower case); nullopt if absent.
  std::optional<std::string_view> field(std::string_view lower_name) const;
};

// Parses what check_head() let through and fills `head`, whose views point into `bytes`. Reuses the
// memory of `head.fields`. False: the parser refuses it or reads the framing differently than the
// guard; answer 400 and close.
bool parse_head(std::string_view bytes, const HeadFraming& framing, HttpHead& head);

}  // namespace penstock
