// The public contract around the exchange: limits, sizes, agreement, order of calls.
#include "baton/expert_parallel.hpp"

#include <array>
#include <functional>
#include <limits>
#include <thread>

#include "baton/error.hpp"
#include "kernels/ep/shape.hpp"
#include "tests/cpu/says.hpp"
#include "tests/support/exchange_cases.hpp"

namespace baton::test {
namespace {

TEST(why_not, names_the_field_its_value_and_the_limit) {
  const auto reason = [](auto change, int ranks = 4) {
    ep_config c = sizes(64, 8, 256, 128);
    change(c);
    return why_not(c, ranks);
  };
  EXPECT_EQ(reason([](ep_config&) {}), "");
  EXPECT_EQ(reason([](ep_config& c) { c.num_experts = 3; }),
            "num_experts: 3 experts are fewer than 4 ranks; every rank needs one, use at most 3 ranks");
  EXPECT_EQ(reason([](ep_config& c) { c.num_experts = 1025; }), "num_experts: 1025 is outside [1, 1024]");
  EXPECT_EQ(reason([](ep_config& c) { c.top_k = 33; }), "top_k: 33 is outside [1, 32]");
  EXPECT_EQ(reason([](ep_config& c) { c.top_k = 0; }), "top_k: 0 is outside [1, 32]");
  EXPECT_EQ(reason([](ep_config& c) { c.hidden = 100; }), "hidden: 100 is not a positive multiple of 8");
  EXPECT_EQ(reason([](ep_config& c) {
              c.hidden = 136;
              c.format = token_format::blockwise_fp8;
            }),
            "hidden: 136 is not a positive multiple of 128");
  EXPECT_EQ(reason([](ep_config& c) { c.num_max_tokens_per_rank = 0; }),
            "num_max_tokens_per_rank: 0 is outside [1, 65536]");
  EXPECT_EQ(reason([](ep_config& c) { c.num_threads = 100; }),
            "num_threads: 100 is not a multiple of 32 up to 1024");
  EXPECT_EQ(reason([](ep_config& c) { c.num_sms = std::numeric_limits<int>::max(); }),
            "num_sms: 2147483647 is outside [0, 1024]");
  for (const int slots : {0, 9})
    EXPECT_EQ(reason([=](ep_config& c) { c.num_slots = slots; }),
              "num_slots: " + std::to_string(slots) + " is outside [1, 8]");
  EXPECT_EQ(reason([](ep_config& c) { c.hidden = 65544; }), "hidden: 65544 is outside [8, 65536]");
  EXPECT_EQ(reason([](ep_config&) {}, 33), "ranks: 33 is outside [1, 32]");
  EXPECT_EQ(reason([](ep_config& c) { c.format = token_format{7}; }), "format: 7 is no token_format");
  EXPECT_EQ(reason([](ep_config& c) { c.layout = ep_layout{2}; }), "layout: 2 is no ep_layout");
  EXPECT_EQ(reason([](ep_config& c) {
              c.hidden = 48;
              c.format = token_format::nvfp4;
            }),
            "hidden: 48 is not a positive multiple of 32");
  EXPECT_EQ(reason([](ep_config& c) {
              c.format = token_format::blockwise_fp8;
              c.tiled_scales = true;
            }),
            "tiled_scales: tiles are of scales of one byte, which format fp8 does not have");
  EXPECT_EQ(reason([](ep_config& c) {
              c.format = token_format::mxfp4;
              c.tiled_scales = true;
              c.layout = ep_layout::per_rank;
              c.rows = ep_rows::by_token;
            }),
            "tiled_scales: with rows by_token a token's scales lie beside its values, not in tiles; use rows "
            "by_expert");
  for (const int alignment : {-1, 3, 48, 256}) {
    EXPECT_EQ(reason([=](ep_config& c) { c.row_alignment = alignment; }),
              "row_alignment: " + std::to_string(alignment) +
                  " is not a power of two up to 128; 0 means as little as the format asks for");
  }
  EXPECT_EQ(reason([](ep_config& c) {
              c.format = token_format::blockwise_fp8;
              c.row_alignment = 2;
            }),
            "row_alignment: 2 is less than the 4 that format fp8 asks for; use 0 or 4");
  EXPECT_EQ(reason([](ep_config& c) {
              c.format = token_format::mxfp8;
              c.tiled_scales = true;
              c.row_alignment = 64;
            }),
            "row_alignment: 64 is less than the 128 that tiled_scales asks for; use 0 or 128");
  EXPECT_EQ(reason([](ep_config& c) { c.arrival = arrival_policy{-1}; }), "arrival: -1 is no arrival_policy");
  EXPECT_EQ(reason([](ep_config& c) { c.rows = ep_rows{2}; }), "rows: 2 is no ep_rows");
  EXPECT_EQ(reason([](ep_config& c) { c.rows = ep_rows::by_token; }),
            "rows: by_token, but layout per_expert has a message for each expert of a token; use layout "
            "per_rank, or by_expert");
  EXPECT_EQ(reason([](ep_config& c) {
              c.rows = ep_rows::by_token;
              c.layout = ep_layout::per_rank;
            }),
            "");
  for (const int size : {-1, 5})
    EXPECT_EQ(reason([=](ep_config& c) { c.p2p_group_size = size; }),
              "p2p_group_size: " + std::to_string(size) +
                  " is outside [1, 4], the ranks; 0 means the ranks of a host");
  EXPECT_EQ(reason([](ep_config& c) { c.p2p_group_size = 2; }), "");
  EXPECT_EQ(reason([](ep_config& c) {
              c.p2p_group_size = 2;
              c.layout = ep_layout::per_rank;
              c.transfer = ep_transfer::lines;
            }),
            "p2p_group_size: 2 of 4 ranks, but lines and flags are stores, which reach the ranks of a group; "
            "use transfer automatic or chunks, or one group (0, up to 8 ranks)");
  const auto many_rows = [](int top_k) {
    return [=](ep_config& c) {
      c.num_experts = 256;
      c.top_k = top_k;
      c.hidden = 8192;
      c.num_max_tokens_per_rank = 65536;
      c.layout = ep_layout::per_rank;
    };
  };
  EXPECT_EQ(reason(many_rows(16)), "");
  EXPECT_EQ(reason(many_rows(17)),
            "num_max_tokens_per_rank: with layout per_rank in chunks the experts' outputs of a rank may be "
            "4456448 rows of 8192 values, 68 GiB, and combine finds rows in the first 64 GiB; lower it, or "
            "top_k, or use layout per_expert");
}

TEST(why_not, sums_of_many_ranks_are_found_in_64_gib) {
  const auto reason_for = [](int tokens) {
    ep_config c;
    c.num_experts = 32;
    c.top_k = 1;
    c.hidden = 65536;
    c.num_max_tokens_per_rank = tokens;
    c.p2p_group_size = 8;
    return why_not(c, 32);
  };
  EXPECT_EQ(reason_for(16385),
            "num_max_tokens_per_rank: with layout per_rank in chunks 32 ranks' sums of 16385 tokens are 64 "
            "GiB of a "
            "window, and combine finds sums in the first 64 GiB; lower it");
  EXPECT_EQ(reason_for(16384), "");
}

TEST(why_not, the_default_layout_serves_what_per_expert_does_but_for_outputs_of_more_than_64_gib) {
  EXPECT_EQ(ep_config{}.layout, ep_layout::per_rank);
  int served = 0, too_large = 0;
  const auto compare = [&](ep_config c, int ranks) {
    c.layout = ep_layout::per_expert;
    if (!why_not(c, ranks).empty()) return;
    ++served;
    c.layout = ep_config{}.layout;
    const std::string reason = why_not(c, ranks);
    if (reason.empty()) return;
    ++too_large;
    EXPECT_TRUE(says(reason, "64 GiB", "use layout per_expert")) << reason;
    // Rows are these and padding.
    const double rows = 1.0 * ranks * c.num_max_tokens_per_rank * c.top_k;
    EXPECT_GE(rows * c.hidden * 2, static_cast<double>(std::int64_t{1} << 36));
  };
  for (const int ranks : {1, 2, 3, 8})
    for (const int experts : {8, 11, 256, 1024})
      for (const int top_k : {1, 8, 32})
        for (const int tokens : {1, 128, 700, 1024, 1025, 8192, 65536})
          for (const int hidden : {128, 7168, 65536})
            for (const token_format format : {token_format::bf16, token_format::mxfp8, token_format::nvfp4}) {
              ep_config c = sizes(experts, top_k, hidden, tokens);
              c.format = format;
              c.tiled_scales = format != token_format::bf16;
              compare(c, ranks);
            }
  EXPECT_GT(served, 2000);
  EXPECT_LT(too_large, served / 5);
}

/// A slot, and the words in which members meet.
constexpr std::size_t with_words(std::size_t slot) {
  return (slot + 255) / 256 * 256 + 128;
}

TEST(workspace_bytes, is_the_documented_formula) {
  const ep_config c = sizes(256, 8, 7168, 128);
  const workspace_size w = workspace_bytes(c, 4);
  const std::size_t message = 2 * 7168 + 16;
  EXPECT_EQ(w.window, with_words(256u * 128 * message + 128u * 8 * 7168 * 2 + 16u * 256));
  EXPECT_EQ(w.total(), w.window + w.local);
  ep_config fp8 = c;
  fp8.format = token_format::blockwise_fp8;
  EXPECT_EQ(workspace_bytes(fp8, 4).window,
            with_words(256u * 128 * (7168 + 224 + 16) + 128u * 8 * 7168 * 2 + 16u * 256));
  ep_config nvfp4 = c;
  nvfp4.format = token_format::nvfp4;
  EXPECT_EQ(workspace_bytes(nvfp4, 4).window,
            with_words(256u * 128 * (3584 + 448 + 16) + 128u * 8 * 7168 * 2 + 16u * 256));
  fp8.hidden = 384;  // three scales: 12 bytes, rounded up to 16
  EXPECT_EQ(workspace_bytes(fp8, 4).window,
            with_words(256u * 128 * (384 + 16 + 16) + 128u * 8 * 384 * 2 + 16u * 256));
}

TEST(workspace_bytes, by_token_have_room_for_each_token_once_or_where_chunks_arrive_none) {
  ep_config c = sizes(256, 8, 7168, 4096);
  c.layout = ep_layout::per_rank;
  c.format = token_format::blockwise_fp8;
  constexpr std::size_t values = 7168, scales = 224, weights = 32, rows = std::size_t{2} * 4096 * 8 + 128 * 3;
  const auto bytes = [&c](ep_transfer transfer, ep_rows how) {
    c.transfer = transfer;
    c.num_max_tokens_per_rank = transfer == ep_transfer::lines ? 1024 : 4096;
    c.rows = how;
    return workspace_bytes(c, 2);
  };
  using enum ep_transfer;
  const workspace_size experts = bytes(chunks, ep_rows::by_expert), once = bytes(chunks, ep_rows::by_token);
  EXPECT_EQ(experts.window, once.window);
  EXPECT_EQ(experts.local - once.local, rows * (values + scales - 4));
  const std::size_t rows_of_lines = rows - std::size_t{2} * 3072 * 8;
  const workspace_size in_rows = bytes(lines, ep_rows::by_expert), in_lines = bytes(lines, ep_rows::by_token);
  EXPECT_EQ(in_rows.window, in_lines.window);
  EXPECT_EQ(in_rows.local - in_lines.local,
            rows_of_lines * (values + scales - 4) - std::size_t{2} * 1024 * (values + scales + weights));
}

TEST(workspace_bytes, by_flags_has_words_of_ids_and_flags_of_each_rank) {
  ep_config c = sizes(256, 8, 7168, 128);
  c.layout = ep_layout::per_rank;
  c.format = token_format::blockwise_fp8;
  c.transfer = ep_transfer::lines;
  const workspace_size lines = workspace_bytes(c, 2);
  c.transfer = ep_transfer::flags;
  const workspace_size flags = workspace_bytes(c, 2);
  constexpr std::size_t units = 2 * 8, sums = 30;  // of a token; of both rounds
  EXPECT_EQ(lines.window, with_words(2u * (128 * (units * 1024 + sums * 512) + 2 * 512 * 5)));
  EXPECT_EQ(flags.window, with_words(2u * (128 * (units * 1024 + sums * 512) + 2 * 256 * 9) + 128));
  EXPECT_EQ(flags.local, lines.local);
}

TEST(workspace_bytes, of_what_cannot_be_served_is_an_error) {
  EXPECT_THROW(workspace_bytes(sizes(256, 8, 7168, 128), 0), invalid_argument);
  EXPECT_THROW(workspace_bytes(sizes(256, 8, 7, 128), 4), invalid_argument);
}

TEST(experts_of_rank, of_a_rank_that_is_none_is_an_error) {
  EXPECT_THROW(experts_of_rank(5, 0, 0), invalid_argument);
  EXPECT_THROW(experts_of_rank(5, 2, 2), invalid_argument);
  EXPECT_THROW(experts_of_rank(5, 2, -1), invalid_argument);
  EXPECT_THROW(experts_of_rank(-1, 2, 0), invalid_argument);
}

TEST(expert_parallel, that_was_moved_from_throws_and_the_other_one_works) {
  const auto worlds = world::local(1, device_kind::cpu);
  expert_parallel first = expert_parallel::create(worlds[0], sizes(4, 1, 64, 2));
  expert_parallel second = std::move(first);
  EXPECT_THROW(first.dispatch_async(nullptr, nullptr, 0),
               invalid_argument);  // NOLINT(bugprone-use-after-move)
  EXPECT_THROW(first.dispatch_wait(), invalid_argument);
  EXPECT_THROW(first.combine_async(nullptr), invalid_argument);
  EXPECT_THROW(first.combine_wait(nullptr, static_cast<float*>(nullptr)), invalid_argument);
  EXPECT_THROW(first.combine_wait_unreduced(nullptr), invalid_argument);
  EXPECT_THROW(first.check(), invalid_argument);
  EXPECT_THROW(first.config(), invalid_argument);
  EXPECT_THROW(first.local_experts(), invalid_argument);
  second.dispatch_async(nullptr, nullptr, 0);
  EXPECT_EQ(second.dispatch_wait().hidden, 64);
}

TEST(experts_of_rank, covers_every_expert_once_in_blocks_that_differ_by_at_most_one) {
  for (int ranks = 1; ranks <= 8; ++ranks) {
    for (int experts = ranks; experts <= 40; ++experts) {
      int next = 0;
      for (int r = 0; r < ranks; ++r) {
        const expert_range mine = experts_of_rank(experts, ranks, r);
        EXPECT_EQ(mine.first, next);
        EXPECT_TRUE(mine.count == experts / ranks || mine.count == experts / ranks + 1);
        const ep::shape s{experts, ranks};
        for (int e = mine.first; e < mine.first + mine.count; ++e) {
          EXPECT_EQ(s.home(e).rank, r);
          EXPECT_EQ(s.home(e).local, e - mine.first);
        }
        next += mine.count;
      }
      EXPECT_EQ(next, experts);
    }
  }
}

/// What creating communicators of these configurations throws on each rank.
std::array<std::string, 2> thrown_by_creating(const std::array<ep_config, 2>& configs) {
  const auto worlds = world::local(2, device_kind::cpu);
  std::array<std::string, 2> thrown;
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      try {
        expert_parallel::create(worlds[r], configs[r]);
      } catch (const invalid_argument& e) {
        thrown[r] = e.what();
      }
    });
  }
  for (auto& t : threads) t.join();
  return thrown;
}

