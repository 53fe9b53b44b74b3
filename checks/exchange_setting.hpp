#pragma once
// What one exploration of the exchange looks like: its sizes, who may give up and who may die, what follows,
// and at most one planted bug.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "baton/expert_parallel.hpp"
#include "checks/planted_bug.hpp"
#include "kernels/ep/shape.hpp"

namespace baton::checks {

enum class routing {
  spread,       // experts in turn: every pair of ranks has nothing to send now and then
  backwards,    // the same from the last token on, so that no block's tokens are in the order of its experts
  scattered,    // no order at all, the same expert twice at times
  one_expert,   // every token to expert 0: its rank is full, the others receive nothing
  repeated,     // all choices of a token are one expert: more copies than there is room for
  first_token,  // token 0 to experts 0, 1, ...; the others to nobody
  with_holes,   // spread, but every third id is -1 and every fifth no expert's
};

/// Where a rank's waits may end at any moment as if their deadline had passed.
enum class may_give_up { nowhere, at_arrivals, anywhere, at_sums };  // at_sums: of layout per_rank in chunks
using enum may_give_up;

/// After the first communicator: whether there is a second one, made of what, and where the ranks meet.
struct comeback {
  bool happens = false;
  bool in_place = false;         // the old memory again; the library takes new memory
  bool meets_first = true;       // nobody goes on before everybody has left the old kernels
  bool is_renewed = true;        // words, counters and epochs start anew
  bool renews_words = true;      // the arrival words too
  bool gives_up_again = false;   // waits may, as before
  bool meets_at_the_end = true;  // nobody sends before everybody's words are ready
};

/// What happened in all executions together.
struct exchange_tally {
  std::uint64_t exact = 0, gave_up = 0;  // rounds of ranks
  std::set<int> died_at;                 // steps of the dying rank's warps, from 1
  int longest_life = 0;                  // steps of one that did not die
};

struct exchange_setting {
  arrival_policy policy = arrival_policy::epoch;
  int ranks = 2;
  std::vector<int> blocks = {1};  // of each rank's kernels; the last one counts for all further ranks
  std::vector<int> warps = {1};   // of each rank's blocks, likewise
  int experts = 2;
  int top_k = 1;
  int hidden = 8;  // above 256, several warps share a token
  token_format format = token_format::bf16;
  std::vector<int> tokens = {1};  // of each rank, likewise
  routing route = routing::spread;
  int rounds = 3;
  int spoils_source = -1;                         // this rank's experts spoil where their first row came from
  std::uint32_t rounds_before = 0;                // epochs go on from here
  std::vector<may_give_up> gives_up = {nowhere};  // each rank, likewise
  int dies = -1;                                  // this rank may stop for good at any of its steps
  site dies_in = {};                              // of this kernel alone
  int late = -1;  // this rank comes to round `late_round` when another one has given up
  int late_round = 0;
  comeback then = {};
  bool combines = true;                     // if not, dispatch follows dispatch
  int looks = 2;                            // bounds::looks
  int p2p_group_size = ep::max_near_ranks;  // layout per_expert, or per_rank in chunks
  int carriers =
      4;  // of each rank, if some are beyond its group: what the network has of a rank's under way at most
  bool two_levels = false;          // layout per_rank in chunks: tokens are forwarded within groups
  bool shares_send_buffer = false;  // both phases put from one
  bool is_apart = false;            // layout per_rank: four kernels a round, not two
  ep::row_storage rows = ep::row_storage::of_experts;
  bool fp8_sums = false;          // layout per_rank; hidden is a multiple of 128
  bool late_weights = false;      // layout per_rank in lines or by flags: weights are given to combine
  int takes_units = 0;            // layout per_rank in lines or by flags: combine_senders::taken_each
  std::uint32_t absent = 0;       // layout per_rank, bit r: to the others rank r takes no part
  bool absent_ranks_run = false;  // and all the same sends, and waits for them, until it gives up
  planted_bug bug = {};
  std::shared_ptr<exchange_tally> tally = nullptr;

  template <class T>
  static T of_rank(const std::vector<T>& values, int rank) {
    return values[std::min(values.size() - 1, static_cast<std::size_t>(rank))];
  }
  /// Of a rank's i-th id in some round.
  std::int32_t id_of(int rank, int round, int i) const {
    const int token = i / top_k, choice = i % top_k, in_turn = (token + choice + rank + 1) % experts;
    switch (route) {
      case routing::backwards:
        return (experts * (token + choice + 1) - 1 - token - choice - rank) % experts;
      case routing::scattered:
        return static_cast<std::int32_t>(
            (2654435761u * static_cast<std::uint32_t>(64 * round + 16 * rank + i + 1) >> 16) %
            static_cast<std::uint32_t>(experts));
      case routing::one_expert:
        return choice % experts;
      case routing::first_token:
        return token == 0 ? choice : -1;
      case routing::repeated:
        return (rank + round) % experts;
      case routing::with_holes:
        return i % 3 == 1 ? -1 : i % 5 == 2 ? experts + i : in_turn;
      default:
        return in_turn;
    }
  }
  bool has_network() const { return p2p_group_size < ranks; }
  bool is_absent(int rank) const { return (absent >> rank & 1) != 0; }
  bool runs(int rank) const { return absent_ranks_run || !is_absent(rank); }
  int max_tokens() const { return std::max(1, *std::max_element(tokens.begin(), tokens.end())); }
};

/// The sizes of its communicator, as a rank sees them.
inline ep::shape shape_of(const exchange_setting& e, int rank) {
  return {.num_experts = e.experts,
          .num_ranks = e.ranks,
          .rank = rank,
          .top_k = e.top_k,
          .hidden = e.hidden,
          .max_tokens = e.max_tokens(),
          .format = e.format,
          .rows = e.rows,
          .fp8_sums = e.fp8_sums,
          .late_weights = e.late_weights};
}

}  // namespace baton::checks
