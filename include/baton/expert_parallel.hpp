#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "baton/dispatch_input.hpp"
#include "baton/ep_membership.hpp"
#include "baton/ep_state.hpp"
#include "baton/numeric.hpp"
#include "baton/received_tokens.hpp"
#include "baton/token_format.hpp"
#include "baton/world.hpp"

namespace baton {

/// What travels between ranks, and what a rank receives it in.
enum class ep_layout {
  per_expert,  // a message for each token and expert, and a reply for each
  per_rank,    // a message for each token and rank, and one partial sum back: the default, and the faster one
};

/// How tokens and sums of layout per_rank travel; results are the same bits. per_expert knows one way.
enum class ep_transfer {
  automatic,  // chunks where num_max_tokens_per_rank is over 1024, a block of lines has no room for the routing, or some ranks
              // are beyond the p2p group; else lines
  lines,      // 128 bytes that carry their own flag: few tokens, low latency
  chunks,     // bulk copies of whole tokens, a flag for several: any number of tokens, few SMs
  flags,  // few tokens, as lines, but with nothing that PTX does not promise: words of 64 bits, a flag a round
};

/// How received tokens lie on a rank; results are the same bits. by_token is for layout per_rank: fewer bytes are written,
/// and in chunks tokens stay where they arrive, for products that find the rows they read (expert_mlp does).
enum class ep_rows {
  by_expert,  // once for each of a token's experts there: an expert's rows one after the other
  by_token,   // once: received_tokens::token_rows says where
};

/// How tokens of layout per_rank come to ranks beyond the p2p group, and sums back: where all ranks are in it, or each rank is a
/// group, the two are one.
enum class ep_levels {
  one,  // a put to each rank that has experts of a token, and a sum back from each
  /// A put to each other group that has: to the rank of the same place there, which forwards it by stores; and that group's sums
  /// back from there in one. Fewer bytes between groups, one rounding more.
  two
};

/// How the arrival words of layout per_expert tell rounds apart; per_rank has none.
enum class arrival_policy {
  epoch,     // the word is {epoch, check, count}; epochs only grow, nothing is ever reset
  sentinel,  // the word is 2^64-1 until {0, check, count} arrives; the reader puts 2^64-1 back
};

/// The most ranks that a communicator may have.
inline constexpr int most_ep_ranks = 32;
/// The most ranks of one p2p group (ep_config::p2p_group_size).
inline constexpr int most_ranks_of_p2p_group = 8;

/// What one communicator is built for. Every rank passes the same values; creation checks that.
struct ep_config {
  int num_experts = 0;              // 1 to 1024, at least one for each rank; need not divide by the ranks
  int top_k = 0;                    // 1 to 32
  int hidden = 0;                   // values in a token: a multiple of facts_of(format).multiple, up to 65536
  int num_max_tokens_per_rank = 0;  // 1 to 65536
  token_format format = token_format::bf16;
  /// How another rank's part of a token's result travels back: bf16, or blockwise_fp8 with layout per_rank, for half the bytes.
  /// hidden is a multiple of its facts_of(), too.
  token_format combine_format = token_format::bf16;
  arrival_policy arrival = arrival_policy::epoch;
  /// Ranks r with the same r / p2p_group_size reach each other's memory with stores; the others are reached by puts of what was
  /// written in memory of the rank's own. 0: the ranks of a host are one group (world::hosts); of several hosts of more than 8
  /// each, as many as divide them. Fewer than all: CPU worlds simulate the network between groups; GPUs need NVSHMEM, which is
  /// opened then, and a process for each. Layout per_rank travels in chunks then. Not tried on more than one machine. Results are
  /// the same bits, with levels one. Up to 8 of up to 32 ranks; with up to 8 ranks, any number.
  int p2p_group_size = 0;
  /// two: layout per_rank, groups of as many ranks each. The calls that wait forward, too: those of a rank wait for its
  /// forwarders'. What a group of several ranks makes of a token is rounded to combine_format twice: each part, and their sum.
  /// Where puts are stores, as between GPUs of one host, it only costs time.
  ep_levels levels = ep_levels::one;
  int num_sms = 0;  // blocks of a kernel, up to 1024; 0: all SMs (2 on the CPU). A call may take fewer
  int num_threads =
      0;  // threads of a block, a multiple of 32 up to 1024; 0: 1024 (64 on the CPU); layout per_rank:
          // 96 to 768 (in chunks at most 512 are used), and 0: as many as the tokens need, which
          // are up to 1024 in combine of two ranks, so that asking for fewer may cost time
  ep_layout layout = ep_layout::per_rank;
  ep_transfer transfer = ep_transfer::automatic;
  ep_rows rows = ep_rows::by_expert;
  bool tiled_scales =
      false;  // mxfp8, mxfp4, nvfp4 by_expert: received scales in tiles of 128x4, experts' rows from multiples of 128
  /// Experts' first rows are multiples of it: a power of two up to 128, and at least what the format asks for, which is 4 with
  /// blockwise_fp8, 128 with tiled_scales, else 1. 0: that.
  int row_alignment = 0;
  /// Each expert has so many rows of its own, one expert's behind the other's, whether they are used or not: expert e's begin at
  /// e * rows_of_expert, so that received tokens, and what combine takes, are [local experts, rows_of_expert, hidden]. At least
  /// ranks * num_max_tokens_per_rank, so that they always suffice, and a multiple of what row_alignment says. Layout per_rank,
  /// rows by_expert. 0: an expert's rows begin where those of the one before end.
  int rows_of_expert = 0;
  /// Layout per_rank, ranks of one p2p group: router weights are given to combine, or combine_async, in place of dispatch: a
  /// kernel more, before combine's, in which ranks tell each other. combine_async then waits for that of all ranks.
  bool weights_at_combine = false;
  int num_slots = 1;  // 1 to 8: rounds that may be in flight at the same time; each has memory of its own

