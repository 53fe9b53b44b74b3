// Layout per_rank in chunks with two levels: what is put once to each other group, forwarded there, and comes back as one sum.
#include <utility>

#include "checks/all.hpp"
#include "checks/per_rank_chunks_exploration.hpp"

namespace baton::checks {
namespace {

using check::verdict;

constexpr ep::per_rank_chunks::chunk_settings a_token_each{.chunk_tokens = 1, .tile_tokens = 1},
    two_a_chunk{.chunk_tokens = 2, .tile_tokens = 4},
    two_that_send{.chunk_tokens = 1, .tile_tokens = 2, .dispatch_warps = 3, .dispatch_senders = 2},
    of_short_pieces{.chunk_tokens = 1, .tile_tokens = 2, .piece_bytes = 512, .dispatch_stages = 1};

/// In groups of `group`.
chunks_setting forwarded(int group, exchange_setting e, const ep::per_rank_chunks::chunk_settings& chunks,
                         std::uint32_t draws) {
  e.p2p_group_size = group;
  e.two_levels = true;
  return {e, chunks, draws};
}

/// A token of the first of four ranks for all. Its forwarder may give up while it awaits the group's sums, and it itself.
chunks_setting forwarder_gives_up() {
  exchange_setting e = {.ranks = 4,
                        .warps = {2},
                        .experts = 4,
                        .top_k = 4,
                        .tokens = {1, 0},
                        .rounds = 1,
                        .gives_up = {at_sums, nowhere, at_sums, nowhere},
                        .carriers = 6};
  return forwarded(2, e, {.chunk_tokens = 1, .tile_tokens = 1}, 1);
}

/// A token of the first of four ranks for the last. Its forwarder dies in combine, and who waits for sums may give up.
chunks_setting forwarder_dies() {
  exchange_setting e = {.ranks = 4,
                        .warps = {2},
                        .experts = 4,
                        .tokens = {1, 0},
                        .route = routing::backwards,
                        .rounds = 1,
                        .gives_up = {at_sums},
                        .dies = 2,
                        .dies_in = "combine",
                        .carriers = 6};
  return forwarded(2, e, {.chunk_tokens = 1, .tile_tokens = 1}, 1);
}

exploration forwarding_holds(const char* name, const chunks_setting& e) {
  return {name, [e](const check::bounds& limits) { return check_per_rank_chunks(e, limits); }};
}

/// In which the library takes one level: the fewest ranks that have forwarders, so that more of what they do can be explored.
std::vector<exploration> in_groups_of_one() {
  return {
      forwarding_holds(
          "2 ranks apart, a token of the first, 1 round, every order of takes",
          forwarded(1, {.warps = {2}, .tokens = {1, 0}, .rounds = 1, .carriers = 8}, a_token_each, 0)),
      forwarding_holds("2 ranks apart, 3 rounds, takes drawn 3 times",
                       forwarded(1, {.warps = {2}, .rounds = 3, .carriers = 8}, a_token_each, 3)),
      forwarding_holds(
          "2 ranks apart, of which the first has 2 blocks, 3 and 2 tokens, 2 rounds, takes drawn 2 times",
          forwarded(1, {.blocks = {2, 1}, .warps = {2}, .tokens = {3, 2}, .rounds = 2, .carriers = 12},
                    a_token_each, 2)),
      forwarding_holds(
          "2 ranks apart, 4 kernels a round, 2 rounds, takes drawn 2 times",
          forwarded(1, {.warps = {2}, .tokens = {2}, .rounds = 2, .carriers = 8, .is_apart = true},
                    a_token_each, 2)),
      forwarding_holds(
          "2 ranks apart, every wait may give up, takes drawn 2 times",
          forwarded(1, {.warps = {2}, .rounds = 1, .gives_up = {anywhere}, .carriers = 8}, a_token_each, 2)),
  };
}

/// Four ranks, whose tokens may want all of them.
exchange_setting of_four(int top_k, const std::vector<int>& tokens, int rounds) {
  return {.ranks = 4,
          .warps = {2},
          .experts = 4,
          .top_k = top_k,
          .tokens = tokens,
          .rounds = rounds,
          .carriers = 6};
}

std::vector<exploration> in_groups_of_two() {
  exchange_setting for_the_last = of_four(1, {1, 0}, 2), apart = of_four(4, {2, 1}, 2),
                   by_token = of_four(3, {2, 1}, 2), fp8 = of_four(4, {1, 0, 1}, 2),
                   pieces = of_four(4, {1, 0}, 1), holes = of_four(3, {2, 2, 1}, 1),
                   blocks = of_four(3, {2, 1}, 1), six = of_four(6, {1, 0}, 1),
                   six_apart = of_four(6, {1, 0, 0, 1, 0, 0}, 2);
  for_the_last.route = routing::backwards;
  apart.is_apart = true;
  by_token.rows = ep::row_storage::in_window;
  fp8.hidden = 384, fp8.fp8_sums = true;
  pieces.hidden = 456;
  holes.route = routing::with_holes;
  blocks.blocks = {1, 1, 2, 1}, blocks.warps = {3}, blocks.carriers = 4;
  six.ranks = six.experts = 6, six.carriers = 3;
  six_apart.ranks = six_apart.experts = 6, six_apart.carriers = 3, six_apart.is_apart = true;
  return {
      forwarding_holds(
          "4 ranks in groups of 2, a token of the first for the last, 2 rounds, takes drawn once",
          forwarded(2, for_the_last, a_token_each, 1)),
      forwarding_holds("4 ranks in groups of 2, top 4 of 4 experts, 3 rounds, takes drawn 2 times",
                       forwarded(2, of_four(4, {1}, 3), a_token_each, 2)),
      forwarding_holds("4 ranks in groups of 2, 3 chunks of the first, takes drawn once",
                       forwarded(2, of_four(3, {3, 0}, 1), a_token_each, 1)),
      forwarding_holds("4 ranks in groups of 2, chunks of 2, 2 rounds, takes drawn 2 times",
                       forwarded(2, of_four(2, {3, 2}, 2), two_a_chunk, 2)),
      forwarding_holds("4 ranks in groups of 2, 4 kernels a round, 2 rounds, takes drawn 2 times",
                       forwarded(2, apart, a_token_each, 2)),
      forwarding_holds("4 ranks in groups of 2, tokens stay where they arrive, 2 rounds, takes drawn 2 times",
                       forwarded(2, by_token, a_token_each, 2)),
      forwarding_holds("4 ranks in groups of 2, sums in block FP8, 2 rounds, takes drawn once",
                       forwarded(2, fp8, a_token_each, 1)),
      forwarding_holds("4 ranks in groups of 2, tokens of 2 pieces, one stage, takes drawn once",
                       forwarded(2, pieces, of_short_pieces, 1)),
      forwarding_holds("4 ranks in groups of 2, ids that are no expert's, takes drawn 2 times",
                       forwarded(2, holes, a_token_each, 2)),
      forwarding_holds("4 ranks in groups of 2, of which one has 2 blocks of 3 warps, takes drawn once",
                       forwarded(2, blocks, two_that_send, 1)),
      forwarding_holds("4 ranks in groups of 2, a forwarder may give up what it awaits of its group",
                       forwarder_gives_up()),
      forwarding_holds(
          "4 ranks in groups of 2, a token of the first for the last, whose forwarder dies at any "
          "step of combine",
          forwarder_dies()),
      forwarding_holds("6 ranks in groups of 3, top 6 of 6 experts, takes drawn once",
                       forwarded(3, six, a_token_each, 1)),
      forwarding_holds("6 ranks in groups of 2, 4 kernels a round, tokens of two ranks for all, 2 rounds, "
                       "takes drawn once",
                       forwarded(2, six_apart, a_token_each, 1)),
  };
}

struct two_level_bugs {
  using enum change;
  static constexpr const char *words = "even token words, odd token words",
                              *forward_words = "even forward words, odd forward words";
  const std::vector<verdict> lost_order{verdict::data_race, verdict::broken_promise, verdict::garbage_read,
                                        verdict::deadlock, verdict::unordered_stores};
  /// Tokens of rank 0 for ranks 1 to 3, which rank 2 forwards to rank 3.
  const chunks_setting one_source = forwarded(2, of_four(3, {1, 0}, 2), a_token_each, 1);
  const chunks_setting any_take =
      forwarded(1, {.warps = {2}, .tokens = {1, 0}, .rounds = 1, .carriers = 8}, a_token_each, 0);
  const chunks_setting gives_up =
      forwarded(1, {.warps = {2}, .rounds = 1, .gives_up = {anywhere}, .carriers = 8}, a_token_each, 1);

