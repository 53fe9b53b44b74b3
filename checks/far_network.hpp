#pragma once
// A network between ranks of the checker (exec/far.hpp), of verbs that it has: each put, each signal and each put with its own
// word is carried out by a carrier, a warp of no rank, which begins with what its sender knew and may come at any time.
//
//   cell, of each job  written by                                read by
//   order, 64 bits     a sender, once: there is this job; or     the job's carrier, which waits for it
//                      who ended last: there will be none
//   done, 64 bits      the carrier, behind the job               carriers of signals that a fence has come behind it; of a put
//                                                                with its own word nobody
//   put issued         who puts, plainly                         who signals behind a fence: without an order between the two the
//                                                                fence may have missed the put, and this is a race
//
// All words are stored once, so that each wait has one answer, and carriers multiply no executions.
//
// Jobs of a rank that are so many apart as it has carriers are the same one's, and in order; no two others are, but by fences.
// A put's carrier reads and writes plainly. Who hears of a signal knows what the signal's sender knew, too: more than a network
// promises of plain accesses, of which there are none that a peer could look at.
#include <memory>
#include <string>
#include <vector>

#include "base/bits.hpp"
#include "exec/far.hpp"
#include "sim/check.hpp"

namespace baton::checks {

struct far_network {
  static constexpr std::size_t most_jobs = 64;  // of a rank
  static constexpr std::uint64_t is_there = 1, none_comes = 2;

  struct job {
    int to;
    std::byte* target;
    const std::byte* source;  // null: a signal
    int bytes;
    std::uint64_t word;
    std::vector<std::size_t> behind;  // puts of the same rank
    std::uint64_t* own_word;          // of a put: stored behind it; or null
    int by = 0;                       // which of the rank's warps
  };
  struct sender {
    std::vector<job> jobs;
    std::uint64_t *orders, *done;  // of each job
    std::uint32_t *issued, *ended;
    int warps;
  };
  int carriers;  // of each rank
  /// Fences order what their own warp has put, and nothing else: less than networks do, for protocols in which each warp tells
  /// of its own puts alone. Otherwise a fence that comes beside another warp's put is a race.
  bool fences_are_of_warps = false;
  std::vector<sender> senders;

  far_network(check::program& p, int ranks, int carriers_of_rank) : carriers{carriers_of_rank} {
    for (int r = 0; r < ranks; ++r) {
      const std::string whose = " of rank " + std::to_string(r);
      senders.push_back({{},
                         p.allocate<std::uint64_t>(most_jobs, "order to a carrier" + whose),
                         p.allocate<std::uint64_t>(most_jobs, "carrier is done" + whose),
                         p.allocate<std::uint32_t>(most_jobs, "put issued" + whose),
                         p.allocate<std::uint32_t>(1, "warps ended" + whose),
                         0});
    }
  }
  /// A put that a fence orders.
  static bool is_for_fences(const job& j) { return j.source != nullptr && j.own_word == nullptr; }
  void send(const check::context& x, const job& j) {
    sender& from = senders[static_cast<std::size_t>(x.rank())];
    const std::size_t nth = from.jobs.size();
    from.jobs.push_back(j);
    if (is_for_fences(j)) x.write(from.issued + nth, 1u);
    x.store<order::release, scope::system>(from.orders + nth, is_there);
  }

  /// One warp of a rank has ended; behind the last one nothing more is sent.
  void end(const check::context& x) {
    sender& from = senders[static_cast<std::size_t>(x.rank())];
    if (!x.count_to<order::acq_rel, scope::device>(from.ended, 1u, static_cast<std::uint32_t>(from.warps)))
      return;
    for (std::size_t c = 0; c < static_cast<std::size_t>(carriers); ++c)  // each carrier's next one
      x.store<order::release, scope::system>(from.orders + from.jobs.size() + c, none_comes);
  }