  friend bool operator==(const ep_config&, const ep_config&) = default;
};

/// Empty if `config` can be served with `num_ranks` ranks; otherwise the first reason, with names and values.
std::string why_not(const ep_config& config, int num_ranks);

/// `config` as create() takes it, of ranks on these hosts (world::hosts). On one host: unchanged. On several: p2p_group_size 0
/// becomes the ranks of a host, which have to be as many on each, one host after the other.
/// @throws invalid_argument  they are not; a group that is asked for has ranks of two hosts; or no ranks
ep_config in_groups_by_host(const ep_config& config, std::span<const int> host_of_rank);

/// How tokens travel with layout per_rank in this configuration, one that why_not has nothing against: `transfer` if it says,
/// else what automatic means. @throws nothing
ep_transfer transfer_of(const ep_config& config, int num_ranks);

/// Bytes of device memory a communicator of this configuration takes on each rank: an exact, pure function.
///
/// window: the part its peers write into. local: everything else. With E expert slots (num_experts rounded up
/// to a multiple of num_ranks), T = num_max_tokens_per_rank, M = message bytes (payload, scales rounded up to 16, 16):
/// per_expert: window = E*T*M + T*top_k*hidden*2 + 16*E, and with ranks beyond the p2p group, for the send buffers, in whole 16
/// T*top_k*M + max_rows*hidden*2; local = the received tokens, offsets, source info and counters.
/// per_rank, R ranks, in lines: window = R*(2*T*1024*max(ceil(payload/P), ceil(top_k/8)) + T*512*ceil(hidden/C) +
/// 2*512*ceil(T*top_k/224)), P being 896, or 768 with mxfp4 and nvfp4, and C 240, or 384 with combine_format blockwise_fp8;
/// local = the same, what dispatch leaves for combine, and T*hidden*4. By flags window has
/// 2*256*ceil(T*top_k/124) for ids, and 16 bytes more for each rank, in whole 128; local is that of lines. In chunks:
/// window = R*(2*T*(payload + scales + weights, each in whole 16 bytes of whole pieces) + T*hidden*2, or with
/// combine_format blockwise_fp8 T*(hidden + hidden/32, in whole 16 bytes of whole parts), and with ranks beyond the p2p group
/// as much again, for sums on their way, + 2*512*ceil(T*top_k/224) and 24 bytes for each 4 tokens), local = as in lines, and what
/// finds rows: R*(T*top_k*2 + T/16*(E/R*9 + 8)). With levels two and several ranks in a group, for each group 16*T more of window
/// and T*(hidden*4 + 4) of local.
/// Received tokens by expert are max_rows rows of payload and scales, max_rows being about R*T*min(top_k, E/R). By token they
/// are R*T rows of payload, scales and weights in lines, none in chunks, which leave them in the window; and 4*max_rows. With
/// rows_of_expert max_rows is E/R times that. With weights_at_combine window has 8*R*T*top_k more, in whole 128.
/// That is one slot; num_slots of them take as often as much, each rounded up to 256 bytes, and then 128 bytes of window, or 8*R
/// of more than 16 ranks, and 64 of local. CUDA rounds window and local up to the GPU's unit of allocation, 2 MiB.
/// @throws invalid_argument  why_not(config, num_ranks)
struct workspace_size {
  std::size_t window = 0;
  std::size_t local = 0;
  std::size_t total() const { return window + local; }
};
workspace_size workspace_bytes(const ep_config& config, int num_ranks);

/// First global expert of `rank` and how many it owns: contiguous blocks, sizes differ by at most one.
/// @throws invalid_argument  num_experts is negative, or rank is not one of num_ranks
struct expert_range {
  int first = 0;
  int count = 0;
};
expert_range experts_of_rank(int num_experts, int num_ranks, int rank);

/// Expert-parallel token exchange between the ranks of a world: two kernels a round, or four where its calls are apart, and with
/// layout per_expert always.
///
/// One that was moved from throws invalid_argument.
///
/// A round is dispatch_async, dispatch_wait, combine_async, combine_wait, in this order, on every rank.
/// The *_async calls never wait for another rank (but combine_async does with weights_at_combine); the *_wait calls do. Several
/// ranks that share one thread or one GPU must therefore all enqueue their *_async call before any of them enqueues the matching
/// *_wait. With levels two forwarders forward in theirs: a rank's *_wait may also wait for that of others, which it must not keep
/// from being enqueued, or from running.
///
/// Order: everything happens on the caller's stream. No call allocates or synchronises; all can be captured
/// into a CUDA graph and replayed with new inputs in the same buffers.
///
/// Slots: a communicator has ep_config::num_slots rounds in flight at most, as two-batch overlap wants. Each call names its
/// slot, 0 unless it says, and goes on with that slot's round. Rounds of one slot come one after the other. Those of different
/// slots know nothing of each other: they have memory of their own, and their calls may come in any order on any streams, which
/// need not be the same on every rank, if no rank makes itself wait: on one stream nothing begins before what is there already
/// has ended, so calls that wait have to come in the same order on every rank. On several streams the kernels that may run at
/// the same time need SMs beside each other, and beside whatever else runs, on every rank's GPU. Else two ranks may each wait,
/// up to the deadline, for a kernel that the other has no room for: give each call its part (dispatch_input::num_sms).
///
/// Layers: nothing of a communicator belongs to a layer. Layers of the same sizes share one, as many as a model has: their
/// rounds come one after the other anyway, called or replayed. A layer with fewer experts or a smaller top-k pads its ids with
/// -1, which costs no bytes of tokens, and numbers its experts as experts_of_rank has the communicator's.
///
/// Failure: when synchronising throws stuck, every communicator of the world is lost; see there. Calls on it then
/// throw invalid_argument, but for set_members, with which some ranks or all of them go on where that can be called.
///
/// Damage: what ranks tell each other is checked before it is believed: counts against their check, the room and
/// what was sent, sources against their seal, the ids that layout per_rank sends against theirs. What does not fit is
/// refused: synchronising throws stuck, and names it.
/// Tokens, scales and replies carry no check: a bit that flips there is a wrong number. Nor, with layout per_rank, do router
/// weights, and what a rank notes for itself from one kernel to the next (rounds, counts, choices).
///
/// Determinism: row order, results and error reports depend on the inputs only, bit for bit. Results of layout per_expert do not
/// depend on how many ranks there are; with per_rank they do, as a rank's sum is rounded to combine_format before it travels; and
/// with levels two on which ranks are a group.
class expert_parallel {
 public:
  /// Collective over `world`: allocates and maps all memory.
  /// @throws invalid_argument  why_not(config, world.size()), in_groups_by_host, or the ranks passed different values (says
  /// which)
  /// @throws out_of_memory     with the bytes needed, the bytes free, and the setting that shrinks them
  /// @throws unsupported       layout per_rank, but for transfer flags, and a trial of some 10 ms, the first of a process on
  ///                           these GPUs, saw lines of 128 bytes arrive in parts, which it assumes not to happen: between
  ///                           whom; use flags or per_expert
  /// @throws unsupported       ranks of GPUs beyond the p2p group, and NVSHMEM or its module cannot be opened, is of another
  ///                           build or another set of processes, or ranks share a process: on all ranks, with what to do
  static expert_parallel create(const world& world, const ep_config& config);

