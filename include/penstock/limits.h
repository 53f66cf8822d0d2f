// Every bound of the product, with unit and reason. A queue, body, list, retry or cache without an
// entry here is a defect.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace penstock::limits {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;
inline constexpr std::uint64_t kTiB = 1024 * kGiB;

// ---- S3 (Amazon S3 User Guide, "Multipart upload limits", "Object key naming")
inline constexpr std::uint64_t kObjectBytesMax = 5 * kTiB;
inline constexpr std::uint64_t kPutBytesMax = 5 * kGiB;   // one PUT and one part
inline constexpr std::uint64_t kPartBytesMin = 5 * kMiB;  // all parts but the last
inline constexpr std::uint32_t kPartsMax = 10'000;
inline constexpr std::size_t kKeyBytesMax = 1024;
inline constexpr std::size_t kUserMetadataBytesMax = 2048;
// Of a request that makes an object or an upload: names, values, and four bytes a field. A record
// holds them twice while its upload is completed.
inline constexpr std::size_t kHeaderSectionBytesMax = 8 * kKiB;
inline constexpr std::size_t kConditionBytesMax = 64;  // an ETag in a condition: 32 digits, "-N"
inline constexpr std::size_t kErrorEchoBytesMax =
    4 * kKiB;  // of a request's own text in an error's answer
inline constexpr std::size_t kDeleteObjectsMax = 1000;
inline constexpr std::size_t kListPageMax = 1000;
inline constexpr std::size_t kXmlBytesMax =
    4 * kMiB;  // 10,000 parts with checksums, 1,000 escaped keys

// ---- HTTP
inline constexpr std::size_t kHeaderBytesMax =
    32 * kKiB;  // a presigned URL of a 1 KiB key escaped thrice + 2 KiB metadata
inline constexpr std::size_t kHeaderFieldsMax = 200;
inline constexpr std::size_t kQueryParametersMax =
    200;  // a link has a header in each, and each is some 100 bytes in memory
inline constexpr std::size_t kConnectionsMax = 10'000;
inline constexpr std::chrono::seconds kHeaderTimeout{30};
inline constexpr std::chrono::seconds kFirstByteTimeout{10};  // of a new connection
inline constexpr std::chrono::seconds kIdleTimeout{75};  // clients assume >= 60 s of keep-alive
inline constexpr std::chrono::seconds kIdleHolds{1};     // then a connection gives its buffers back
inline constexpr std::uint64_t kBodyBytesPerSecondMin =
    64 * kKiB;  // slower than this for 30 s: RequestTimeout
inline constexpr std::chrono::seconds kBodyStall{30};
inline constexpr std::chrono::minutes kReaderPause{
    10};  // a peer that takes no byte for so long is gone; epochs and checkpoints take minutes
inline constexpr std::chrono::minutes kDocumentPause{2};  // likewise; its answer is held in memory
inline constexpr std::chrono::seconds kReaderStalled{
    1};  // then what was fetched for it is given back, and fetched again when it reads on
inline constexpr std::chrono::seconds kPausedEvictable{
    60};  // a reader that paused so long may go, if the server has no other place for a new client
inline constexpr std::size_t kUnsentBytesMax =
    256 * kKiB;  // in the kernel: with less a connection takes more, with twice as much it does not
inline constexpr std::size_t kConnectionsOverMax =
    64;  // new ones while the idle ones that make room for them end, and again for refused ones
inline constexpr std::size_t kPeerAddresses = 4096;  // counters; addresses share one by their hash
inline constexpr std::size_t kEvictionLook = 64;     // that have just sent something, passed over
inline constexpr std::size_t kLingersMax = 1024;     // connections that linger at a time
inline constexpr std::chrono::seconds kLinger{
    5};  // reading on after a refusal, so that its answer arrives
inline constexpr std::size_t kDrainBytesMax =
    64 * kKiB;  // of a body nobody wanted, to keep its connection

inline constexpr std::size_t kChunkLineBytesMax =
    4 * kKiB;  // aws-chunked: a size line or a trailer
// Signed chunks only: a chunk is known to be genuine at its end, so that much is read in good
// faith. Unsigned ones (the CRT sends a whole part as one) are bounded by the announced length.
inline constexpr std::uint64_t kSignedChunkBytesMax = 16 * kMiB;

