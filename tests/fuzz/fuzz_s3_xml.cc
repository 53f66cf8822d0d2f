// Arbitrary bytes as each document that a request may carry, and as text in an answer. What is read
// must keep its bounds; what is written must be read back by an XML parser.
#include <cstdlib>
#include <pugixml.hpp>
#include <string>
#include <string_view>

#include "gateway/s3/s3_xml.h"
#include "gateway/s3/s3_xml_input.h"
#include "penstock/limits.h"

namespace {
using namespace penstock;

void require(bool claim) {
  if (!claim) std::abort();
}

void read_documents(std::string_view bytes) {
  if (const auto parts = parse_complete(std::string(bytes))) {
    require(!parts->empty() && parts->size() <= limits::kPartsMax);
    for (const auto& part : *parts) {
      require(part.number >= 1 && part.number <= limits::kPartsMax && !part.etag.empty());
      require(part.checksum.raw.size() == checksum_bytes(part.checksum.algorithm));
    }
  }
  if (const auto input = parse_delete(std::string(bytes))) {
    require(!input->objects.empty() && input->objects.size() <= limits::kDeleteObjectsMax);
    for (const auto& object : input->objects) require(!object.key.empty());
  }
  (void)static_cast<bool>(parse_bucket_configuration(std::string(bytes)));
}

// One text, one element: nothing in it may open another.
void write_text(std::string_view bytes) {
  XmlWriter xml;
  xml.open_root("R");
  xml.element("Key", bytes);
  xml.close("R");
  const std::string text = xml.take();
  pugi::xml_document document;
  require(document.load_buffer(text.data(), text.size(), pugi::parse_default, pugi::encoding_utf8));
  const auto root = document.document_element();
  require(!root.next_sibling() && root.first_child() == root.last_child());
  require(root.first_child().first_child() == root.first_child().last_child());
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_documents(bytes);
  write_text(bytes);
  return 0;
}
