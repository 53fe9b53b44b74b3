// Layout per_rank in chunks: rounds in a row on the same cells, and ranks that give up at any wait.
#include "checks/all.hpp"
#include "checks/per_rank_chunks_exploration.hpp"
#include "protocol/line.hpp"

namespace baton::checks {
namespace {

using check::verdict;

exploration holds(const char* name, const chunks_setting& e) {
  return {name, [e](const check::bounds& limits) { return check_per_rank_chunks(e, limits); }};
}

constexpr auto of_shares = ep::per_rank_chunks::taking::of_shares,
               of_all = ep::per_rank_chunks::taking::of_all;
constexpr ep::per_rank_chunks::chunk_settings single{.chunk_tokens = 1, .tile_tokens = 1, .takes = of_shares},
    single_of_all{.chunk_tokens = 1, .tile_tokens = 1, .takes = of_all},
    two_of_all{.chunk_tokens = 1, .tile_tokens = 2, .takes = of_all};
/// Of three warps, two send.
constexpr ep::per_rank_chunks::chunk_settings two_send{
    .chunk_tokens = 1, .tile_tokens = 2, .dispatch_warps = 3, .dispatch_senders = 2, .takes = of_shares},
    two_send_of_all{
        .chunk_tokens = 1, .tile_tokens = 2, .dispatch_warps = 3, .dispatch_senders = 2, .takes = of_all};
constexpr ep::per_rank_chunks::chunk_settings pairs{.chunk_tokens = 2, .tile_tokens = 4};
constexpr ep::per_rank_chunks::chunk_settings one_stage{
    .chunk_tokens = 1, .tile_tokens = 2, .piece_bytes = 512, .dispatch_stages = 1};
constexpr ep::per_rank_chunks::chunk_settings two_stages{
    .chunk_tokens = 1, .tile_tokens = 2, .piece_bytes = 512, .dispatch_stages = 2};
/// Combine's warps in a team of one adder. Parts are dealt before: nothing is taken in it.
constexpr ep::per_rank_chunks::chunk_settings in_team(const ep::per_rank_chunks::team_roles& team) {
  return {.chunk_tokens = 1, .tile_tokens = 2, .dispatch_senders = 1, .teams = team};
}
constexpr ep::per_rank_chunks::chunk_settings team{in_team({.teams = 1, .stages = 2})},
    one_at_a_time{in_team({.teams = 1, .stages = 1})},
    told_together{in_team({.teams = 1, .stages = 2, .ahead = 1, .at_once = 2})};

constexpr ep::per_rank_chunks::chunk_settings four_at_once{
    .chunk_tokens = 1, .tile_tokens = 2, .told_at_once = 4},
    sums_in_threes{.chunk_tokens = 1, .tile_tokens = 2, .sums_at_once = 3};

/// Teams make sums that travel in FP8, of whole blocks of columns.
chunks_setting in_fp8(chunks_setting e) {
  e.fp8_sums = true;
  e.hidden = align_up(e.hidden, 128);
  return e;
}
exploration holds_in_teams(const char* name, const chunks_setting& e) {
  return holds(name, in_fp8(e));
}

std::vector<exploration> in_teams() {
  return {
      holds_in_teams("2 ranks in teams, 2 rounds, takes drawn once", {{.warps = {4}, .rounds = 2}, team, 1}),
      holds_in_teams("2 ranks in teams, 3 and 2 tokens, sums told of one by one, takes drawn 2 times",
                     {{.warps = {4}, .tokens = {3, 2}, .rounds = 2}, team, 2}),
      holds_in_teams(
          "2 ranks in teams, 3 and 2 tokens, one stage, two sums told of at once, takes drawn 2 times",
          {{.warps = {4}, .tokens = {3, 2}, .rounds = 1},
           in_team({.teams = 1, .stages = 1, .ahead = 1, .at_once = 2}),
           2}),
      holds_in_teams(
          "2 ranks in teams, all tokens to one expert, two sums told of at once, takes drawn once",
          {{.warps = {4}, .tokens = {4, 2}, .route = routing::one_expert, .rounds = 2}, told_together, 1}),
      holds_in_teams("2 ranks, of which the first has 2 blocks of teams, 2 rounds, takes drawn once",
                     {{.blocks = {2, 1}, .warps = {4}, .tokens = {3, 2}, .rounds = 2}, told_together, 1}),
      holds_in_teams("3 ranks in teams, top 3 of 3 experts, takes drawn once",
                     {{.ranks = 3, .warps = {4}, .experts = 3, .top_k = 3, .rounds = 1}, team, 1}),
      holds_in_teams(
          "2 ranks in teams, ids that are no expert's, takes drawn once",
          {{.warps = {4}, .experts = 4, .top_k = 3, .tokens = {2}, .route = routing::with_holes, .rounds = 1},
           told_together,
           1}),
      holds_in_teams(
          "2 ranks in teams, two blocks of columns, one stage, 2 rounds, takes drawn once",
          {{.warps = {4}, .top_k = 2, .hidden = 256, .tokens = {2, 1}, .rounds = 2}, one_at_a_time, 1}),
      holds_in_teams(
          "2 ranks in teams, all tokens to both ranks, three sums told of at once, takes drawn once",
          {{.warps = {4}, .top_k = 2, .tokens = {2}, .rounds = 1},
           in_team({.teams = 1, .stages = 2, .ahead = 2, .at_once = 3}),
           1}),
      holds_in_teams("3 ranks, each of two teams, tokens to all of them, takes drawn once",
                     {{.ranks = 3, .warps = {8}, .experts = 3, .top_k = 3, .tokens = {2}, .rounds = 1},
                      in_team({.teams = 2, .stages = 2}),
                      1}),
      holds_in_teams(
          "2 ranks of 3 in teams, 2 rounds, takes drawn once",
          {{.ranks = 3, .warps = {4}, .experts = 3, .top_k = 3, .rounds = 2, .absent = 0b010}, team, 1}),
      holds_in_teams("1 rank in a team, every wait may give up, takes drawn once",
                     {{.ranks = 1, .warps = {4}, .rounds = 1, .gives_up = {anywhere}}, team, 1}),
  };
}

std::vector<exploration> every_order_of_takes() {
  return {
      holds("2 ranks, 1 round", {{.warps = {2}, .rounds = 1}, single}),
      holds("1 rank, 2 rounds", {{.ranks = 1, .warps = {2}, .rounds = 2}, single}),
      holds("2 ranks, the first with no token, 1 round",
            {{.warps = {2}, .tokens = {0, 1}, .route = routing::one_expert, .rounds = 1}, single}),
      holds("2 ranks, taken of all, 1 round", {{.warps = {2}, .rounds = 1}, single_of_all}),
      holds("1 rank, taken of all, 2 rounds", {{.ranks = 1, .warps = {2}, .rounds = 2}, single_of_all}),
      holds("1 rank of 2 blocks, every order of takes of all, others drawn once",
            {{.ranks = 1, .blocks = {2}, .warps = {2}, .tokens = {1}, .rounds = 1}, two_of_all, 1, true}),
      holds("1 rank of 2, beside the other, which was left out and sends until it gives up",
            {{.warps = {2},
              .top_k = 2,
              .rounds = 1,
              .gives_up = {nowhere, anywhere},
              .absent = 0b10,
              .absent_ranks_run = true},
             single}),
      holds("1 rank, every wait may give up",
            {{.ranks = 1, .warps = {2}, .rounds = 1, .gives_up = {anywhere}}, single}),
      holds("2 ranks, a token of the second to the first, every wait may give up",
            {{.warps = {2},
              .tokens = {0, 1},
              .route = routing::one_expert,
              .rounds = 1,
              .gives_up = {anywhere}},
             single}),
  };
}

std::vector<exploration> drawn_takes() {
  const exchange_setting stay{.blocks = {2},
                              .warps = {3},
                              .experts = 4,
                              .top_k = 2,
                              .tokens = {3, 2},
                              .rounds = 3,
                              .rows = ep::row_storage::in_window};
  return {
      holds("2 ranks of 2 blocks of 3 warps, 3 rounds, takes drawn 20 times",
            {{.blocks = {2}, .warps = {3}, .tokens = {3, 2}, .rounds = 3}, two_send, 20}),
      holds("2 ranks of 2 blocks of 3 warps, taken of all, 3 rounds, takes drawn 20 times",
            {{.blocks = {2}, .warps = {3}, .tokens = {3, 2}, .rounds = 3}, two_send_of_all, 20}),
      holds(
          "2 ranks of 2 blocks, taken of all, 4 kernels a round, 3 rounds, takes drawn 5 times",
          {{.blocks = {2}, .warps = {2}, .tokens = {2}, .rounds = 3, .is_apart = true}, two_send_of_all, 5}),
      holds("2 ranks of 2 blocks, taken of all, tokens stay where they arrive, 3 rounds, takes drawn 5 times",
            {stay, two_send_of_all, 5}),
      holds("2 ranks of 2 blocks, all tokens to one expert, 2 rounds, takes drawn 5 times",
            {{.blocks = {2}, .warps = {3}, .tokens = {4, 2}, .route = routing::one_expert, .rounds = 2},
             two_send,
             5}),
      holds("2 ranks with no token, 4 rounds, takes drawn 2 times",
            {{.warps = {2}, .tokens = {0}, .rounds = 4}, single, 2}),
      holds("2 ranks, the second with no token, 3 rounds, takes drawn 5 times",
            {{.blocks = {2, 1}, .warps = {2}, .tokens = {2, 0}, .rounds = 3}, two_send, 5}),
      holds("2 ranks of 3, 2 rounds, takes drawn 5 times", {{.ranks = 3,
                                                             .warps = {3},
                                                             .experts = 3,
                                                             .top_k = 2,
                                                             .tokens = {3, 2},
                                                             .rounds = 2,
                                                             .absent = 0b001},
                                                            two_send,
                                                            5}),
      holds("3 ranks, tokens to all of them, takes drawn 8 times",
            {{.ranks = 3, .warps = {2}, .experts = 3, .top_k = 3, .tokens = {3}, .rounds = 1}, single, 8}),
      holds("2 ranks of 5 experts, top 2, chunks of 2, tiles of 4, 2 rounds, takes drawn 5 times",
            {{.blocks = {2}, .warps = {3}, .experts = 10, .top_k = 2, .tokens = {5, 3}, .rounds = 2},
             pairs,
             5}),
      holds(
          "2 ranks, a token lists an expert twice, 2 rounds, takes drawn 2 times",
          {{.warps = {2}, .top_k = 2, .tokens = {2}, .route = routing::repeated, .rounds = 2}, two_send, 2}),
      holds(
          "2 ranks, a token lists an expert nine times, 2 rounds, takes drawn 2 times",
          {{.warps = {2}, .top_k = 9, .tokens = {2}, .route = routing::repeated, .rounds = 2}, two_send, 2}),
      holds(
          "2 ranks, ids that are no expert's, 1 round, takes drawn 2 times",
          {{.warps = {2}, .experts = 4, .top_k = 3, .tokens = {2}, .route = routing::with_holes, .rounds = 1},
           pairs,
           2}),
      holds("2 ranks, tokens of 2 pieces, one stage, 2 rounds, takes drawn 3 times",
            {{.warps = {2}, .hidden = 456, .tokens = {2}, .rounds = 2}, one_stage, 3}),
      holds("2 ranks, tokens of 2 pieces, two stages, 2 rounds, takes drawn 3 times",
            {{.warps = {2}, .hidden = 456, .tokens = {2}, .rounds = 2}, two_stages, 3}),
      holds("3 ranks, 2 rounds, takes drawn 5 times",
            {{.ranks = 3, .warps = {2}, .experts = 3, .rounds = 2}, single, 5}),
      holds("2 ranks, 4 kernels a round, 3 rounds, takes drawn 5 times",
            {{.blocks = {2}, .warps = {2}, .tokens = {2}, .rounds = 3, .is_apart = true}, two_send, 5}),
      holds("2 ranks of 2 blocks, tokens stay where they arrive, 3 rounds, takes drawn 5 times",
            {stay, two_send, 5}),
  };
}

std::vector<exploration> drawn_takes_of_sums_and_ends() {
  return {
      holds("2 ranks, sums in block FP8, 2 rounds, takes drawn 2 times",
            {{.warps = {2}, .hidden = 384, .tokens = {2, 1}, .rounds = 2, .fp8_sums = true}, single, 2}),
      holds("2 ranks, chunks told of four at once, 2 rounds, takes drawn 3 times",
            {{.warps = {2}, .tokens = {6, 3}, .rounds = 2}, four_at_once, 3}),
      holds("2 ranks, sums told of three at once, 2 rounds, takes drawn 3 times",
            {{.warps = {2}, .tokens = {6, 3}, .rounds = 2}, sums_in_threes, 3}),
      holds("1 rank, 3 rounds, every wait may give up, takes drawn 4 times",
            {{.ranks = 1, .warps = {2}, .rounds = 3, .gives_up = {anywhere}}, single, 4}),
      holds("2 ranks, every wait may give up, takes drawn 4 times",
            {{.warps = {2}, .rounds = 1, .gives_up = {anywhere}}, single, 4}),
      holds("2 ranks, the first of 2 blocks, a token of the second to the first, every wait may give up, "
            "takes drawn once",
            {{.blocks = {2, 1},
              .warps = {2},
              .tokens = {0, 1},
              .route = routing::one_expert,
              .rounds = 1,
              .gives_up = {anywhere}},
             single,
             1}),
  };
}

// Cells, as per_rank_chunks_exploration.cpp names them.
constexpr const char *chunk_ids = "even ids, odd ids", *token_words = "even token words, odd token words";

/// What the planted bugs are looked for in, and what may come of them.
struct chunk_bugs {
  using enum change;
  static constexpr verbs waits = verbs::wait_lines;
  const std::vector<verdict> lost_order{verdict::data_race, verdict::broken_promise, verdict::garbage_read,
                                        verdict::deadlock, verdict::unordered_stores};
  const chunks_setting two{{.warps = {2}, .rounds = 2}, single, 1},
      blocks{{.blocks = {2}, .warps = {3}, .tokens = {3, 2}, .rounds = 2}, two_send, 1},
      staged{{.warps = {2}, .hidden = 456, .tokens = {2}, .rounds = 1}, one_stage, 1},
      indexed{{.warps = {3}, .tokens = {2}, .rounds = 1}, single, 1},
      in_window{{.warps = {2}, .rounds = 2, .rows = ep::row_storage::in_window}, single, 1},
      any_take{{.warps = {2}, .rounds = 1}, single},
      blocks_of_all{
          {.ranks = 1, .blocks = {2}, .warps = {2}, .tokens = {2}, .rounds = 1}, two_of_all, 1, true},
      again_of_all{{.ranks = 1, .warps = {2}, .rounds = 2}, single_of_all},
      gives_up{{.warps = {2}, .rounds = 1, .gives_up = {anywhere}}, single, 1},
      teams{in_fp8({{.warps = {4}, .tokens = {3, 2}, .rounds = 2}, team, 1})},
      tight{in_fp8({{.warps = {4}, .tokens = {3}, .rounds = 1}, one_at_a_time, 1})},
      many{in_fp8({{.warps = {4}, .tokens = {2, 8}, .route = routing::one_expert, .rounds = 1}, team, 1})},
      held_back{in_fp8({{.warps = {4}, .tokens = {3, 2}, .rounds = 1}, told_together, 1})};

