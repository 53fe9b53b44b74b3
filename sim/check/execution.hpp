#pragma once
// One execution of the program, from its start, one step at a time. The search decides who steps and what a
// load returns; the execution knows how.
//
// A warp is a fiber. It runs until its next scheduling point: an atomic access, a wait or a barrier. Plain
// accesses and fences happen on the way: an order of theirs that mattered would be a race, which is reported.
//
// A bulk copy is a participant too (copies.cpp): it moves a piece on the way and steps when it tells of it. Its
// place is taken again by a later copy whose issuer knows that it is done. So is a product, which has nothing but sources.
#include <array>
#include <boost/context/fiber.hpp>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "exec/mbarrier.hpp"
#include "sim/check/bounds.hpp"
#include "sim/check/memory.hpp"
#include "sim/check/program.hpp"
#include "sim/check/trace.hpp"
#include "sim/fiber_stack.hpp"

namespace baton::check {

using builder = std::function<void(program&)>;
using warp_set = std::uint64_t;  // bit i: participant i

constexpr warp_set only(int warp) {
  return warp_set{1} << warp;
}

/// A bulk copy or a product on its way.
struct copy_work {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0, moved = 0;
  std::size_t counted = 0;        // what a load counts in all: `bytes`, or of a box that they stand for
  mbarrier* counts_on = nullptr;  // null: a store or a product
  bool is_counted_store = false;  // its bytes are in their places, and to be counted
  bool is_product = false;        // its operands have been read, and that is to be told
  tick last_touch = 0;            // of the block's shared memory
};

/// Where a load lands in the shared memory of a block, and what of it is counted where.
struct landing {
  void* to;
  int bytes, counted;
  mbarrier* counts_on;
};
/// What a product reads.
using operand_bytes = std::span<const std::byte>;

/// A bulk_store or a product of a warp that it has not awaited whole: by which copy, which of what it read, and the warp's group.
struct issued_store {
  int copy = 0;
  std::uint64_t ordinal = 0, group = 0;
  bool is_read = false;  // and the warp knows
};

/// A participant: a warp or a copy.
struct warp_state {
  position where;
  program::body run;
  int num_blocks = 0, num_block_warps = 0;
  std::byte* shared = nullptr;
  std::byte* other_shared = nullptr;  // of the next kernel, if kernels begin early
  int kernel = 0;                     // how many have begun early
  bool began_early = false;           // and has not awaited what is before it
  operation pending;
  std::uint64_t answer = 0;
  bool finished = false, gave_up = false;
  std::unique_ptr<copy_work> copy{};  // what a copy does; null for a warp
  std::vector<issued_store> stores{}, products{};
  std::uint64_t num_products = 0;
  int counted_stores = -1;       // the participant that makes them, while the warp comes to no step
  site unreported = {};          // where a quiet wait gave up, of which nothing was told yet
  std::uint64_t open_group = 0;  // of bulk stores; earlier ones are committed
  sim::stack_bounds stack;
  bool is_resident = false;  // its block has begun the kernel
  boost::context::fiber fiber, home;
};

/// What outlives an execution so that the next one starts fast.
struct workshop {
  explicit workshop(planted_fault fault) : ram{found, names, fault} {}
  findings found;
  name_table names;
  allocations allocated;
  arena program_memory;
  std::array<sim::stack_pool, max_participants> stacks;  // a warp always has the same one
  memory ram;
  std::vector<warp_state> warps;  // before the stacks go
};

class execution {
 public:
  execution(workshop& shop, const bounds& limits, const builder& build, std::vector<event>* trace);
  ~execution();
  execution(const execution&) = delete;
  execution& operator=(const execution&) = delete;

  struct standing {
    warp_set unfinished = 0;
    warp_set enabled = 0;  // can step now
    warp_set certain = 0;  // can step even if every poll returns the newest value
  };
  standing survey();

  /// Ways in which the warp's next step can go; with newer_than >= 0, only those that read a message stored by
  /// that step or a later one.
  int choices(int warp, int newer_than);
  void step(int warp, int choice, int newer_than);
  /// After the last step: end assertions.
  void finish();
  /// Who waits where for what, when nobody can go on.
  void report_deadlock();

