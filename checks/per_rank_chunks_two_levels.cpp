// Layout per_rank in chunks with two levels: what is put once to each other group, forwarded there, and comes back as one sum.
#include <utility>

#include "checks/all.hpp"
#include "checks/per_rank_chunks_exploration.hpp"

namespace baton::checks {
namespace {

using check::verdict;

using chunk_choices = ep::per_rank_chunks::chunk_settings;

constexpr chunk_choices one_token{.chunk_tokens = 1, .tile_tokens = 1},
    two_tokens{.chunk_tokens = 2, .tile_tokens = 4},
    short_pieces{.chunk_tokens = 1, .tile_tokens = 2, .piece_bytes = 512, .dispatch_stages = 1};

/// In groups of `group`.
chunks_setting forwarded(int group, exchange_setting e, const chunk_choices& chunks, std::uint32_t draws) {
  e.p2p_group_size = group;
  e.two_levels = true;
  return {e, chunks, draws};
}

exploration holds(const char* name, const chunks_setting& e) {
  return {name, [e](const check::bounds& limits) { return check_per_rank_chunks(e, limits); }};
}

std::vector<exploration> in_groups_of_one() {
  return {
      holds("2 ranks apart, 1 round, every order of takes",
            forwarded(1, {.warps = {2}, .rounds = 1, .carriers = 8}, one_token, 0)),
      holds("2 ranks apart, 3 rounds, takes drawn 3 times",
            forwarded(1, {.warps = {2}, .rounds = 3, .carriers = 8}, one_token, 3)),
      holds("2 ranks apart, of which the first has 2 blocks, 3 and 2 tokens, 2 rounds, takes drawn 2 times",
            forwarded(1, {.blocks = {2, 1}, .warps = {2}, .tokens = {3, 2}, .rounds = 2, .carriers = 12}, one_token, 2)),
      holds("2 ranks apart, 4 kernels a round, 2 rounds, takes drawn 2 times",
            forwarded(1, {.warps = {2}, .tokens = {2}, .rounds = 2, .carriers = 8, .is_apart = true}, one_token, 2)),
      holds("2 ranks apart, every wait may give up, takes drawn 2 times",
            forwarded(1, {.warps = {2}, .rounds = 1, .gives_up = {anywhere}, .carriers = 8}, one_token, 2)),
  };
}

std::vector<exploration> in_groups_of_two() {
  return {
      holds("4 ranks in groups of 2, a token of the first for the last, 2 rounds, takes drawn once",
            forwarded(2,
                      {.ranks = 4, .warps = {2}, .experts = 4, .tokens = {1, 0}, .route = routing::backwards, .rounds = 2, .carriers = 6},
                      one_token, 1)),
  };
}

}  // namespace

protocol_check exchange_chunks_two_levels_check() {
  const std::string kernels = "src/kernels/ep/per_rank_chunks/";
  std::vector<exploration> all = in_groups_of_one();
  for (const exploration& more : in_groups_of_two()) all.push_back(more);
  return {.name = "exchange_chunks_two_levels",
          .title = "Dispatch and combine in chunks with two levels: a token once to each other group, one sum back",
          .headers = {kernels + "two_levels.hpp", kernels + "forward.hpp", kernels + "wanted_tokens.hpp", kernels + "cells.hpp",
                      kernels + "dispatch.hpp", kernels + "send.hpp", kernels + "combine.hpp", kernels + "token_parts.hpp"},
          .explorations = std::move(all),
          .mutants = {}};
}

}  // namespace baton::checks