  static mutant wrong(const char* name, const char* breaks, const std::vector<verdict>& as,
                      const planted_bug& bug, chunks_setting e) {
    e.bug = bug;
    return mutant{name, breaks, as,
                  [e](const check::bounds& limits) { return check_per_rank_chunks(e, limits); }};
  }

  std::vector<mutant> of_rows() const {
    return {
        wrong("ids are not sent to one rank", "Progress", lost_order,
              {.what = verbs::store_lines,
               .how = lost,
               .cell = "even ids of rank 1, odd ids of rank 1",
               .rank = 0},
              two),
        wrong("ids are not awaited", "L1", lost_order, {.what = waits, .how = lost, .cell = chunk_ids}, two),
        wrong("a line of ids tears", "L1", lost_order,
              {.what = verbs::store_lines, .how = torn, .cell = chunk_ids}, two),
        wrong("ids have one copy of cells", "L2", lost_order,
              {.what = verbs::store_lines | waits, .how = moved, .cell = "odd ids", .by = -bytes_of_ids(two)},
              {{.warps = {2}, .tokens = {0}, .rounds = 2}, single, 1}),
        wrong("a tile is told of before its counts are there", "T1", lost_order,
              {.what = verbs::write, .how = late, .cell = "tile counts"}, blocks),
        wrong("a tile's word is stored relaxed", "T1", lost_order,
              {.what = verbs::release_store, .how = relaxed, .cell = "tile words"}, blocks),
        wrong("a tile's word is for its block only", "T1", {verdict::scope_race},
              {.what = verbs::release_store, .how = narrow, .cell = "tile words"}, blocks),
        wrong("tiles are awaited without acquire", "T1", lost_order,
              {.what = verbs::wait, .how = without_acquire, .where = "dispatch.tile"}, blocks),
        wrong("tiles are not awaited", "T1", lost_order,
              {.what = verbs::wait, .how = lost, .where = "dispatch.tile"}, blocks),
        wrong("tiles are awaited that the round before noted", "T1", lost_order,
              {.what = verbs::wait, .how = shifted, .where = "dispatch.tile", .by = 1}, blocks),
        wrong("first rows are found before all shares are added up", "T2", lost_order,
              {.what = verbs::mbarrier_wait, .how = lost, .where = "dispatch.rows_summed"}, indexed),
        wrong("rows are used before they are known", "T2", lost_order,
              {.what = verbs::mbarrier_wait, .how = lost, .where = "dispatch.rows_known"}, two),
    };
  }