  /// The same for all ranks of world::local at once, from one thread.
  static std::vector<expert_parallel> create_all(std::span<const world> worlds, const ep_config& config);

  expert_parallel(expert_parallel&&) noexcept;
  expert_parallel& operator=(expert_parallel&&) noexcept;
  ~expert_parallel();

  /// Gives the physical memory back and keeps its addresses, as an engine does that sleeps: what workspace_bytes() counts is
  /// free on the devices once it returns. Until reacquire() every other call throws, what received_tokens point to is gone, and a
  /// graph with calls on this communicator must not be replayed: on a GPU nothing lies at its addresses.
  ///
  /// Collective over ranks(); those of world::local that share a thread call it in on_every_rank. Waits for all of this rank's
  /// work, on CUDA for its device; not while a stream captures.
  /// @throws invalid_argument  on all ranks: a round of some rank and slot is not over, or the memory is released already
  /// @throws stuck             work that was waited for was lost; it cannot be released then, only destroyed
  /// @throws unsupported       on CUDA with ranks beyond the p2p group, whose memory is of NVSHMEM's heap
  /// @throws transport_error   a rank did not come; the memory counts as released
  void release();

  /// Memory at the same addresses again, so that graphs that were captured before release() are right again. Rounds begin anew
  /// on every rank: nothing that was received is there; members() are as they were. Collective, as release(). Costs what create()
  /// does.
  /// @throws out_of_memory     on all ranks, as create(); the memory stays released, and this can be called again
  /// @throws transport_error   a rank did not come, and how long it was waited for; the memory stays released
  /// @throws invalid_argument  the memory is there
  void reacquire();

