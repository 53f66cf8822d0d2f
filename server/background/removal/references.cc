#include "server/background/removal/references.h"

#include "penstock/planted.h"

namespace penstock {

void add_references(const BlobRef& blob, References& references) {
  for (std::uint32_t slot = 0; slot < blob.locations.size(); ++slot) {
    const VolumeId volume = blob.locations[slot].volume;
    if (volume.value != 0) references.emplace(volume, blob.fragment(slot));
  }
}

Task<References> references_of(BackgroundContext& context, Snapshot object, Deadline deadline) {
  References references;
  if (!object.live()) co_return references;
  CO_TRY(blobs, blobs_of(*object.value));
  for (const BlobRef& blob : blobs) add_references(blob, references);
  if (object.kind() != ValueKind::object) co_return references;
  CO_TRY(record, object_record(*object.value));
  if (record.manifest.empty() || !holds(Rule::sweep_manifest)) co_return references;
  CO_TRY(parts, co_await context.objects.parts(record, deadline));
  for (const PartInfo& part : parts) {
    if (part.blob) add_references(*part.blob, references);
  }
  co_return references;
}

Task<bool> upload_has_ended(BackgroundContext& context, const FragmentOwner& owner,
                            Deadline deadline) {
  if (owner.upload_id.empty()) co_return true;
  const RegisterRef ref = upload_of(owner);
  CO_TRY(upload, co_await context.proposer.read(ref, ReadWant::value, deadline));
  const ValueKind kind = upload.kind();
  co_return !upload.live() || kind == ValueKind::upload_done || kind == ValueKind::upload_aborted;
}

}  // namespace penstock