  std::vector<mutant> of_chunks() const {
    return {
        wrong("a chunk is told of before its copies are awaited", "T3", lost_order,
              {.what = verbs::bulk_wait, .how = lost}, two),
        wrong("a chunk is told of with those before it", "T3", lost_order,
              {.what = verbs::bulk_wait, .how = shifted}, two),
        wrong("chunks are told of at once before the first of them is done", "T3", lost_order,
              {.what = verbs::bulk_wait, .how = lost},
              {{.warps = {2}, .tokens = {6, 3}, .rounds = 1}, four_at_once, 1}),
        wrong("a chunk's word is stored relaxed", "T3", lost_order,
              {.what = verbs::release_store, .how = relaxed, .cell = token_words}, two),
        wrong("a chunk's word is for its own device", "T3", {verdict::scope_race},
              {.what = verbs::release_store, .how = narrow, .cell = token_words}, two),
        wrong("a chunk's word is awaited without acquire", "T3", lost_order,
              {.what = verbs::wait, .how = without_acquire, .where = "dispatch.chunk"}, two),
        wrong("a chunk is not awaited", "T3", lost_order,
              {.what = verbs::wait, .how = lost, .where = "dispatch.chunk"}, two),
        wrong("no fence lies between a chunk's copies in and out", "T3", lost_order,
              {.what = verbs::fence_proxy_global, .how = lost}, two),
        wrong("a chunk that stays where it arrives is not awaited", "T3", lost_order,
              {.what = verbs::wait, .how = lost, .where = "dispatch.chunk"}, in_window),
        wrong("a chunk's word says the round before", "Start", lost_order,
              {.what = verbs::release_store,
               .how = shifted,
               .cell = token_words,
               .by = -(std::int64_t{1} << 32)},
              two),
        wrong("what is cast is copied without a fence", "R3", lost_order,
              {.what = verbs::fence_proxy, .how = lost, .warp = 0}, two),
        wrong("rooms that were indexed in are filled without a fence", "R1", lost_order,
              {.what = verbs::fence_proxy, .how = lost, .warp = 1}, two),
        wrong("a place is taken again while copies read it", "R2, R3", lost_order,
              {.what = verbs::bulk_wait_read, .how = lost}, staged),
        wrong("a piece is used before it is here", "R1", lost_order,
              {.what = verbs::mbarrier_wait, .how = lost, .where = "dispatch.piece"}, two),
        wrong("a stage expects sixteen bytes fewer", "R1", lost_order,
              {.what = verbs::mbarrier_expect, .how = shifted, .by = -16}, two),
    };
  }

