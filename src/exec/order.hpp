#pragma once
// The vocabulary of the seam: memory orders, scopes, sites and the record of a wait that never ended.
#include <cstdint>

namespace baton {

/// Memory order of an atomic access or a fence, as PTX and C++ mean it. There is no sequential consistency:
/// no protocol here needs it.
enum class order : std::uint8_t { relaxed, acquire, release, acq_rel };

/// Who an ordered access is ordered against: the block, the blocks of its cluster, one device (all blocks of one rank), or all
/// ranks. Each includes those before it.
enum class scope : std::uint8_t { block, cluster, device, system };

/// Every place in the library where somebody waits. Named in stuck records, traces and the checker.
enum class site : std::uint16_t {
  none,
  dispatch_arrival,        // dispatch_wait: arrival words of the peers' dispatch_async
  dispatch_offsets_ready,  // dispatch_wait: row offsets computed by block 0
  combine_arrival,         // combine_wait: arrival words of the peers' combine_async
  combine_ready,           // combine_wait: block 0 saw all arrivals
  probe_flag,              // doctor: flag ping-pong
  ring_slot_free,          // ring buffer: a producer, for the readers of the lap before
  ring_slot_filled,        // ring buffer: a reader, for the fill
  ring_gemm_a_free,        // ring_gemm: an A producer
  ring_gemm_a_filled,      // ring_gemm: a consumer, for A
  ring_gemm_b_free,        // ring_gemm: a B producer
  ring_gemm_b_filled,      // ring_gemm: a consumer, for B
  attention_slot_filled,   // pair attention: tensor-core issuer, for a K or V slot
  attention_slot_free,     // pair attention: loader, for a K or V slot
  attention_s_ready,       // pair attention: softmax, for scores
  attention_s_free,        // pair attention: tensor-core issuer, for a score buffer
  attention_p_ready,       // pair attention: tensor-core issuer, for weights and a rescaled output
  attention_p_free,        // pair attention: softmax, for the weight buffer
  attention_factor_ready,  // pair attention: correction, for the factors
  attention_factor_free,   // pair attention: softmax, for the place of the factors
  attention_o_ready,       // pair attention: correction, for an output half
  attention_o_final,       // pair attention: epilogue, for the last output
  attention_issued,        // pair attention without data: the modelled tensor core, for work
  test,                    // protocols of tests and examples
};

constexpr const char* name(site s) {
  switch (s) {
    case site::dispatch_arrival:
      return "dispatch.arrival";
    case site::dispatch_offsets_ready:
      return "dispatch.offsets_ready";
    case site::combine_arrival:
      return "combine.arrival";
    case site::combine_ready:
      return "combine.ready";
    case site::probe_flag:
      return "probe.flag";
    case site::attention_slot_filled:
      return "attention.slot_filled";
    case site::attention_slot_free:
      return "attention.slot_free";
    case site::attention_s_ready:
      return "attention.s_ready";
    case site::attention_s_free:
      return "attention.s_free";
    case site::attention_p_ready:
      return "attention.p_ready";
    case site::attention_p_free:
      return "attention.p_free";
    case site::attention_factor_ready:
      return "attention.factor_ready";
    case site::attention_factor_free:
      return "attention.factor_free";
    case site::attention_o_ready:
      return "attention.o_ready";
    case site::attention_o_final:
      return "attention.o_final";
    case site::attention_issued:
      return "attention.issued";
    case site::ring_slot_free:
      return "ring.slot_free";
    case site::ring_slot_filled:
      return "ring.slot_filled";
    case site::ring_gemm_a_free:
      return "ring_gemm.a_free";
    case site::ring_gemm_a_filled:
      return "ring_gemm.a_filled";
    case site::ring_gemm_b_free:
      return "ring_gemm.b_free";
    case site::ring_gemm_b_filled:
      return "ring_gemm.b_filled";
    case site::test:
      return "test";
    default:
      return "none";
  }
}

/// What a waiting warp knows about its wait; goes into the record if the wait never ends.
struct wait_site {
  site where = site::none;
  std::int32_t peer = -1;      // the rank that should have acted; -1: another block of this rank
  std::uint32_t epoch = 0;     // the round it waits in
  std::uint64_t expected = 0;  // the value that would have ended the wait
  std::uint32_t patience =
      1;  // deadlines to wait: 2 where the cause is another block's wait, which should report
  std::int32_t peer_modulus = 0;  // > 0: lane l waits for rank (peer + l) % peer_modulus
};

/// The rank that `lane` waits for.
constexpr std::int32_t peer_of(const wait_site& at, int lane) {
  return at.peer_modulus > 0 ? (at.peer + lane) % at.peer_modulus : at.peer;
}

/// Written to host-mapped memory by the first wait of a rank that outlives its deadline; 64 bytes, claimed by
/// compare-and-swap on `claimed`. The host turns it into baton::stuck.
struct alignas(64) stuck_record {
  std::uint32_t claimed;
  std::uint32_t complete;  // set last: the other fields are valid
  std::int32_t rank;
  std::uint32_t block;
  std::uint32_t warp;
  std::uint32_t where;  // a site
  std::int32_t peer;
  std::uint32_t epoch;
  std::uint64_t expected;
  std::uint64_t seen;
  std::uint64_t waited_ns;
  std::uint64_t lane;
};
static_assert(sizeof(stuck_record) == 64);

/// How long a wait may last and where it reports. Passed to kernels by value.
struct wait_limits {
  std::uint64_t deadline_ns = 30'000'000'000;  // 0: no deadline
  std::uint32_t* abort = nullptr;              // device memory; nonzero: every wait of this rank returns
  stuck_record* record = nullptr;              // host-mapped memory
};

}  // namespace baton
