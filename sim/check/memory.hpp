#pragma once
// The memory model: what an atomic access may see, what it orders, and which accesses race.
//
//   message     one store to an atomic word; a word's messages in modification order are its history
//   load        may return any message that coherence allows: not older than one that happens before it,
//               or that an access which happens before it has read
//   edge        from a release (or a fence before a store) to an acquire (or a load before a fence) that reads
//               its message, directly or through a chain of read-modify-writes, if each can hear the other at
//               its scope (PTX: morally strong)
//   race        two accesses to the same 4 bytes, one a write, one plain, neither before the other; or two
//               atomic ones that are outside each other's scope
//
//   store       must know of the store that it replaces, or of a read of it, unless it is a read-modify-write: so
//               modification order is the same in every schedule that shows the same values
//   garbage     is in a block's shared memory when a kernel begins, and wherever the copy engine takes it; no warp may read it
//
//   count       count_to tells only whether the target was reached. Counts short of it learn nothing, so they commute;
//               the one that reaches it learns what all of the round release
//   line        128 bytes that are one word: its value is the number of a version, whose bytes are kept beside it. Lines
//               release and acquire nothing
//   phase       an mbarrier's history holds completed phases only. A phase carries what all its arrivals release;
//               an arrival has to know of all arrivals of the phase before, so that arrivals commute
//   lane        what it did is there for the warp's others after sync_warp, and for other warps after a release of its own
//               or one that comes after sync_warp
//   proxy       what a warp wrote plainly, or another block's copy, is there for the copy engine once a proxy fence lies between
//               them
//   met         who meets others without order hears of inits of mbarriers alone, and of those that their own thread has fenced
//   counted     store_counted is a participant of its own, which knows what its lane knew. Its count releases what it stored,
//               and tells that what the lane had heard of is over; engines see it past a proxy fence only
//   over        what is over may be written over, or arrived at again; that it may be read is not said. An arrival at block
//               scope in another block tells that what its warp read, arrived at or has heard of is over, and nothing of what
//               it wrote; any arrival tells of what its warp has heard of
//
// Modification order is execution order. Memory itself always holds each word's newest value.
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "exec/line.hpp"
#include "sim/check/bounds.hpp"
#include "sim/check/names.hpp"
#include "sim/check/operation.hpp"
#include "sim/check/shadow.hpp"
#include "sim/check/vector_clock.hpp"

namespace baton::check {

/// What is known of what a release covers.
enum class known_as : std::uint8_t {
  done,         // happens before
  over,         // may be written over, or arrived at again, but not read
  over_unread,  // the same, of reads and arrivals only
};

/// A release as its message carries it: who, heard how far, and what it covers.
struct release_mark {
  int warp = 0;
  scope reach = scope::system;
  vector_clock covers;
  known_as how = known_as::done;
};

struct message {
  std::uint64_t value = 0;
  int warp = -1;  // -1: the value before the program began
  scope reach = scope::system;
  bool plain = false;
  bool short_of_target = false;  // a count under way: its order among the others is not real
  bool garbage = false;          // what is in shared memory when a kernel begins
  tick when = 0;                 // the writer's clock
  int born = -1;                 // the step that stored it
  int phase = -1;                // of an mbarrier: which of memory's phases
  std::uint32_t first_mark = 0, num_marks = 0;
  tick_array first_reads{};  // each warp's clock when it first read this message
  vector_clock causes;       // steps it depends on, for the reduction
};

/// An atomic word: its history and who touched it last, by the scope they used.
struct atomic_word {
  std::byte* address = nullptr;
  int bytes = 0;
  bool only_system_scope = true;
  bool has_plain_accesses = false;
  int open_phase = -1;  // an mbarrier that has been arrived at, or a counter: which of memory's open phases
  std::vector<message> messages;
  std::array<tick_array, num_scopes> reads{}, writes{};  // [scope][warp]: clock of the last one
  tick_array read_step{}, write_step{};                  // [warp]: last step, counted from 1

  bool is_line() const { return bytes == line_bytes; }
  std::uint64_t in_memory() const {  // not of a line
    std::uint64_t value = 0;
    std::memcpy(&value, address, static_cast<std::size_t>(bytes));
    return value;
  }
};

/// The phase of an mbarrier, or the round of a counter, that has not completed yet.
struct open_phase {
  tick_array arrived{};  // [participant]: clock of its last arrival
  tick_array before{};   // the same, for the phase before; of a counter: who looked at it half-way
  vector_clock causes;   // steps that the arrivals depend on
  std::vector<release_mark> marks;
};

/// What a proxy fence is for: inits of mbarriers, shared memory with them, global memory, or all at the end of a kernel.
enum class fenced : std::uint8_t { inits, shared, global, everything };

/// What was written plainly before it is there for the copy engine afterwards.
struct proxy_fence {
  int warp = 0;
  tick when = 0;
  fenced what = fenced::inits;
  vector_clock covers;
};

/// What is known to be over in other blocks, though not what was written there.
struct finished_elsewhere {
  vector_clock ended;        // reads and arrivals up to here
  vector_clock replaceable;  // writes up to here