  std::vector<mutant> of_takes_and_sums() const {
    return {
        wrong("two warps take one chunk to send", "D1", lost_order,
              {.what = verbs::add, .how = shifted, .cell = "taken to send", .time = 1, .by = -1}, any_take),
        wrong("a chunk is passed over", "D1", lost_order,
              {.what = verbs::add, .how = shifted, .cell = "taken to send", .by = 1},
              {{.warps = {2}, .tokens = {2}, .rounds = 1}, single}),
        wrong("two warps take one chunk to receive", "D1", lost_order,
              {.what = verbs::add, .how = shifted, .cell = "taken to receive", .time = 1, .by = -1},
              any_take),
        wrong("nobody takes a chunk to receive", "D1", lost_order,
              {.what = verbs::add, .how = shifted, .cell = "taken to receive", .by = 1}, any_take),
        wrong("two blocks take one chunk of all", "D2", lost_order,
              {.what = verbs::add, .how = shifted, .cell = "chunks taken of all", .time = 1, .by = -1},
              blocks_of_all),
        wrong("a chunk of all is passed over", "D2", lost_order,
              {.what = verbs::add, .how = shifted, .cell = "chunks taken of all", .by = 1}, blocks_of_all),
        wrong("a sum of all is passed over", "D2", lost_order,
              {.what = verbs::add, .how = shifted, .cell = "sums taken of all", .by = 1}, blocks_of_all),
        wrong("nobody clears what dispatch took", "D2", lost_order,
              {.what = verbs::write, .how = lost, .cell = "chunks taken of all"}, again_of_all),
        wrong("nobody clears what combine took", "D2", lost_order,
              {.what = verbs::write, .how = lost, .cell = "sums taken of all"}, again_of_all),
        wrong("sums are told of before they are stored", "S1", lost_order,
              {.what = verbs::write, .how = late, .cell = "sums"}, two),
        wrong("sums are told of at once before the last of them is stored", "S1", lost_order,
              {.what = verbs::write, .how = late, .cell = "sums"},
              {{.warps = {2}, .tokens = {6, 3}, .rounds = 1}, sums_in_threes, 1}),
        wrong("a sum's word is stored relaxed", "S1", lost_order,
              {.what = verbs::release_store, .how = relaxed, .cell = "sum words"}, two),
        wrong("a sum's word is for its own device", "S1", {verdict::scope_race},
              {.what = verbs::release_store, .how = narrow, .cell = "sum words"}, two),
        wrong("sums are awaited without acquire", "S1", lost_order,
              {.what = verbs::wait, .how = without_acquire, .where = "combine.sum"}, two),
        wrong("sums are not awaited", "S1", lost_order,
              {.what = verbs::wait, .how = lost, .where = "combine.sum"}, two),
        wrong("kernels do not await those before them", "K1", lost_order,
              {.what = verbs::await_dependencies, .how = lost}, blocks),
        wrong("dispatch ends before its copies to rows are done", "K1",
              {verdict::data_race, verdict::loose_end}, {.what = verbs::bulk_wait, .how = lost, .warp = 1},
              two),
        wrong("combine writes the round that it reads", "Start", lost_order,
              {.what = verbs::write, .how = moved, .cell = "round combined", .by = -8}, two),
        wrong("dispatch does not count rounds", "Start", lost_order,
              {.what = verbs::write, .how = lost, .cell = "round dispatched"}, two),
        wrong("kernels do not look whether their rank gave up", "Progress", {verdict::broken_promise},
              {.what = verbs::has_given_up, .how = lost}, gives_up),
        wrong("a wait for lines that gave up counts as arrived", "L1",
              {verdict::broken_promise, verdict::outside_memory, verdict::data_race},
              {.what = waits, .how = taken_for_success}, gives_up),
        wrong("a wait for a word that gave up counts as arrived", "T3",
              {verdict::broken_promise, verdict::outside_memory, verdict::data_race},
              {.what = verbs::wait, .how = taken_for_success}, gives_up),
    };
  }