TEST(expert_parallel, ranks_that_disagree_are_told_which_field_differs) {
  const ep_config same = sizes(16, 4, 128, 16);
  const std::pair<std::string, std::function<void(ep_config&)>> changes[] = {
      {"num_experts is 16 on rank 0 and 17", [](ep_config& c) { c.num_experts = 17; }},
      {"top_k is 4 on rank 0 and 6", [](ep_config& c) { c.top_k = 6; }},
      {"hidden is 128 on rank 0 and 256", [](ep_config& c) { c.hidden = 256; }},
      {"num_max_tokens_per_rank is 16 on rank 0 and 17",
       [](ep_config& c) { c.num_max_tokens_per_rank = 17; }},
      {"format is bf16 on rank 0 and fp8", [](ep_config& c) { c.format = token_format::blockwise_fp8; }},
      {"combine_format is bf16 on rank 0 and fp8",
       [](ep_config& c) { c.combine_format = token_format::blockwise_fp8; }},
      {"arrival is epoch on rank 0 and sentinel", [](ep_config& c) { c.arrival = arrival_policy::sentinel; }},
      {"p2p_group_size is 0 on rank 0 and 2", [](ep_config& c) { c.p2p_group_size = 2; }},
      {"levels is one on rank 0 and two", [](ep_config& c) { c.levels = ep_levels::two; }},
      {"num_sms is 0 on rank 0 and 3", [](ep_config& c) { c.num_sms = 3; }},
      {"num_threads is 0 on rank 0 and 96", [](ep_config& c) { c.num_threads = 96; }},
      {"layout is per_expert on rank 0 and per_rank", [](ep_config& c) { c.layout = ep_layout::per_rank; }},
      {"transfer is automatic on rank 0 and chunks", [](ep_config& c) { c.transfer = ep_transfer::chunks; }},
      {"rows is by_expert on rank 0 and by_token", [](ep_config& c) { c.rows = ep_rows::by_token; }},
      {"tiled_scales is false on rank 0 and true", [](ep_config& c) { c.tiled_scales = true; }},
      {"row_alignment is 0 on rank 0 and 8", [](ep_config& c) { c.row_alignment = 8; }},
      {"rows_of_expert is 0 on rank 0 and 64", [](ep_config& c) { c.rows_of_expert = 64; }},
      {"weights_at_combine is false on rank 0 and true", [](ep_config& c) { c.weights_at_combine = true; }},
      {"num_slots is 1 on rank 0 and 3", [](ep_config& c) { c.num_slots = 3; }},
  };
  for (const auto& [difference, change] : changes) {
    std::array<ep_config, 2> configs{same, same};
    change(configs[1]);
    const std::string expected = "ep_config differs between ranks: " + difference + " on rank 1";
    for (const std::string& thrown : thrown_by_creating(configs)) EXPECT_EQ(thrown, expected);
  }
}