  void join(const finished_elsewhere& other) {
    ended.join(other.ended);
    replaceable.join(other.replaceable);
  }
};

/// What a warp knows.
struct warp_knowledge {
  vector_clock now;                             // happens before its next access
  vector_clock causes;                          // steps its next step depends on
  std::array<vector_clock, num_scopes> fenced;  // [scope]: what its last releasing fence covers
  std::array<bool, num_scopes> has_fence{};
  int lane = whole_warp;               // which one runs
  vector_clock ended;                  // `now` when its part of the last kernel ended
  vector_clock common;                 // what all lanes know: `now` when they last met
  int learner = whole_warp;            // the only lane that has learnt anything since
  bool has_learnt = false;             // since they last met
  std::vector<release_mark> unfenced;  // releases it read without acquiring; `reach`: of both sides
  finished_elsewhere elsewhere;
  finished_elsewhere elsewhere_for_engines;  // the same, heard at a scope that leaves out who told
  int storer = -1;                           // of counted stores: the warp that makes them
  vector_clock met_inits;                    // inits of mbarriers that those whom it met had fenced
};

class memory {
 public:
  memory(findings& found, const name_table& names, planted_fault fault)
      : found_{found}, names_{names}, fault_{fault} {}

  /// Forgets everything; `warps` begin with all memory as it is.
  void reset(std::span<const position> warps);
  /// Shared memory of a block in which a kernel begins.
  void spoil(std::span<std::byte> shared);

  /// The index of the atomic word at `address`; makes it one.
  int word_at(const void* address, int bytes);
  const atomic_word& word(int index) const { return words_[static_cast<std::size_t>(index)]; }
  warp_knowledge& knowledge(int warp) { return knowledge_[static_cast<std::size_t>(warp)]; }

  /// The number of a line's version, and its bytes.
  std::uint64_t version_of(const std::byte* line);
  const std::byte* line(std::uint64_t version) const {
    return lines_[static_cast<std::size_t>(version)].data();
  }
  /// What a counterexample tells of a word's value: of a line its last 8 bytes.
  std::uint64_t told(const atomic_word& w, std::uint64_t value) const;

  /// The oldest message that `warp` may still read.
  int oldest_readable(int warp, const atomic_word& w) const;

  /// Atomic accesses of one step; steps count from 0.
  std::uint64_t load(int warp, const operation& op, int word, int message_index, int step);
  std::uint64_t store(int warp, const operation& op, int word, int step);  // also read-modify-writes
  /// Arrivals and bytes at an mbarrier.
  void arrive(int warp, const operation& op, int word, int step);
  /// The arrival would complete the phase; the count would reach its target.
  bool would_complete(const operation& op, int word) const;
  /// Steps that arrivals of the word's open phase depend on.
  const vector_clock& phase_causes(int word) const;
  /// Steps that a write to the word has to come after: a count, after no other count of the round.
  vector_clock causes_of_write(const operation& op, int word) const;
  /// The last message that is not of the open round of counts.
  const message& settled(int word) const;
  /// The mbarrier as it is now.
  std::uint64_t mbarrier_word(int word) const;
  /// A wait that gave up: it looked at the word.
  void looked(int warp, int word, int step);
  /// The warp's lanes meet.
  void sync_warp(int warp);
  /// The warp's clock moves on: accesses that follow are not covered by a release before.
  void advance(int warp, bool after_release);

  void fence(int warp, order ordering, scope reach);
  void barrier(std::span<const int> warps);
  /// The same that tells nobody anything but inits that were fenced.
  void meeting(std::span<const int> warps);
  /// The warp's part of a kernel ends, and its part of the next begins before others' parts have ended.
  void end_kernel(int warp);
  /// They know what all of them did up to end_kernel; of what they did since, each knows its own.
  void await_dependencies(std::span<const int> warps);
  void fence_proxy(int warp, fenced what);

  /// A participant more.
  int add(const position& where);
  /// `copy` begins with what `issuer` knows.
  void begin_copy(int copy, int issuer);
  /// The same of a store more of `copy`, of the issuer's running lane. It is no release of that lane.
  void begin_store(int copy, int issuer);
  /// `issuer` knows what `copy` has done.
  void end_copy(int copy, int issuer) { learn(issuer, knowledge(copy).now); }

