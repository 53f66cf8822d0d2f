// What a server announces, as etcd keeps it: a small JSON object. Pure.
#pragma once
#include <string>
#include <string_view>

#include "server/map_source/map_source.h"

namespace penstock {

std::string encode_announcement(const Announcement& announcement);
// Unknown members are passed over: servers of another version announce more. Errors: corrupt.
Result<Announcement> decode_announcement(std::string_view text);

}  // namespace penstock