std::string thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const invalid_argument& e) {
    return e.what();
  }
  return "nothing";
}

TEST(expert_parallel, calls_out_of_order_and_bad_arguments_enqueue_nothing) {
  const auto worlds = world::local(1, device_kind::cpu);
  const ep_config c = sizes(8, 2, 64, 4);
  auto ep = std::move(expert_parallel::create_all(worlds, c)[0]);
  std::vector<bfloat16> tokens(4 * 64);
  std::vector<std::int32_t> ids(8, 1);
  std::vector<float> out(4 * 64), scale(1);
  EXPECT_NE(thrown_by([&] { ep.dispatch_wait(); }).find("dispatch_wait called where dispatch_async is due"),
            std::string::npos);
  EXPECT_EQ(thrown_by([&] { ep.dispatch_async(tokens.data(), ids.data(), 5); }),
            "num_tokens: 5 is outside [0, 4]; raise num_max_tokens_per_rank or send in several rounds");
  EXPECT_EQ(thrown_by([&] { ep.dispatch_async(nullptr, ids.data(), 1); }), "tokens: null");
  EXPECT_NE(thrown_by([&] { ep.dispatch_async(tokens.data() + 1, ids.data(), 1); }).find("not aligned to 16"),
            std::string::npos);
  const float* const between =
      reinterpret_cast<const float*>(reinterpret_cast<std::uintptr_t>(out.data()) + 2);
  EXPECT_NE(
      thrown_by([&] { ep.dispatch_async(tokens.data(), ids.data(), between, 1); }).find("topk_weights: "),
      std::string::npos);
  EXPECT_EQ(thrown_by([&] { ep.dispatch_async(tokens.data(), ids.data(), 1, {}, scale.data()); }),
            "input_scales: given, but token_format bf16 takes none");
  ep.dispatch_async(tokens.data(), ids.data(), 4);
  EXPECT_NE(thrown_by([&] { ep.dispatch_async(tokens.data(), ids.data(), 4); }), "nothing");
  const received_tokens rows = ep.dispatch_wait();
  EXPECT_EQ(thrown_by([&] { ep.combine_async(nullptr); }), "expert_output: null");
  EXPECT_TRUE(thrown_by([&] {
                ep.dispatch(tokens.data(), ids.data(), nullptr, 4);
              }).starts_with("dispatch called where combine_async is due"));
  ep.combine_async(static_cast<const bfloat16*>(rows.tokens));
  EXPECT_EQ(thrown_by([&] { ep.combine_wait(nullptr, static_cast<float*>(nullptr)); }), "out: null");
  EXPECT_TRUE(thrown_by([&] {
                ep.combine(nullptr, out.data());
              }).starts_with("combine called where combine_wait is due"));
  ep.combine_wait(nullptr, out.data());
  worlds[0].synchronize();
}

}  // namespace
}  // namespace baton::test