  /// Goes on without some ranks, or with them again, in the same memory: rounds after this are those of members.active_ranks, and
  /// graphs that were captured before stay right. Nothing is sent to the others and nothing of them awaited; choices of their
  /// experts count as -1, so that a token's sum lacks them (active_replicas names those that are elsewhere). For when
  /// synchronising has thrown stuck and named a rank that died or is too late, or to leave a rank out for a while.
  ///
  /// Collective over members.active_ranks, this rank among them: they meet through their windows and do not ask the others, who
  /// may be dead. All give the same members; members.epoch is any number greater than that of every member until now, by which
  /// they know each other: whoever was left out hears it from them before it calls this to come back. Whatever rounds are under
  /// way on these ranks are dropped, in all slots, and rounds begin anew. A process that ended does not come back so: it has
  /// another memory, and needs a communicator that all create. release() and reacquire() stay collective over all ranks, absent
  /// ones too: with a dead one there is no release().
  ///
  /// Layout per_rank only, with all ranks in one p2p group. On CUDA it waits for all work of the device, on the CPU what the rank
  /// has queued is dropped, of other communicators too, which are lost then; not while a stream captures. Costs the time that it
  /// takes to zero workspace_bytes(). Where a member did not come, or was given something else, only set_members can be called,
  /// with a greater epoch.
  /// @throws invalid_argument  members.epoch is not greater, active_ranks are none of this world or without this rank, the
  ///                           layout is per_expert, or some ranks are beyond the p2p group; or the members were given
  ///                           different values: says who was given what
  /// @throws stuck             a member did not come, or with a smaller epoch: which
  void set_members(const ep_membership& members);
  ep_membership members() const;