// ---- layout
inline constexpr std::size_t kBlockBytes = 16 * kKiB;  // the checksummed piece
inline constexpr std::size_t kColumnBytes =
    64 * kKiB;  // (k+m) columns stay in L2 while they are encoded
inline constexpr std::size_t kPieceBytes =
    512 * kKiB;  // one disk write, one send: a step of every stream of bytes
inline constexpr std::size_t kFragmentsPerStripeMax = 32;
inline constexpr std::size_t kInlineBytesMax = 4 * kKiB;        // beside the record
inline constexpr std::size_t kReplicatedBytesMax = 128 * kKiB;  // k = 1 up to here
inline constexpr std::size_t kExtentBytesMax =
    16 * kMiB;  // larger fragments are files of their own
inline constexpr std::size_t kSegmentBytes = 256 * kMiB;
static_assert(kPieceBytes % kColumnBytes == 0 && kColumnBytes % kBlockBytes == 0);

// ---- registers
inline constexpr std::size_t kReplicasMax = 7;
inline constexpr std::size_t kChainMax = 8;           // predecessors whose op-ids a value carries
inline constexpr std::size_t kPartsInRecordMax = 32;  // more go to a manifest
inline constexpr std::size_t kManifestPageEntries = 512;
inline constexpr std::size_t kValueBytesMax = 64 * kKiB;  // one encoded register value
inline constexpr std::size_t kScanRowsMax = 65'536;       // rows looked at per page of a LIST
inline constexpr std::chrono::seconds kCeilingStep{10};   // R4
inline constexpr std::chrono::minutes kFutureBound{5};    // R2
inline constexpr std::chrono::milliseconds kRegisterCall{250};
inline constexpr std::chrono::milliseconds kReadPatience{
    20};  // R6 (b): after a majority has answered
inline constexpr std::chrono::seconds kOperationDeadline{30};
inline constexpr std::chrono::milliseconds kFastCondition{50};
inline constexpr std::size_t kStragglersPerVolume = 1024;
inline constexpr std::size_t kStragglerBytesPerVolume = 16 * kMiB;
inline constexpr std::size_t kKeyQueueMax = 1024;  // updates of one key that wait in this process
inline constexpr std::size_t kVolumeQueueMax = 4096;  // register calls waiting on one volume

// ---- names, lists, multipart
inline constexpr std::chrono::seconds kBucketCacheAge{
    1};  // positive answers; volumes check the number
inline constexpr std::size_t kBucketCacheEntries = 2'000;       // of a thread
inline constexpr std::chrono::seconds kBucketDeletingWait{30};  // then busy
inline constexpr std::chrono::seconds kBucketTakeover{2};  // then its deleter is taken for dead
inline constexpr std::chrono::seconds kScanCall{5};        // one scan: it may pass 64k tombstones
// Lists that a process makes at a time: each holds the answers of all replicas, and a few keep all
// processors busy. The others wait for their turn as for memory.
inline constexpr std::size_t kListsAtOnce = 16;
inline constexpr std::size_t kScanBatchMax = 8192;       // rows asked of one replica at once
inline constexpr std::size_t kReplyBytesMax = 4 * kMiB;  // of rows in one answer of a volume; its
                                                         // last row may pass that
// Beside one accept, as they are stored: with a key each. An abort frees 10,000 parts; with the
// longest keys a third of them finds room, the others are the sweep's.
inline constexpr std::size_t kHintsPerAcceptMax = 2 * kPartsMax;
inline constexpr std::size_t kHintBytesPerAcceptMax = 4 * kMiB;
inline constexpr std::size_t kManifestPagesCached = 64;  // about 10 MiB of decoded parts
inline constexpr std::chrono::minutes kHintDelay{15};  // grace for readers of what an update frees

// ---- failure detector
inline constexpr int kSuspectAfterFailures = 2;
inline constexpr std::chrono::seconds kNoProgress{2};
// Disks stall for a second or two, and all volumes of one disk together. Who gives up meanwhile on
// volumes without which it cannot go on gains nothing: so long they are waited for.
inline constexpr std::chrono::seconds kStallPatience{5};
inline constexpr std::chrono::seconds kProbeEvery{1};

// ---- disks that hang
inline constexpr std::chrono::seconds kDiskCallMax{
    10};  // a volume with an older call is closed: drives give up a sector after 7 s or less
inline constexpr std::chrono::milliseconds kDiskLook{200};  // how often the calls are looked at
inline constexpr std::chrono::milliseconds kDiskLate{
    500};  // with an older call, no I/O thread reads from the page cache of the volume