  /// Since its last step.
  bool has_written(int participant, const void* first, std::size_t bytes);

  /// Plain accesses.
  void read(int warp, const void* from, void* to, std::size_t bytes);
  void write(int warp, void* to, const void* from, std::size_t bytes, int step);
  /// The running lane asks for a copy that reads or writes this: what the warp's other lanes did there has to be over.
  void check_issuer(int warp, bool writes, const void* first, std::size_t bytes);
  /// A copy has written what was at `from`: where that is garbage, so is what it wrote, until a warp reads it.
  void carry_garbage(const void* to, const void* from, std::size_t bytes);

 private:
  warp_knowledge& taught_by(int issuer, int participant);
  bool hear_each_other(int a, scope reach_a, int b, scope reach_b) const;
  bool strong(int warp, scope reach, const message& m) const;
  void check_scopes(int warp, const operation& op, const atomic_word& w);
  void check_plain_neighbours(int warp, bool writes, const atomic_word& w, bool is_arrival = false);
  void see(int warp, const operation& op, atomic_word& w, int message_index);
  void take(int warp, const operation& op, const message& m);
  void end_own_arrivals(int warp, const message& m);
  void take_end(warp_knowledge& me, const release_mark& mark, bool in_scope) const;
  void mark_releases(int warp, const operation& op, const atomic_word& w, message& m);
  void add_mark(message& m, const release_mark& mark);
  void append(atomic_word& w, const message& m);
  std::uint64_t newest(const atomic_word& w);
  bool unordered(int warp, int other, tick when) const;
  /// The same of a read or an arrival that is to be over.
  bool not_over(int warp, int other, tick when) const;
  void race(int warp, const char* did, int other, const char* other_did, const void* where);
  void check_plain_against_word(int warp, bool writes, int word);
  void check_writer(int warp, bool writes, const shadow_cell& cell, const void* where);
  void check_readers(int warp, const shadow_cell& cell, const void* where);
  void learn(int warp, const vector_clock& covers);
  const vector_clock& known_to_lane(int warp) const;
  void check_lanes(int warp, bool writes, const shadow_cell& cell, std::uintptr_t at, unsigned bytes);
  void mark_lane(int warp, bool writes, shadow_cell& cell, unsigned bytes);
  void lanes_race(int warp, bool writes, int other, int lane, const char* other_did, std::uintptr_t at);
  bool is_garbage(const shadow_cell& cell, std::uintptr_t at) const;
  void read_garbage(int warp, const void* where);
  void count(int warp, const operation& op, atomic_word& w, message& m, int step);
  void half_counted(int reader, const atomic_word& w);
  void check_half_count(int warp, const atomic_word& w, const message& m);
  void check_order_of_stores(int warp, const operation& op, const atomic_word& w);
  void check_proxy(int copy, bool writes, int writer, tick written, const atomic_word& w);
  bool is_fenced(int viewer, int writer, tick written, fenced what) const;
  tick own_inits_fenced(int warp) const;
  bool has_met_init(int warp, const shadow_cell& cell) const;
  fenced part_of(const void* address) const;
  void check_init(int warp, const atomic_word& w);
  void check_phase(int warp, const open_phase& phase, const atomic_word& w);
  open_phase& open_phase_of(atomic_word& w);
  void mark_arrival(int warp, const operation& op, open_phase& open);
  void complete_phase(int warp, const operation& op, atomic_word& w, int step);
  bool is_known(int warp, const message& m) const;
  bool is_copy(int participant) const { return warps_[static_cast<std::size_t>(participant)].copy > 0; }
  /// What sees plain writes only past a proxy fence.
  bool is_engine(int participant) const {
    const position& p = warps_[static_cast<std::size_t>(participant)];
    return is_copy(participant) && !p.is_store &&
           !(p.is_product && fault_ == planted_fault::products_see_warps);
  }
  bool of_one_block(int a, int b) const {
    return reaches(warps_[static_cast<std::size_t>(a)], scope::block, warps_[static_cast<std::size_t>(b)]);
  }

  findings& found_;
  const name_table& names_;
  planted_fault fault_;
  std::vector<position> warps_;
  std::vector<warp_knowledge> knowledge_;
  std::vector<lane_history> lanes_;  // [participant]
  std::vector<atomic_word> words_;
  int num_words_ = 0;
  std::vector<std::array<std::byte, line_bytes>> lines_;  // versions of all lines
  std::vector<release_mark> marks_;
  std::vector<tick_array> phases_;  // completed: who arrived when
  std::vector<open_phase> open_phases_;
  std::vector<proxy_fence> proxy_fences_;
  shadow shadow_;
};

}  // namespace baton::check