  /// Sends each token to the ranks of its experts; dispatch_input says what is given, and what is legal there.
  ///
  /// A token that lists an expert twice is sent twice. At most num_max_tokens_per_rank copies go from one rank to one expert;
  /// later ones, which only repeated ids can cause, are not sent and count as -1. (With layout per_rank such a token has one
  /// row, which counts with both weights.)
  ///
  /// Cost: reads num_tokens*hidden*2 bytes, writes num_tokens*top_k messages; with layout per_rank one for each rank
  /// that has an expert of the token.
  /// @throws invalid_argument  num_tokens or slot out of range, a null or misaligned pointer, or a round out of order
  void dispatch_async(const dispatch_input& in, stream_ref stream = {});

  /// dispatch_async and dispatch_wait; with layout per_rank in one kernel. Ranks that share one thread may call it one
  /// after the other, but not ranks whose work shares one stream, or one GPU with its default streams: theirs has to be apart.
  received_tokens dispatch(const dispatch_input& in, stream_ref stream = {});

  /// The same without names, in slot 0.
  void dispatch_async(const bfloat16* tokens, topk_ids topk_idx, int num_tokens, stream_ref stream = {},
                      const float* input_scales = nullptr) {
    dispatch_async(tokens, topk_idx, nullptr, num_tokens, stream, input_scales);
  }
  void dispatch_async(const bfloat16* tokens, topk_ids topk_idx, const float* topk_weights, int num_tokens,
                      stream_ref stream = {}, const float* input_scales = nullptr) {
    dispatch_async({.tokens = tokens,
                    .topk_idx = topk_idx,
                    .topk_weights = topk_weights,
                    .num_tokens = num_tokens,
                    .input_scales = input_scales},
                   stream);
  }
  received_tokens dispatch(const bfloat16* tokens, topk_ids topk_idx, const float* topk_weights,
                           int num_tokens, stream_ref stream = {}, const float* input_scales = nullptr) {
    return dispatch({.tokens = tokens,
                     .topk_idx = topk_idx,
                     .topk_weights = topk_weights,
                     .num_tokens = num_tokens,
                     .input_scales = input_scales},
                    stream);
  }

  /// Waits for all ranks' dispatch_async, with levels two also for the dispatch_wait of its group's ranks, which forward to it,
  /// and lays the received tokens out by expert. `tokens` and `sources` past the received rows, and the padding between experts
  /// (see ep_config::row_alignment), are unspecified; row_counts tells what is valid.
  received_tokens dispatch_wait(stream_ref stream = {}, int slot = 0);

  /// What the slot's dispatch_wait returns, but for tensor_scale, before it is called: for who has to know beforehand how much
  /// may come and how it lies. Always the same; enqueues nothing.
  /// @throws invalid_argument  slot out of range
  received_tokens room(int slot = 0) const;

