#include "gateway/s3/s3_xml_input.h"

#include <expat.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <pugixml.hpp>
#include <set>

#include "gateway/s3/http_text.h"
#include "penstock/limits.h"
#include "penstock/text_codec.h"

namespace penstock {
namespace {

S3Error malformed() { return s3_error(S3Code::MalformedXML); }

// What a document may hold, checked in one pass so that no parser allocates for a hostile one.
constexpr std::size_t kDepthMax = 8;
constexpr std::size_t kElementsMax = 8 * limits::kPartsMax;  // a part has at most eight elements
constexpr std::size_t kAttributesMax = 32;
constexpr std::size_t kBareAmpersandsMax = 10 * limits::kDeleteObjectsMax;
constexpr std::size_t kVersionIdBytesMax = 1024;  // S3's
const std::set<std::string_view> kDeleteFields{"Key", "VersionId", "ETag", "LastModifiedTime",
                                               "Size"};

class Guard {
 public:
  explicit Guard(std::string_view text) : text_(text) {}
  bool accepts() {
    if (text_.size() > limits::kXmlBytesMax || text_.find('\0') != std::string_view::npos) {
      return false;
    }
    for (at_ = text_.find('<'); at_ != std::string_view::npos; at_ = text_.find('<', at_)) {
      if (!step(text_.substr(at_))) return false;
    }
    return true;
  }

 private:
  bool step(std::string_view rest) {
    if (rest.starts_with("<!--")) return skip_past("-->", 4);
    if (rest.starts_with("<![CDATA[")) return skip_past("]]>", 9);
    if (rest.starts_with("<!")) return false;  // a DTD
    if (rest.starts_with("<?")) return skip_past("?>", 2);
    const auto end = rest.find('>');
    if (end == std::string_view::npos) return false;
    const std::string_view tag = rest.substr(0, end);
    at_ += end + 1;
    if (tag.starts_with("</")) {
      if (depth_ == 0) return false;
      --depth_;
      return true;
    }
    for (const char c : tag) attributes_ += c == '=' ? 1 : 0;
    if (++elements_ > kElementsMax || attributes_ > kAttributesMax) return false;
    if (!tag.ends_with('/')) ++depth_;
    return depth_ <= kDepthMax;
  }
  bool skip_past(std::string_view end, std::size_t head) {
    const auto found = text_.find(end, at_ + head);
    if (found == std::string_view::npos) return false;
    at_ = found + end.size();
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0, elements_ = 0, attributes_ = 0;
};

// Is there a reference ("&amp;", "&#10;") at `at`, where an ampersand stands?
bool is_reference(std::string_view text, std::size_t at) {
  constexpr std::size_t kReferenceMax = 12;
  const std::string_view rest = text.substr(at + 1, kReferenceMax);
  const auto end = rest.find(';');
  if (end == std::string_view::npos || end == 0) return false;
  return std::all_of(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(end), [](char c) {
    return c == '#' || std::isalnum(static_cast<unsigned char>(c)) != 0;
  });
}

// DuckDB writes keys as they are. An ampersand that begins no reference can only mean itself.
// nullopt: there are more of them than a document of real keys has. Each makes five bytes of one.
std::optional<std::string> with_bare_ampersands_escaped(std::string text) {
  if (text.find('&') == std::string::npos) return text;
  if (text.find("<![CDATA[") != std::string::npos) return text;  // there it means itself anyhow
  std::size_t left = kBareAmpersandsMax;
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 8);
  for (std::size_t at = 0; at < text.size(); ++at) {
    escaped += text[at];
    if (text[at] != '&' || is_reference(text, at)) continue;
    if (left-- == 0) return std::nullopt;
    escaped += "amp;";
  }
  return escaped;
}

// pugixml takes much that is no XML (stray ampersands, text beside the root, attributes twice):
// what was asked for must not be guessed. Guarded before: bounded, and without a DTD.
bool well_formed(std::string_view text) {
  using Parser = std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)>;
  const Parser parser(XML_ParserCreate("UTF-8"), &XML_ParserFree);
  return parser && XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), XML_TRUE) ==
                       XML_STATUS_OK;
}