  /// Of the c-th carrier of a rank.
  void carry(const check::context& x, int rank, int c) const {
    const sender& from = senders[static_cast<std::size_t>(rank)];
    for (auto nth = static_cast<std::size_t>(c);; nth += static_cast<std::size_t>(carriers)) {
      if (wait_for(x, from.orders + nth) == none_comes) return;
      const job j = from.jobs[nth];
      for (int i = 0; i < j.bytes; i += static_cast<int>(sizeof(vec16)))
        x.write(reinterpret_cast<vec16*>(j.target + i), x.read(reinterpret_cast<const vec16*>(j.source + i)));
      for (const std::size_t put : j.behind) wait_for(x, from.done + put);
      if (j.source == nullptr)
        x.store<order::release, scope::system>(reinterpret_cast<std::uint64_t*>(j.target), j.word);
      if (j.own_word != nullptr) x.store<order::release, scope::system>(j.own_word, j.word);
      x.store<order::release, scope::system>(from.done + nth, is_there);
    }
  }

 private:
  static std::uint64_t wait_for(const check::context& x, std::uint64_t* word) {
    check::context::lanes<std::uint64_t*> words{};
    check::context::lanes<std::uint64_t> seen;
    words[0] = word;
    x.wait<order::acquire, scope::system>(
        words, [](int, std::uint64_t value) { return value != 0; }, {.where = "network"}, seen);
    return seen[0];
  }
};

/// The checker's context with such a network, or none.
class far_context : public check::context {
 public:
  far_context(const check::context& x, far_network* network) : check::context{x}, network_{network} {}

  /// Whether the lanes have met since any of them wrote something, as puts want it. A wait is a meeting.
  bool has_met() const { return has_met_; }
  template <class T>
  void write(T* p, const std::type_identity_t<T>& value) {
    has_met_ = false;
    check::context::write(p, value);
  }
  void store_lines(std::byte* to, const lanes<vec16>& v) {
    has_met_ = false;
    check::context::store_lines(to, v);
  }
  void sync_warp() { check::context::sync_warp(), has_met_ = true; }
  void sync_block() { check::context::sync_block(), has_met_ = true; }
  template <int newest = 0>
  void bulk_wait() {
    check::context::bulk_wait<newest>(), has_met_ = true;
  }
  template <order Order, scope Scope, class Word, class Done>
  bool wait(const lanes<Word*>& words, Done done, const wait_site& where,
            lanes<std::remove_const_t<Word>>& seen) {
    has_met_ = true;
    return check::context::wait<Order, Scope>(words, done, where, seen);
  }

  void put(int rank, std::byte* to, const std::byte* from, int bytes) {
    elect([&] {
      network_->send(*this, {rank, to, from, bytes, 0, {}, nullptr, own()});
    });  // what the lanes wrote they have to have met behind
  }
  void fence_puts() { fenced_ = mine().jobs.size(); }
  void signal(int rank, std::uint64_t* word, std::uint64_t value) {
    far_network::job j{rank, reinterpret_cast<std::byte*>(word), nullptr, 0, value, {}, nullptr, own()};
    for (std::size_t i = 0; i < fenced_; ++i) {
      const far_network::job& before = mine().jobs[i];
      if (!far_network::is_for_fences(before) || before.to != rank) continue;
      if (network_->fences_are_of_warps && before.by != own()) continue;
      read(mine().issued + i);
      j.behind.push_back(i);
    }
    network_->send(*this, j);
  }
  void put_and_signal(const signalled_put& one) {
    elect([&] {
      network_->send(*this,
                     {one.word.rank, one.to, one.from, one.bytes, one.word.value, {}, one.word.at, own()});
    });
  }
  template <class Of>
  void put_and_signal(std::uint32_t lanes, Of of) {
    for (; lanes != 0; lanes &= lanes - 1) put_and_signal(of(lowest_bit(lanes)));
  }

 private:
  int own() const { return block() * num_warps() + warp(); }
  far_network::sender& mine() const { return network_->senders[static_cast<std::size_t>(rank())]; }

  far_network* network_;
  std::size_t fenced_ = 0;  // jobs
  bool has_met_ = true;
};

}  // namespace baton::checks