  /// Sends expert outputs back to the ranks of their tokens. combine_wait takes as many SMs, and adds the shared_output that was
  /// given here. With weights_at_combine it waits for all ranks' combine_async, whose weights it needs: not for ranks whose work
  /// shares one stream, or one GPU with its default streams.
  void combine_async(const combine_input& in, stream_ref stream = {});
  void combine_async(const bfloat16* expert_output, stream_ref stream = {}) {
    combine_async({.expert_output = expert_output}, stream);
  }

  /// Waits for all ranks' combine_async, with levels two also for the combine_wait of its forwarders, the ranks of its place in
  /// other groups; then `out[t, :] = sum over k of topk_weights[t, k] * y[t, k, :]`, where y is the output of the token's k-th
  /// expert and zero where topk_idx was -1. Layout per_expert accumulates in fp32 with fused multiply-adds, k ascending, per_rank
  /// as combine() says; `out` is fp32 or bf16 (rounded once). The weights are those that dispatch was given, or combine_async,
  /// and then, and with per_rank always, `topk_weights` is null here; without any, every weight is 1. The shared_output of
  /// combine_async comes last, as combine() says.
  void combine_wait(const float* topk_weights, float* out, stream_ref stream = {}, int slot = 0);
  void combine_wait(const float* topk_weights, bfloat16* out, stream_ref stream = {}, int slot = 0);

  /// combine_async and combine_wait, with the weights that dispatch was given; with layout per_rank in one kernel:
  /// out[t, :] = sum over ranks r, ascending, of p_r[t, :], where p_r = sum over the choices k of t on r, ascending, of
  /// weight * y[t, k, :] in fp32, rounded to combine_format if r is another rank (with scales: each value * its scale, in fp32).
  /// With levels two that is so of the own group. Another group is one summand, at the place of its forwarder among the ranks:
  /// the sum of p_r over its ranks r, ascending, in fp32, in which the forwarder's own p_r is not rounded; and then that sum is,
  /// to combine_format.
  ///
  /// With a shared_output, in every layout and form: out[t, :] = that sum + shared_output[t, :], one more addition in fp32, the
  /// last one before `out` is rounded.
  void combine(const combine_input& in, float* out, stream_ref stream = {});
  void combine(const combine_input& in, bfloat16* out, stream_ref stream = {});
  void combine(const bfloat16* expert_output, float* out, stream_ref stream = {}) {
    combine(combine_input{.expert_output = expert_output}, out, stream);
  }
  void combine(const bfloat16* expert_output, bfloat16* out, stream_ref stream = {}) {
    combine(combine_input{.expert_output = expert_output}, out, stream);
  }

  /// The unreduced form, with layout per_expert only: out[t, k, :] = y[t, k, :], bf16; zeros where topk_idx was -1.
  /// @throws invalid_argument  combine_async was given a shared_output: it is added to sums, and here there are none. The round
  ///                           goes on with combine_wait
  void combine_wait_unreduced(bfloat16* out, stream_ref stream = {}, int slot = 0);

  /// Reports what the kernels found since the last check. Call after the stream has been synchronised.
  /// @throws device_error  an expert id was out of range: the first bad token and its value
  void check();

  /// What this rank's kernels are doing and what they lack, for when a round hangs, or seems to: `to_text(moe.dump_state())`.
  ///
  /// Any thread may call it while another is in one of the calls above or in synchronize, as long as the communicator lives. It
  /// enqueues nothing on streams of the caller and waits for none: memory is copied on a stream of its own while kernels run, so
  /// that words may be of different moments. On the CPU it waits until whoever runs work has nothing to do, as in a hang. Not
  /// while a stream is being captured in global mode. Cost: copies some 100 KB from the device; nothing to rounds.
  ep_state dump_state() const;

  const ep_config& config() const;
  const world& ranks() const;
  expert_range local_experts() const;

 private:
  struct state;
  explicit expert_parallel(std::unique_ptr<state> s);
  std::unique_ptr<state> state_;
};

}  // namespace baton