inline constexpr std::size_t kDiskCallsWatched = 64;   // of one volume; it has fewer threads
inline constexpr std::chrono::seconds kStopDrain{20};  // what requests may take after SIGTERM
inline constexpr std::chrono::seconds kStopMax{28};  // then the process ends; orchestrators wait 30

// ---- descriptors
// Connections over the bound and turned away (64 each), the admin port's (80), listeners, logs,
// epoll.
inline constexpr std::size_t kDescriptorsSpare = 256;
inline constexpr std::size_t kDescriptorsServingMin = 128;  // for connections, or there is no start
inline constexpr std::size_t kDescriptorsPerVolumeMin = 32;
inline constexpr std::chrono::milliseconds kDescriptorRetry{
    1500};  // how long a call that needs one waits for it
inline constexpr std::chrono::seconds kDatabaseRetry{60};  // LevelDB waits; then it is logged

// ---- memory
inline constexpr std::size_t kMemoryDefault =
    512 * kMiB;  // of a process, if it has eight times that
inline constexpr std::size_t kMemoryMin = 128 * kMiB;
inline constexpr std::size_t kConnectionBytes =
    10 * kKiB;  // of a client, idle: 9 KiB were measured
inline constexpr std::size_t kMemoryBudgetBytes =
    512 * kMiB;  // bodies, documents and long heads of all requests together, if nobody says more
// What of it each kind of use has for itself, in sixteenths; the rest is for whoever comes first.
inline constexpr std::size_t kMemoryFloorWork = 1;  // repair, rebuilding, manifest pages
inline constexpr std::size_t kMemoryFloorReads = 3;
inline constexpr std::size_t kMemoryFloorWrites = 4;
inline constexpr std::size_t kMemoryFloorDocuments = 1;
inline constexpr std::size_t kAccountFactor = 4;  // an account holds at most so many times what is
                                                  // free: alone 4/5, and a fifth stays for others
inline constexpr std::size_t kBudgetAccounts = 2048;  // counters; accounts share one by their hash
// What a thread takes of the budget at a time, and of a small budget: one of so many parts.
inline constexpr std::size_t kMemoryStockBytes = 128 * kKiB;
inline constexpr std::size_t kMemoryStocks = 1024;
inline constexpr std::chrono::seconds kMemoryWait{2};            // of a request, then SlowDown
inline constexpr std::chrono::seconds kWriteMemoryWait{20};      // of an upload that has begun
inline constexpr std::chrono::milliseconds kMemoryLookMax{100};  // between two tries
inline constexpr std::size_t kSmallPieceBytes =
    64 * kKiB;  // a piece for a slow reader, and the first of an upload
inline constexpr std::size_t kInlineUploadBytes =
    32 * kKiB;  // what a small upload holds until its end: buffers, frames, the bytes themselves
inline constexpr std::size_t kFreeDocumentBytes = 16 * kKiB;  // smaller answers are not counted
inline constexpr std::size_t kReadHandlesPerVolume = 512;     // open fragment files kept

// ---- connections between processes
inline constexpr std::chrono::seconds kConnectTime{1};
inline constexpr std::chrono::seconds kHelloTime{2};       // all messages of it together
inline constexpr std::size_t kHelloBytesMax = 4 * kKiB;    // fields of one, before anybody is known
inline constexpr std::size_t kWelcomeBytesMax = 1 * kMiB;  // it lists the server's volumes
inline constexpr std::size_t kPeerConnectionsMax = 1536;   // of one server
inline constexpr std::size_t kPeerConnectionBytes = 64 * kKiB;  // of each while it is idle
inline constexpr std::chrono::milliseconds kReconnectMin{50};
inline constexpr std::chrono::milliseconds kReconnectMax{1000};
inline constexpr std::chrono::seconds kPeerStatusEvery{1};
inline constexpr std::chrono::seconds kClockLook{30};      // servers are asked for their time
inline constexpr std::chrono::seconds kClockLookAgain{3};  // where some have not answered
inline constexpr std::chrono::seconds kClockOff{60};       // then /readyz tells of it
inline constexpr std::size_t kPlacesMax =
    16'384;  // volumes of other servers whose address a process remembers, some 100 bytes each
inline constexpr std::size_t kAddressBytesMax = 256;
inline constexpr std::chrono::seconds kPeerSilence{
    5};  // with calls waiting: the connection is dead