  /// Warps, and copies that were issued so far.
  int num_warps() const { return static_cast<int>(warps_.size()); }
  const operation& pending(int warp) const { return warps_[static_cast<std::size_t>(warp)].pending; }
  int pending_word(int warp);
  const atomic_word& word(int index) const { return shop_.ram.word(index); }
  /// The steps that the warp's next step, or the step just taken, depends on.
  const vector_clock& causes(int warp) { return shop_.ram.knowledge(warp).causes; }

  /// The step would complete the phase of an mbarrier, and the steps that the completion depends on.
  bool would_complete(int warp);
  /// For a pending write: the last message that it cannot commute with, and what it has to come after.
  const message& settled(int warp) { return shop_.ram.settled(pending_word(warp)); }
  vector_clock causes_of_write(int warp) {
    return shop_.ram.causes_of_write(pending(warp), pending_word(warp));
  }
  vector_clock completion_causes(int warp);

  const vector_clock& step_causes() const { return step_causes_; }

  // For the context: called on the warp's fiber.
  std::uint64_t perform(int warp, const operation& op);
  bool wait(int warp, order ordering, scope reach, int bytes, wait_request& request);
  bool await(int warp, const operation& op);
  /// Which lane runs, between two verbs of the warp.
  void set_lane(int warp, int lane) { shop_.ram.knowledge(warp).lane = lane; }
  void sync_warp(int warp) { shop_.ram.sync_warp(warp); }
  void store_line(int warp, std::byte* to, const std::byte* line);
  bool wait_lines(int warp, wait_request& request);
  const std::byte* line(std::uint64_t version) const { return shop_.ram.line(version); }
  void next_kernel_early(int warp);
  void await_dependencies(int warp);
  void fence(int warp, order ordering, scope reach);
  void read(int warp, const void* from, void* to, std::size_t bytes);
  void write(int warp, void* to, const void* from, std::size_t bytes);
  void fence_proxy(int warp, verb what);
  void bulk_load(int warp, const void* from, const landing& at);
  /// The same place in each of these blocks of the cluster, bit i for block i; counted on the same barrier of each.
  void bulk_load_to(int warp, const void* from, const landing& at, std::uint32_t blocks);
  void bulk_store(int warp, void* to, const void* from, int bytes);
  void bulk_commit(int warp);
  void store_counted(int warp, int block_of_cluster, void* to, const void* value, std::size_t bytes,
                     mbarrier* b);
  /// A quiet wait gave up there; none: it is told of.
  void owe_report(int warp, const site& where) { warps_[static_cast<std::size_t>(warp)].unreported = where; }
  /// Until committed stores, but for those of the `newest` groups, have been read.
  void bulk_wait_read(int warp, int newest);
  void bulk_wait(int warp, int newest);
  /// Tensor cores read the operands, at their own time.
  void start_product(int warp, std::span<const operand_bytes> operands);
  /// Until all but the `newest` products have read theirs.
  void await_products(int warp, int newest);
  void arrive_at(int warp, mbarrier* b, int block_of_cluster, int arrivals, tells covers);
  std::byte* place_in_block(int warp, std::byte* at, int block_of_cluster);
  int cluster() const { return program_.cluster_; }
  const position& where(int warp) const { return warps_[static_cast<std::size_t>(warp)].where; }
  int num_blocks(int warp) const { return warps_[static_cast<std::size_t>(warp)].num_blocks; }
  int num_block_warps(int warp) const { return warps_[static_cast<std::size_t>(warp)].num_block_warps; }
  void refuse(int warp, const wait_site& where, std::uint64_t seen);
  bool has_given_up(int warp);
  std::byte* shared(int warp) const { return warps_[static_cast<std::size_t>(warp)].shared; }

 private:
  /// A warp's last access to another block's shared memory, which must not have ended by then.
  struct remote_access {
    int warp = 0, to_block = 0;
    tick when = 0;
  };