  std::vector<mutant> of_teams() const {
    return {
        wrong("a row is added up before it is here", "R4", lost_order,
              {.what = verbs::mbarrier_wait, .how = lost, .where = "combine.row"}, teams),
        wrong("a stage is filled before adders have left it", "R5", {verdict::mbarrier_misuse},
              {.what = verbs::mbarrier_wait, .how = lost, .where = "combine.stage_free"}, tight),
        wrong("a sum is told of before adders have stored it", "S1", lost_order,
              {.what = verbs::mbarrier_wait, .how = lost, .where = "combine.summed"}, teams),
        wrong("a slot is taken before its sum was told of", "R6", lost_order,
              {.what = verbs::mbarrier_wait, .how = lost, .where = "combine.slot_free"}, many),
        wrong("others' sums are asked for before they are here", "S2", lost_order,
              {.what = verbs::wait, .how = lost, .where = "combine.sums_here"}, teams),
        wrong("who asks for others' sums does not acquire", "S2", lost_order,
              {.what = verbs::wait, .how = without_acquire, .where = "combine.sums_here"}, teams),
        wrong("a team's sums are awaited without acquire", "S2", lost_order,
              {.what = verbs::wait, .how = without_acquire, .where = "combine.sum"}, teams),
        wrong("a team's sums are not awaited", "S2", lost_order,
              {.what = verbs::wait, .how = lost, .where = "combine.sum"}, teams),
        wrong("a team's word of a sum is stored relaxed", "S1", lost_order,
              {.what = verbs::release_store, .how = relaxed, .cell = "sum words"}, teams),
        wrong("a team's word of a sum is for its own device", "S1", {verdict::scope_race},
              {.what = verbs::release_store, .how = narrow, .cell = "sum words"}, teams),
        wrong("a row's stage expects sixteen bytes fewer", "R4", lost_order,
              {.what = verbs::mbarrier_expect, .how = shifted, .by = -16}, teams),
    };
  }

