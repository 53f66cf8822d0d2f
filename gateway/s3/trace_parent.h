// The header `traceparent` of a client: which trace its request belongs to. Pure.
// Source: W3C Trace Context, 3.2.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "gateway/s3/request.h"

namespace penstock {

// The trace id, high half first. nullopt: the value keeps not to the rules, which is the same as no
// header. Of versions to come only what is there today is read.
std::optional<std::array<std::uint64_t, 2>> parse_trace_parent(std::string_view value);

// Of a request; zeros: it has none, a wrong one, or more than one.
std::array<std::uint64_t, 2> trace_of(const S3Request& request);

}  // namespace penstock