  void settle(program& p);
  void name_shared(const program& p, std::byte* memory, std::pair<int, int> place);
  /// Nobody may count on what is in the shared memory of a rank's blocks.
  void spoil_shared_memory(int rank);
  /// Throws out of the warp's body if the bytes are not the program's, or shared memory of a block outside the cluster.
  void require_memory(int warp, const void* first, std::size_t bytes);
  void note_access_to(int block, int warp);
  void require_progress(int warp);
  int issue(int warp, const position& place, copy_work work, verb what);
  int place_for_copy(int warp, const position& place);
  void load_into(int warp, const position& place, const void* from, const landing& at);
  int begin_stores(int warp, const void* to, std::size_t bytes, mbarrier* counts_on);
  void copy_piece(int copy);
  void look_at(int copy, operand_bytes source);
  void finish_copy_step(int copy);
  void await_reads(int warp, std::vector<issued_store>& of, std::uint64_t before_group);
  void wait_read_of_some(int warp, std::vector<issued_store>& of, std::uint64_t before_group);
  std::uint64_t tell_of_reads(int copy);
  void report_loose_ends(int rank);
  bool anybody_knows(int rank, int block, int participant, tick when) const;
  std::byte* shared_of(int rank, int block) const;
  void start_fiber(int warp);
  void resume(int warp);
  void tell_of_thrown(const warp_state& by);
  bool has_room(int warp) const;
  /// A copy, or a warp whose block has begun.
  bool runs(int warp) const {
    const warp_state& state = warps_[static_cast<std::size_t>(warp)];
    return state.copy != nullptr || state.is_resident;
  }
  bool let_blocks_begin();
  void begin_kernel(int warp);
  void go_on_without_steps();
  void open_barriers();
  bool open_barrier(int warp);
  bool can_time_out(int warp, wait_request& request, int newer_than);
  void collect_candidates(int warp, const wait_request& request);
  const std::uint32_t* abort_word(int warp) const { return aborts_ + where(warp).rank; }
  /// lines.cpp: what a wait for lines may see.
  void look_at_lines(int warp, wait_request& request);
  bool try_lines(int warp, wait_request& request, shown_messages& shown, bool is_newest);
  void add_ends(wait_request& request, const std::vector<shown_messages>* of_group, bool is_newest);
  bool is_new(const wait_request& request, const shown_messages& shown, int newer_than);
  std::uint64_t load_in_predicate(const operation& op);
  bool step_lines(int warp, wait_request& request, int choice, int newer_than);
  int pending_word_of(const awaited_word& asked) { return shop_.ram.word_at(asked.address, asked.bytes); }
  std::string lines_text(wait_request& request);
  bool choose_messages(int choice, int newer_than, const wait_request& request);
  bool step_wait(int warp, const operation& op, int choice, int newer_than);
  void record(const event& e) {
    if (trace_ != nullptr) trace_->push_back(e);
  }
  /// For what happens between steps: nothing is told of it once something has gone wrong.
  void record_on_the_way(const event& e) {
    if (!shop_.found.any()) record(e);
  }

  workshop& shop_;
  int num_real_warps_ = 0;
  std::uint64_t* copied_out_ = nullptr;  // [participant]: stores it has read the source of
  std::uint32_t* aborts_ = nullptr;      // [rank]: its waits that gave up
  std::vector<remote_access> remote_accesses_;
  const bounds& limits_;
  std::vector<event>* trace_;
  program program_;
  std::vector<warp_state>& warps_;
  sim::stack_bounds home_stack_;
  std::exception_ptr thrown_;  // by a body, until who resumed it sees it
  int steps_ = 0;
  /// While a predicate of a wait for lines is asked: what its own loads return.
  struct predicate_look {
    int warp;
    wait_request* request;
    const shown_messages* shown;
    std::uint32_t asked;  // bit i: the i-th word
    bool has_new_word;
  };
  predicate_look* looking_ = nullptr;
  int on_the_way_ = 0;  // plain accesses and fences since the last step
  vector_clock step_causes_;
  // For each word of a wait: the messages that would end it, newest first; and the chosen one.
  std::array<std::vector<int>, warp_lanes> candidates_;
  std::array<int, warp_lanes> candidate_words_{}, chosen_{};
};

}  // namespace baton::check