std::string_view local_name(pugi::xml_node node) {
  const std::string_view name = node.name();
  const auto colon = name.find(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

std::string_view text_of(pugi::xml_node node) { return node.child_value(); }

std::string_view trim(std::string_view text) { return http_text::trim(text, " \t\r\n"); }

// The text owns the bytes of the tree: pugixml parses in place.
class Document {
 public:
  explicit Document(std::string text) : text_(std::move(text)) {}
  // The only root, if it is called `name`.
  std::optional<pugi::xml_node> root(std::string_view name) {
    const std::string_view bom = "\xEF\xBB\xBF";
    if (text_.starts_with(bom)) text_.erase(0, bom.size());
    if (!Guard(text_).accepts()) return std::nullopt;
    auto escaped = with_bare_ampersands_escaped(std::move(text_));
    if (!escaped) return std::nullopt;
    text_ = std::move(*escaped);
    if (!well_formed(text_)) return std::nullopt;
    constexpr unsigned kFlags =
        pugi::parse_escapes | pugi::parse_cdata | pugi::parse_eol | pugi::parse_ws_pcdata_single;
    if (!tree_.load_buffer_inplace(text_.data(), text_.size(), kFlags, pugi::encoding_utf8)) {
      return std::nullopt;
    }
    const auto found = tree_.document_element();
    if (local_name(found) != name || found.next_sibling() || found.previous_sibling()) {
      return std::nullopt;
    }
    return found;
  }

 private:
  std::string text_;
  pugi::xml_document tree_;
};

std::optional<unsigned> parse_part_number(std::string_view text) {
  unsigned number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// <ChecksumCRC32> … of a part. One is served; one of an algorithm that is not, and a second one,
// would be claims that nobody looks at.
S3Result<> take_checksum(CompletePart& part, std::string_view algorithm_name,
                         std::string_view value) {
  const auto algorithm = parse_checksum_algorithm(algorithm_name);
  if (!algorithm || part.checksum.algorithm != ChecksumAlgorithm::none) {
    return s3_error(S3Code::InvalidRequest,
                    "Expecting a single checksum of a part, of one of the algorithms [CRC32, "
                    "CRC32C, CRC64NVME, SHA1, SHA256].");
  }
  const auto raw = base64_decode(value);
  if (!raw || raw->size() != checksum_bytes(*algorithm)) return s3_error(S3Code::InvalidPart);
  part.checksum = {*algorithm, ChecksumType::full_object, *raw};
  return {};
}

S3Result<std::uint16_t> take_part_number(std::string_view text) {
  const auto number = parse_part_number(text);
  if (!number) return malformed();
  if (*number >= 1 && *number <= limits::kPartsMax) return static_cast<std::uint16_t>(*number);
  return s3_error(S3Code::InvalidArgument,
                  "PartNumber must be an integer between 1 and 10000, inclusive");
}

S3Result<CompletePart> parse_part(pugi::xml_node node) {
  constexpr std::string_view kChecksum = "Checksum";
  CompletePart part;
  for (const auto child : node.children()) {
    const std::string_view name = local_name(child);
    const std::string_view value = trim(text_of(child));
    if (name == "PartNumber") {
      if (part.number != 0) return malformed();
      TRY(number, take_part_number(value));
      part.number = number;
    } else if (name == "ETag") {
      if (!part.etag.empty()) return malformed();
      part.etag = std::string(bare_etag(value));
    } else if (name.starts_with(kChecksum) && !value.empty() && name != "ChecksumType") {
      CHECK_OK(take_checksum(part, name.substr(kChecksum.size()), value));
    }
  }
  if (part.number == 0 || part.etag.empty()) return malformed();
  return part;
}

}  // namespace

std::string_view bare_etag(std::string_view etag) {
  etag = trim(etag);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    etag.remove_prefix(1);
    etag.remove_suffix(1);
  }
  return etag;
}

S3Result<BucketConfigurationInput> parse_bucket_configuration(std::string body) {
  BucketConfigurationInput input;
  if (trim(body).empty()) return input;
  Document document(std::move(body));
  const auto root = document.root("CreateBucketConfiguration");
  if (!root) return malformed();
  for (const auto child : root->children()) {
    const std::string_view name = local_name(child);
    if (name == "LocationConstraint") {
      input.location = std::string(trim(text_of(child)));
    } else if (child.type() == pugi::node_element) {
      input.has_other = true;
    }
  }
  return input;
}

S3Result<DeleteInput> parse_delete(std::string body) {
  Document document(std::move(body));
  const auto root = document.root("Delete");
  if (!root) return malformed();
  DeleteInput input;
  for (const auto child : root->children()) {
    const std::string_view name = local_name(child);
    if (name == "Quiet") {
      const std::string_view quiet = trim(text_of(child));
      if (quiet != "true" && quiet != "false") return malformed();
      input.quiet = quiet == "true";
    }
    if (name != "Object") continue;
    if (input.objects.size() == limits::kDeleteObjectsMax) return malformed();
    DeleteInput::Object object;
    for (const auto field : child.children()) {
      const std::string_view field_name = local_name(field);
      const std::string_view value = text_of(field);
      // Text in several pieces (a comment between them) would name another key than was meant.
      if (field.first_child() != field.last_child()) return malformed();
      if (field_name == "Key") {
        if (!object.key.empty()) return malformed();  // one object, two names
        if (value.size() > limits::kKeyBytesMax) return s3_error(S3Code::KeyTooLongError);
        object.key = std::string(value);
      }
      if (field_name == "VersionId" && !value.empty()) {
        if (object.version_id || value.size() > kVersionIdBytesMax) return malformed();
        object.version_id = std::string(value);
      }
      if (field_name == "ETag") {
        if (object.etag) return malformed();  // two conditions on one object
        object.etag = std::string(trim(value));
      }
      object.other_condition |= field_name == "LastModifiedTime" || field_name == "Size";
      // What is not known here may be a condition, or one that is spelled wrong.
      if (!kDeleteFields.contains(field_name)) return malformed();
    }
    if (object.key.empty()) return malformed();
    input.objects.push_back(std::move(object));
  }
  if (input.objects.empty()) return malformed();
  return input;
}

S3Result<std::vector<CompletePart>> parse_complete(std::string body) {
  Document document(std::move(body));
  const auto root = document.root("CompleteMultipartUpload");
  if (!root) return malformed();
  std::vector<CompletePart> parts;
  for (const auto child : root->children()) {
    if (local_name(child) != "Part") continue;
    if (parts.size() == limits::kPartsMax) return malformed();
    auto part = parse_part(child);
    if (!part) return part.error();
    parts.push_back(std::move(part).value());
  }
  if (parts.empty()) return malformed();
  return parts;
}

}  // namespace penstock
