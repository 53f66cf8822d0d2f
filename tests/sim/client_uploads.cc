// What uploads show of themselves, and what they refuse: ListParts and ListMultipartUploads page by
// page, a Complete that names a part as it was before, parts that come too late.
#include "tests/sim/client_uploads.h"

#include "penstock/limits.h"
#include "tests/sim/sim_client.h"

namespace penstock::sim {

// Nobody has begun to end it.
Awaitable<void> SimClient::look_at_upload(UploadPtr upload) {
  if (bucket_goes()) co_return;
  if (random_.chance(0.3)) co_await look_at_parts(upload);
  if (random_.chance(0.2)) co_await look_for_upload(upload, true);
  if (!upload->replaced.empty() && upload->certain && random_.chance(0.5)) {
    co_await complete_stale(upload);
  }
}

Awaitable<void> SimClient::look_at_parts(UploadPtr upload) {
  std::map<int, std::string> parts;
  std::string marker = "0";
  const std::string at_once = upload->etags.size() > limits::kPartsInRecordMax ? "7" : "1";
  for (int page = 0; page < 10; ++page) {
    Pairs query{{"uploadId", upload->id}, {"max-parts", at_once}, {"part-number-marker", marker}};
    auto asked = request("GET", upload->key, std::move(query));
    auto answer = co_await ask(std::move(asked));
    if (says_nothing("ListParts", answer)) co_return;
    if (answer->status != 200) {
      unexpected("ListParts of " + upload->key, *answer);
      co_return;
    }
    for (const std::string& part : xml_elements(answer->body, "Part")) {
      const std::string number = xml_element(part, "PartNumber");
      if (parts.emplace(std::stoi(number), xml_etag(part)).second) continue;
      history_.violation("ListParts shows part " + number + " twice");
    }
    if (xml_element(answer->body, "IsTruncated") != "true") break;
    marker = xml_element(answer->body, "NextPartNumberMarker");
  }
  for (std::size_t i = 0; i < upload->etags.size() && upload->certain; ++i) {
    const auto part = parts.find(static_cast<int>(i) + 1);
    if (part != parts.end() && part->second == upload->etags[i]) continue;
    history_.violation("ListParts of " + upload->key + " does not show part " +
                       std::to_string(i + 1) + " as it was acknowledged");
  }
}

Awaitable<void> SimClient::look_for_upload(UploadPtr upload, bool there) {
  std::string key, id;
  int shown = 0;
  for (int page = 0; page < 50; ++page) {
    Pairs query{{"uploads", ""}, {"prefix", "key"}, {"max-uploads", "1"}};
    if (!key.empty()) query.emplace_back("key-marker", key);
    if (!key.empty()) query.emplace_back("upload-id-marker", id);
    auto asked = request("GET", "", std::move(query));
    auto answer = co_await ask(std::move(asked));
    if (says_nothing("ListMultipartUploads", answer)) co_return;
    if (answer->status != 200) {
      if (!bucket_goes()) unexpected("ListMultipartUploads", *answer);
      co_return;
    }
    if (xml_element(answer->body, "UploadId") == upload->id) ++shown;
    if (xml_element(answer->body, "IsTruncated") != "true") break;
    std::string next = xml_element(answer->body, "NextKeyMarker");
    if (next < key) history_.violation("ListMultipartUploads is out of order at " + next);
    key = std::move(next);
    id = xml_element(answer->body, "NextUploadIdMarker");
  }
  if (shown == (there ? 1 : 0)) co_return;
  history_.violation("ListMultipartUploads shows an upload of " + upload->key + " " +
                     std::to_string(shown) + " times");
}

Awaitable<void> SimClient::complete_stale(UploadPtr upload) {
  auto asked = request("POST", upload->key, Pairs{{"uploadId", upload->id}});
  auto answer = co_await ask(std::move(asked), complete_body(named_part(1, upload->replaced)));
  if (says_nothing("Complete of " + upload->key, answer) || answer->is("InvalidPart")) co_return;
  unexpected("Complete of " + upload->key + " with a part that was replaced", *answer);
}

Awaitable<void> SimClient::send_late_part(UploadPtr upload) {
  Pairs query{{"partNumber", "9"}, {"uploadId", upload->id}};
  auto asked = request("PUT", upload->key, std::move(query));
  auto answer = co_await ask(std::move(asked), "late");
  if (!answer || answer->status != 200) co_return;
  history_.violation("an upload of " + upload->key + " that has ended takes a part");
}

}  // namespace penstock::sim