  static mutant wrong_in(chunks_setting e, const char* name, const char* breaks,
                         const std::vector<verdict>& as, const planted_bug& bug) {
    e.bug = bug;
    return mutant{name, breaks, as,
                  [e](const check::bounds& limits) { return check_per_rank_chunks(e, limits); }};
  }
  /// Two tokens of rank 0, a chunk each, which rank 2 forwards to rank 3.
  static chunks_setting two_chunks() { return forwarded(2, of_four(3, {2, 0}, 1), a_token_each, 1); }
  /// Tokens of ranks 0 and 4, which rank 2 forwards to rank 3.
  static chunks_setting two_sources() {
    exchange_setting e = of_four(6, {1, 0, 0, 0, 1, 0}, 1);
    e.ranks = e.experts = 6, e.carriers = 3;
    return forwarded(2, e, a_token_each, 1);
  }
  mutant wrong(const char* name, const char* breaks, const std::vector<verdict>& as,
               const planted_bug& bug) const {
    return wrong_in(one_source, name, breaks, as, bug);
  }

  std::vector<mutant> of_tokens() const {
    return {
        wrong_in(forwarded(2, of_four(3, {2, 0}, 2), two_a_chunk, 1),
                 "forward words of two tokens do not wait for the puts before them", "E1", lost_order,
                 {.what = verbs::fence_puts, .how = lost, .rank = 0, .warp = 0}),
        wrong("tokens are put after their forward word", "E1", lost_order,
              {.what = verbs::put, .how = late, .cell = "even tokens, odd tokens", .until = verbs::signal}),
        wrong("a forward word is not awaited", "F1", lost_order,
              {.what = verbs::wait, .how = lost, .where = "dispatch.forward"}),
        wrong("a forward word is awaited without acquire", "F1", lost_order,
              {.what = verbs::wait, .how = without_acquire, .where = "dispatch.forward"}),
        wrong("a forward word is awaited at device scope", "F1", {verdict::scope_race},
              {.what = verbs::wait, .how = narrow, .where = "dispatch.forward"}),
        wrong("a forward word says the round before", "Start", lost_order,
              {.what = verbs::signal, .how = shifted, .cell = forward_words, .by = -(std::int64_t{1} << 32)}),
        wrong("a forward word is told to the own rank", "E1", lost_order,
              {.what = verbs::signal, .how = own, .cell = forward_words}),
        wrong("a chunk's word is forwarded before its tokens are there", "F1", lost_order,
              {.what = verbs::bulk_wait, .how = lost, .rank = 2, .warp = 0, .time = 2}),
        wrong_in(
            two_chunks(),
            "a chunk's word is forwarded when the next one is on its way, before its own tokens are there",
            "F1", lost_order, {.what = verbs::bulk_wait, .how = lost, .rank = 2, .warp = 0, .time = 2}),
        wrong("what was put is forwarded without a fence for the engine", "F1", lost_order,
              {.what = verbs::fence_proxy_global, .how = lost, .rank = 2}),
        wrong("a forwarded chunk is copied to rows without a fence for the engine", "F1", lost_order,
              {.what = verbs::fence_proxy_global, .how = lost, .rank = 3}),
        wrong("a forwarded chunk's word is stored relaxed", "F1", lost_order,
              {.what = verbs::release_store, .how = relaxed, .cell = words, .rank = 2}),
        wrong("a forwarded chunk's word is for its own device", "F1", {verdict::scope_race},
              {.what = verbs::release_store, .how = narrow, .cell = words, .rank = 2}),
        wrong("a forwarder does not tell itself of a chunk", "Progress", lost_order,
              {.what = verbs::release_store, .how = lost, .cell = words, .rank = 2, .time = 1}),
        wrong("who wants what is not noted", "Progress", lost_order,
              {.what = verbs::write, .how = lost, .cell = "wanted"}),
    };
  }