inline constexpr std::chrono::seconds kPeerKeepAlive{10};
inline constexpr std::size_t kByteConnections = 2;  // of each I/O thread to each server, beside the
                                                    // one for small calls
inline constexpr std::size_t kCallsPerConnection = 1024;  // under way, at either end
// At the caller of requests that have not left, at the server of requests and short answers.
inline constexpr std::size_t kCallBytesPerConnection = 32 * kMiB;
// At the server, beside that: pieces of fragments that are read, and lists of rows.
inline constexpr std::size_t kAnswerBytesPerConnection = 32 * kMiB;
inline constexpr std::size_t kListBytesPerConnection = 32 * kMiB;
// Of that, one volume has one part of volumes + 1, and this at least: disks that hang leave room
// for their server's others.
inline constexpr std::size_t kVolumeCallsMin = 16;
inline constexpr std::size_t kVolumeCallBytesMin = 3 * kMiB;
inline constexpr std::size_t kVolumeListBytesMin = 3 * kReplyBytesMax;
// Pieces of fragments that a caller has sent and that are not answered. So much less than the
// server's bounds that its other calls have room there, too: no piece is refused.
inline constexpr std::size_t kSentPieceBytesPerConnection = 24 * kMiB;
inline constexpr std::size_t kSentPieceBytesPerVolume = 4 * kPieceBytes;
static_assert(kSentPieceBytesPerVolume < kVolumeCallBytesMin);
// What is answered at once, beside that: pings, the status, refusals.
inline constexpr std::size_t kAnswersAtOnce = 64;
inline constexpr std::size_t kAnswersAtOnceBytes = 1 * kMiB;  // the last one may pass it
inline constexpr std::size_t kTransfersPerConnection = 1024;  // fragments being written
inline constexpr std::size_t kFramesPerSend = 32;
inline constexpr std::chrono::seconds kCallPatienceMax{60};  // what a server believes of a caller

// ---- logs
inline constexpr std::size_t kAccessLogBytesMax = 4 * kMiB;  // lines that wait to be written
inline constexpr std::size_t kAccessLogFieldMax = 512;  // bytes of what a client says of itself

// ---- fragments
inline constexpr std::chrono::hours kFragmentLease{24};  // of the holder's boot clock (R10)
// What a start of a volume grants to all that was written before. Writers learn of the start within
// seconds, from their connections; a fragment that a replacement made is named within an hour.
inline constexpr std::chrono::hours kStartLease{2};
static_assert(kStartLease < kFragmentLease);
inline constexpr std::size_t kFragmentLeasesMax = 1'000'000;  // pins in memory, about 64 bytes each
inline constexpr std::size_t kFragmentReadsMax = 4096;  // reads of one volume waiting for a worker
inline constexpr std::size_t kFragmentListMax = 1000;   // entries of one step of a sweep
inline constexpr std::chrono::hours kLeaseFresh{12};    // what a writer trusts of a lease (R10)
inline constexpr std::chrono::minutes kReaderPinEvery{5};  // of a GET that takes so long
inline constexpr std::chrono::minutes kReaderPin{30};      // what the holder grants for one
inline constexpr int kFragmentWritesInFlight =
    2;  // pieces per writer: one on the disk, one behind it

// ---- background work
inline constexpr std::chrono::hours kHintGiveUp{24};        // after its due time a hint is dropped
inline constexpr std::chrono::minutes kHintTakeover{15};    // per volume of the group before this
inline constexpr std::chrono::hours kUploadExpiry{7 * 24};  // an upload left open is aborted
inline constexpr std::chrono::seconds kRollForwardAfter{60};  // no Complete lives so long behind
                                                              // its last step: operations end at 30
inline constexpr std::size_t kAttemptsNotedMax = 16'384;      // half-way Completes seen, in memory
inline constexpr std::chrono::hours kUploadKept{24};  // an ended one answers repeated Completes
inline constexpr std::chrono::minutes kTombstoneWait{10};    // R9: from its mark to its drop
inline constexpr std::size_t kTombstonesMarkedMax = 65'536;  // in memory, with their keys
inline constexpr std::size_t kHintRetriesMax = 65'536;       // hints in memory for another try
inline constexpr std::size_t kOrphansNotedMax = 262'144;  // fragments that a sweep waits for, about
                                                          // 80 bytes each

}  // namespace penstock::limits
