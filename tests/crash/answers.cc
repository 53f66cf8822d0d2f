// How answers are read.
#include <cstdlib>
#include <optional>

#include "penstock/text_codec.h"
#include "tests/crash/client.h"

namespace penstock::crash {

std::string xml_element(const std::string& xml, const std::string& name) {
  const auto begin = xml.find("<" + name + ">");
  if (begin == std::string::npos) return {};
  const auto from = begin + name.size() + 2;
  return xml.substr(from, xml.find('<', from) - from);
}

std::string quoted_md5(const std::string& bytes) { return "\"" + sim::hex_md5(bytes) + "\""; }

std::string one_part_etag(const std::string& bytes) {
  const auto digest = penstock::md5(as_bytes(bytes));
  const std::string raw(reinterpret_cast<const char*>(digest.data()), digest.size());
  return "\"" + sim::hex_md5(raw) + "-1\"";
}

std::string completion_xml(const std::string& part_etag) {
  return "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + part_etag +
         "</ETag></Part></CompleteMultipartUpload>";
}

std::map<std::string, ListedObject> parse_list(const std::string& xml) {
  std::map<std::string, ListedObject> listed;
  for (auto at = xml.find("<Contents>"); at != std::string::npos;
       at = xml.find("<Contents>", at + 1)) {
    const auto entry = xml.substr(at, xml.find("</Contents>", at) - at);
    ListedObject object;
    object.etag = xml_element(entry, "ETag");
    for (auto quote = object.etag.find("&quot;"); quote != std::string::npos;
         quote = object.etag.find("&quot;")) {
      object.etag.replace(quote, 6, "\"");
    }
    object.size = std::strtoull(xml_element(entry, "Size").c_str(), nullptr, 10);
    listed[xml_element(entry, "Key")] = std::move(object);
  }
  return listed;
}

std::optional<Ledger::Value> value_shown(const Ledger& ledger, const Name& name,
                                         const Result<sim::SimGateway::Answer>& answer,
                                         std::string& why) {
  if (!answer) {
    why = "GET " + to_string(name) + ": the body ends early: " + answer.error().context;
    return std::nullopt;
  }
  std::string allowed;
  for (const Ledger::Value value : ledger.allowed(name)) {
    if (value == Ledger::kAbsent) {
      if (answer->status == 404) return value;
      allowed += " absent";
      continue;
    }
    const Content& content = ledger.content(value);
    allowed += " write " + std::to_string(value) + " of " + std::to_string(content.bytes.size());
    if (answer->status != 200 || answer->body != content.bytes) continue;
    if (answer->header("ETag") == content.etag) return value;
    allowed += " (ETag " + content.etag + ")";
  }
  why = "GET " + to_string(name) + " answered " + std::to_string(answer->status) + ", " +
        std::to_string(answer->body.size()) + " bytes, ETag " + answer->header("ETag") +
        (answer->status == 200 ? "" : ": " + answer->body) + "; allowed:" + allowed;
  return std::nullopt;
}

}  // namespace penstock::crash