  std::vector<mutant> of_sums() const {
    return {
        wrong("sums of a group are not awaited", "F2", lost_order,
              {.what = verbs::wait, .how = lost, .where = "combine.forward"}),
        wrong("sums of a group are awaited without acquire", "F2", lost_order,
              {.what = verbs::wait, .how = without_acquire, .where = "combine.forward"}),
        wrong("sums of a group are awaited at device scope", "F2", {verdict::scope_race},
              {.what = verbs::wait, .how = narrow, .where = "combine.forward"}),
        wrong("a sum for a forwarder is told of before it is stored", "F2", lost_order,
              {.what = verbs::write, .how = late, .cell = "sums", .rank = 3}),
        wrong("a forwarder is told of a sum by a relaxed store", "F2", lost_order,
              {.what = verbs::release_store, .how = relaxed, .cell = "sum words", .rank = 3}),
        wrong("a forwarder is told of a sum at device scope", "F2", {verdict::scope_race},
              {.what = verbs::release_store, .how = narrow, .cell = "sum words", .rank = 3}),
        wrong("a group's sum is put before it is written", "S1", lost_order,
              {.what = verbs::write, .how = late, .cell = "sums to put", .until = verbs::signal}),
        wrong("a group's sum is put after its word", "S1", lost_order,
              {.what = verbs::put, .how = late, .cell = "sums to put", .until = verbs::signal}),
        wrong("a group's sum is told to the own window", "S1", lost_order,
              {.what = verbs::signal, .how = own, .cell = "sum words"}),
        wrong_in(
            two_sources(), "a forwarder's cell is used for another group's token before it has read it", "L2",
            lost_order,
            {.what = verbs::write, .how = moved, .cell = "sums of rank 2", .rank = 3, .time = 2, .by = 64}),
        wrong_in(any_take, "a part is forwarded twice", "D1", lost_order,
                 {.what = verbs::add, .how = shifted, .cell = "taken to forward", .time = 4, .by = -1}),
        wrong(
            "a chunk is forwarded twice", "D1", lost_order,
            {.what = verbs::add, .how = shifted, .cell = "taken to forward", .rank = 2, .time = 3, .by = -1}),
        wrong_in(any_take, "a forwarder leaves before it has forwarded", "Progress", lost_order,
                 {.what = verbs::add, .how = shifted, .cell = "taken to forward", .by = 64}),
        wrong_in(gives_up, "a wait of a forwarder that gave up counts as arrived", "F1",
                 {verdict::broken_promise, verdict::outside_memory, verdict::data_race},
                 {.what = verbs::wait, .how = taken_for_success, .where = "dispatch.forward"}),
        wrong_in(forwarder_dies(), "a sum that a forwarder died before it sent counts as arrived", "S1",
                 lost_order, {.what = verbs::wait, .how = taken_for_success, .where = "combine.sum"}),
        wrong_in(forwarder_gives_up(), "a sum is forwarded by who gave up awaiting another one", "F2",
                 {verdict::broken_promise, verdict::data_race, verdict::garbage_read},
                 {.what = verbs::wait, .how = taken_for_success, .where = "combine.forward"}),
    };
  }
};

}  // namespace

protocol_check exchange_chunks_two_levels_check() {
  const std::string kernels = "src/kernels/ep/per_rank_chunks/";
  std::vector<exploration> all = in_groups_of_one();
  const two_level_bugs bugs;
  std::vector<mutant> mutants = bugs.of_tokens();
  for (const mutant& more : bugs.of_sums()) mutants.push_back(more);
  for (const exploration& more : in_groups_of_two()) all.push_back(more);
  return {
      .name = "exchange_chunks_two_levels",
      .title =
          "Dispatch and combine in chunks with two levels: a token once to each other group, one sum back",
      .headers = {kernels + "two_levels.hpp", kernels + "forward.hpp", kernels + "wanted_tokens.hpp",
                  kernels + "cells.hpp", kernels + "dispatch.hpp", kernels + "send.hpp",
                  kernels + "combine.hpp", kernels + "token_parts.hpp"},
      .explorations = std::move(all),
      .mutants = std::move(mutants)};
}

}  // namespace baton::checks