  std::vector<mutant> all() const {
    std::vector<mutant> all = of_rows();
    for (const auto& some : {of_chunks(), of_takes_and_sums(), of_teams()})
      all.insert(all.end(), some.begin(), some.end());
    return all;
  }
};

}  // namespace

protocol_check exchange_chunks_check() {
  const std::string kernels = "src/kernels/ep/per_rank_chunks/";
  protocol_check c{
      .name = "exchange_chunks",
      .title =
          "Dispatch and combine, a message for each token and rank: ids first, chunks of bulk copies with a "
          "word each",
      .headers = {kernels + "cells.hpp", kernels + "dispatch.hpp", kernels + "send.hpp",
                  kernels + "tile_index.hpp", kernels + "arrived_chunks.hpp", kernels + "receive.hpp",
                  kernels + "list.hpp", kernels + "warp_ring.hpp", kernels + "combine.hpp",
                  kernels + "token_parts.hpp", kernels + "fp8_part.hpp", kernels + "team_combine.hpp",
                  kernels + "team_adder.hpp", "src/kernels/ep/per_rank/id_lines.hpp",
                  "src/protocol/line.hpp"},
      .explorations = every_order_of_takes(),
      .mutants = chunk_bugs{}.all()};
  for (const auto& some : {drawn_takes(), drawn_takes_of_sums_and_ends(), in_teams()})
    c.explorations.insert(c.explorations.end(), some.begin(), some.end());
  return c;
}

}  // namespace baton::checks
