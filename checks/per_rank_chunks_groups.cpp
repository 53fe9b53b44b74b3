// Layout per_rank in chunks with ranks beyond the p2p group: ids, tokens and sums that are put, and words that are signalled.
#include <algorithm>
#include <utility>

#include "checks/all.hpp"
#include "checks/far_network.hpp"
#include "checks/per_rank_chunks_exploration.hpp"
#include "protocol/told_puts.hpp"

namespace baton::checks {
namespace {

using check::verdict;

using chunk_choices = ep::per_rank_chunks::chunk_settings;

constexpr chunk_choices one_token{.chunk_tokens = 1, .tile_tokens = 1},
    two_tokens{.chunk_tokens = 2, .tile_tokens = 4},
    told_in_fours{.chunk_tokens = 1, .tile_tokens = 2, .told_at_once = 4},
    short_pieces{.chunk_tokens = 1, .tile_tokens = 2, .piece_bytes = 512, .dispatch_stages = 1};

exploration chunks_hold(const char* name, exchange_setting e, const chunk_choices& chunks,
                        std::uint32_t draws) {
  e.p2p_group_size = std::min(e.p2p_group_size, e.ranks - 1);
  return {name, [e, chunks, draws](const check::bounds& limits) {
            return check_per_rank_chunks({e, chunks, draws}, limits);
          }};
}

std::vector<exploration> rounds_of_chunks_apart() {
  return {
      chunks_hold("2 ranks apart, 3 rounds, takes drawn 3 times",
                  {.warps = {2}, .rounds = 3, .p2p_group_size = 1, .carriers = 8}, one_token, 3),
      chunks_hold("2 ranks apart, 1 round, every order of takes",
                  {.warps = {2}, .rounds = 1, .p2p_group_size = 1, .carriers = 8}, one_token, 0),
      chunks_hold(
          "2 ranks apart, of which the first has 2 blocks, 3 and 2 tokens, 2 rounds, takes drawn 3 times",
          {.blocks = {2, 1},
           .warps = {2},
           .tokens = {3, 2},
           .rounds = 2,
           .p2p_group_size = 1,
           .carriers = 12},
          one_token, 3),
      chunks_hold("2 ranks apart, the second with no token, 3 rounds, takes drawn 2 times",
                  {.warps = {2}, .tokens = {2, 0}, .rounds = 3, .p2p_group_size = 1, .carriers = 8},
                  one_token, 2),
      chunks_hold("2 ranks apart, all tokens to one expert, 2 rounds, takes drawn 2 times",
                  {.warps = {2},
                   .tokens = {3, 2},
                   .route = routing::one_expert,
                   .rounds = 2,
                   .p2p_group_size = 1,
                   .carriers = 12},
                  one_token, 2),
      chunks_hold("2 ranks apart, chunks of 2, top 2 of 4 experts, 2 rounds, takes drawn 2 times",
                  {.warps = {2},
                   .experts = 4,
                   .top_k = 2,
                   .tokens = {3, 2},
                   .rounds = 2,
                   .p2p_group_size = 1,
                   .carriers = 12},
                  two_tokens, 2),
      chunks_hold("2 ranks apart, chunks told of four at once, 2 rounds, takes drawn 2 times",
                  {.warps = {2}, .tokens = {5, 2}, .rounds = 2, .p2p_group_size = 1, .carriers = 12},
                  told_in_fours, 2),
  };
}

std::vector<exploration> forms_of_chunks_apart() {
  return {
      chunks_hold(
          "2 ranks apart, tokens of 2 pieces, 2 rounds, takes drawn 2 times",
          {.warps = {2}, .hidden = 456, .tokens = {2}, .rounds = 2, .p2p_group_size = 1, .carriers = 8},
          short_pieces, 2),
      chunks_hold("2 ranks apart, ids that are no expert's, takes drawn 2 times",
                  {.warps = {2},
                   .experts = 4,
                   .top_k = 3,
                   .tokens = {2},
                   .route = routing::with_holes,
                   .rounds = 1,
                   .p2p_group_size = 1,
                   .carriers = 12},
                  one_token, 2),
      chunks_hold("2 ranks apart, tokens stay where they arrive, 2 rounds, takes drawn 2 times",
                  {.warps = {2},
                   .tokens = {2},
                   .rounds = 2,
                   .p2p_group_size = 1,
                   .carriers = 8,
                   .rows = ep::row_storage::in_window},
                  one_token, 2),
      chunks_hold(
          "2 ranks apart, 4 kernels a round, 2 rounds, takes drawn 2 times",
          {.warps = {2}, .tokens = {2}, .rounds = 2, .p2p_group_size = 1, .carriers = 8, .is_apart = true},
          one_token, 2),
      chunks_hold("2 ranks apart, sums in block FP8, 2 rounds, takes drawn 2 times",
                  {.warps = {2},
                   .hidden = 384,
                   .tokens = {2, 1},
                   .rounds = 2,
                   .p2p_group_size = 1,
                   .carriers = 8,
                   .fp8_sums = true},
                  one_token, 2),
      chunks_hold("3 ranks in groups of 2, top 2 of 3 experts, 2 rounds, takes drawn 2 times",
                  {.ranks = 3,
                   .warps = {2},
                   .experts = 3,
                   .top_k = 2,
                   .tokens = {2, 1},
                   .rounds = 2,
                   .p2p_group_size = 2,
                   .carriers = 8},
                  one_token, 2),
      chunks_hold("3 ranks apart, top 3 of 3 experts, takes drawn once",
                  {.ranks = 3,
                   .warps = {2},
                   .experts = 3,
                   .top_k = 3,
                   .rounds = 1,
                   .p2p_group_size = 1,
                   .carriers = 8},
                  one_token, 1),
      chunks_hold("4 ranks in groups of 2, top 3 of 4 experts, 2 rounds, takes drawn once",
                  {.ranks = 4,
                   .warps = {2},
                   .experts = 4,
                   .top_k = 3,
                   .tokens = {2, 1},
                   .rounds = 2,
                   .p2p_group_size = 2,
                   .carriers = 6},
                  one_token, 1),
      chunks_hold("4 ranks apart, a token of the first for all, takes drawn once",
                  {.ranks = 4,
                   .warps = {2},
                   .experts = 4,
                   .top_k = 4,
                   .tokens = {1, 0},
                   .rounds = 1,
                   .p2p_group_size = 1,
                   .carriers = 6},
                  one_token, 1),
      chunks_hold("2 ranks apart, every wait may give up, takes drawn 2 times",
                  {.warps = {2}, .rounds = 1, .gives_up = {anywhere}, .p2p_group_size = 1, .carriers = 8},
                  one_token, 2),
  };
}

/// Death in combine wants waits that may give up there alone, and so can be explored with more tokens.
std::vector<exploration> deaths_of_chunks_apart() {
  return {
      chunks_hold("2 ranks apart, a token of rank 0 for rank 1, which dies at any step of dispatch",
                  {.warps = {2},
                   .tokens = {1, 0},
                   .rounds = 1,
                   .gives_up = {anywhere},
                   .dies = 1,
                   .dies_in = "dispatch",
                   .p2p_group_size = 1,
                   .carriers = 8},
                  one_token, 1),
      chunks_hold("2 ranks apart, rank 1 dies at any step of combine",
                  {.warps = {2},
                   .tokens = {2},
                   .rounds = 1,
                   .gives_up = {at_sums},
                   .dies = 1,
                   .dies_in = "combine",
                   .p2p_group_size = 1,
                   .carriers = 12},
                  one_token, 1),
  };
}

/// Places that things are put from and that are written again before what was there has arrived.
std::vector<mutant> bugs_of_reuse(const std::vector<verdict>& as) {
  using enum change;
  chunks_setting no_tokens{
      {.warps = {2}, .tokens = {0}, .rounds = 2, .p2p_group_size = 1, .carriers = 8}, one_token, 1};
  chunks_setting two_of_each{{.warps = {2},
                              .tokens = {2},
                              .route = routing::one_expert,
                              .rounds = 2,
                              .p2p_group_size = 1,
                              .carriers = 12},
                             one_token,
                             1};
  const ep::shape s = shape_of(two_of_each, 0);
  const ep::per_rank_chunks::cells window{s, one_token};
  const auto wrong = [&](const char* name, chunks_setting e, const planted_bug& bug) {
    e.bug = bug;
    return mutant{name, "S1", as,
                  [e](const check::bounds& limits) { return check_per_rank_chunks(e, limits); }};
  };
  constexpr verbs own_ids = verbs::store_lines | verbs::wait_lines | verbs::read | verbs::put,
                  own_tokens = verbs::bulk_store | verbs::put, own_sums = verbs::write | verbs::put;
  return {
      wrong("ids are put from one place in all rounds", no_tokens,
            {.what = own_ids,
             .how = moved,
             .cell = "odd ids of rank 1[4]",  // its own, which it puts
             .rank = 1,
             .by = -bytes_of_ids(no_tokens)}),
      wrong("a token is put from the place of the one before", two_of_each,
            {.what = own_tokens,
             .how = moved,
             .cell = "odd tokens of rank 1[6]",  // its own second one
             .rank = 1,
             .by = -std::int64_t{window.token_bytes}}),
      wrong("a sum is put from the place of the one before", two_of_each,
            {.what = own_sums,
             .how = moved,
             .cell = "sums to put of rank 0[3]",  // of rank 1's second token
             .rank = 0,
             .by = -std::int64_t{window.sum_bytes(s, token_format::bf16)}}),
  };
}

/// Rank 0 puts twice to rank 1, puts(x, first, second), which awaits the second put's word, or a signal, and reads what the first
/// one brings. Nothing orders that.
template <class Puts>
check::result check_read_by_another_word(const check::bounds& limits, Puts puts) {
  return check::explore(limits, [&puts](check::program& p) {
    auto* const from = p.allocate<vec16>(2, "from");
    auto* const to = p.allocate<vec16>(2, "to");
    auto* const words = p.allocate<std::uint64_t>(2, "words");
    const auto network = std::make_shared<far_network>(p, 1, 3);
    network->senders[0].warps = 1;
    const auto put = [=](int i) {
      return signalled_put{reinterpret_cast<std::byte*>(to + i),
                           reinterpret_cast<std::byte*>(from + i),
                           sizeof(vec16),
                           {1, words + i, 1}};
    };
    p.spawn(0, 0, 0, [=, &puts](check::context& x) {
      far_context mine{x, network.get()};
      for (int i = 0; i < 2; ++i) mine.elect([&] { mine.write(from + i, vec16{}); });
      puts(mine, put(0), put(1));
      network->end(x);
    });
    p.spawn(1, 0, 0, [=](check::context& x) {
      check::context::lanes<std::uint64_t*> awaited{};
      check::context::lanes<std::uint64_t> seen{};
      awaited[0] = words + 1;
      x.wait<order::acquire, scope::system>(
          awaited, [](int, std::uint64_t word) { return word != 0; }, {.where = "test"}, seen);
      x.elect([&] { x.read(to); });
    });
    for (int c = 0; c < network->carriers; ++c)
      p.spawn(2 + c, 0, 0, [=](const check::context& x) { network->carry(x, 0, c); });
  });
}

std::vector<mutant> bugs_of_words_of_their_own(const std::vector<verdict>& as) {
  const auto one = [](const signalled_put& p) { return [p](int) { return p; }; };
  const auto wrong = [&](const char* name, auto puts) {
    return mutant{name, "E1", as,
                  [puts](const check::bounds& limits) { return check_read_by_another_word(limits, puts); }};
  };
  return {
      wrong("a put's own word is taken for one of the put before it",
            [=](far_context& x, const signalled_put& first, const signalled_put& second) {
              x.sync_warp();
              x.put(first.word.rank, first.to, first.from, first.bytes);
              x.fence_puts();
              put_each_and_tell(x, 1u, one(second));
            }),
      wrong("a put's own word is taken for that of another one",
            [=](far_context& x, const signalled_put& first, const signalled_put& second) {
              put_each_and_tell(x, 1u, one(first));
              put_each_and_tell(x, 1u, one(second));
            }),
      wrong("a word behind a fence is taken for one of a put that has its own",
            [=](far_context& x, const signalled_put& first, const signalled_put& second) {
              put_each_and_tell(x, 1u, one(first));
              x.elect([&] { tell_of_puts(x, [&] { return second.word; }); });
            }),
  };
}

std::vector<mutant> bugs_of_chunks_apart() {
  using enum change;
  const std::vector<verdict> lost_order{verdict::data_race, verdict::broken_promise, verdict::garbage_read,
                                        verdict::deadlock, verdict::unordered_stores};
  const exchange_setting apart{.warps = {2}, .rounds = 2, .p2p_group_size = 1, .carriers = 8};
  const auto wrong_in = [&](const exchange_setting& setting, const char* name, const char* breaks,
                            const std::vector<verdict>& as, const planted_bug& bug) {
    chunks_setting e{setting, one_token, 1};
    e.bug = bug;
    return mutant{name, breaks, as,
                  [e](const check::bounds& limits) { return check_per_rank_chunks(e, limits); }};
  };
  const auto wrong = [&](const char* name, const char* breaks, const std::vector<verdict>& as,
                         const planted_bug& bug) { return wrong_in(apart, name, breaks, as, bug); };
  chunks_setting of_two{apart, two_tokens, 1};
  of_two.tokens = {2};
  of_two.route = routing::one_expert;
  of_two.bug = {.what = verbs::fence_puts, .how = lost};
  exchange_setting death = apart;
  death.rounds = 1, death.gives_up = {at_sums}, death.dies = 1, death.dies_in = "combine";
  std::vector<mutant> all{
      wrong_in(death, "a sum that a rank died before it sent counts as arrived", "E1, S1", lost_order,
               {.what = verbs::wait, .how = taken_for_success, .where = "combine.sum"}),
      {"words of two tokens do not wait for the puts before them", "E1", lost_order,
       [of_two](const check::bounds& limits) { return check_per_rank_chunks(of_two, limits); }},
      wrong("ids are put after their word", "E1", lost_order,
            {.what = verbs::put, .how = late, .cell = "even ids, odd ids", .until = verbs::signal}),
      wrong("tokens are put after their chunk's word", "E1, T3", lost_order,
            {.what = verbs::put, .how = late, .cell = "even tokens, odd tokens", .until = verbs::signal}),
      wrong("sums are put after their word", "E1, S1", lost_order,
            {.what = verbs::put, .how = late, .cell = "sums to put", .until = verbs::signal}),
      wrong("ids are not put", "Progress", lost_order,
            {.what = verbs::put, .how = lost, .cell = "even ids, odd ids"}),
      wrong("ids that were put are not awaited", "E1", lost_order,
            {.what = verbs::wait, .how = lost, .where = "dispatch.ids"}),
      wrong("ids that were put are awaited without acquire", "E1", lost_order,
            {.what = verbs::wait, .how = without_acquire, .where = "dispatch.ids"}),
      wrong("ids that were put are awaited at device scope", "E1", {verdict::scope_race},
            {.what = verbs::wait, .how = narrow, .where = "dispatch.ids"}),
      wrong("tokens that were put are copied to rows without a fence for the engine", "T3", lost_order,
            {.what = verbs::fence_proxy_global, .how = lost, .rank = 0}),
      wrong("tokens are put before their copies are done", "T3", lost_order,
            {.what = verbs::bulk_wait, .how = lost, .warp = 0}),
      wrong("sums are put before they are written", "S1", lost_order,
            {.what = verbs::write, .how = late, .cell = "sums to put", .until = verbs::signal}),
      wrong("a sum's word beyond the group is signalled to the own window", "S1", lost_order,
            {.what = verbs::signal, .how = own, .cell = "sum words"}),
      wrong("a chunk's word says the round before", "Start", lost_order,
            {.what = verbs::signal,
             .how = shifted,
             .cell = "even token words, odd token words",
             .by = -(std::int64_t{1} << 32)}),
  };
  for (const mutant& more : bugs_of_reuse(lost_order)) all.push_back(more);
  for (const mutant& more : bugs_of_words_of_their_own(lost_order)) all.push_back(more);
  return all;
}

}  // namespace

protocol_check exchange_chunks_groups_check() {
  const std::string kernels = "src/kernels/ep/per_rank_chunks/";
  std::vector<exploration> all = rounds_of_chunks_apart();
  for (const exploration& more : forms_of_chunks_apart()) all.push_back(more);
  for (const exploration& more : deaths_of_chunks_apart()) all.push_back(more);
  return {
      .name = "exchange_chunks_groups",
      .title =
          "Dispatch and combine in chunks beyond the p2p group: puts from the own window, fences and signals",
      .headers = {kernels + "cells.hpp", kernels + "dispatch.hpp", kernels + "send.hpp",
                  kernels + "tile_index.hpp", kernels + "combine.hpp", "src/protocol/told_puts.hpp",
                  "src/protocol/peer_window.hpp", "src/kernels/ep/per_rank/id_lines.hpp"},
      .explorations = std::move(all),
      .mutants = bugs_of_chunks_apart()};
}

}  // namespace baton::checks
