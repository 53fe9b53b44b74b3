#pragma once
// Ranks beyond the p2p group on GPUs: NVSHMEM, one process a rank, all on one machine: there what it puts are stores. The process
// that forks them never touches CUDA. Needs NVSHMEM, and BATON_NVSHMEM_MODULE, the path of libbaton_nvshmem.so.
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "baton/error.hpp"
#include "tests/support/exchange_processes.hpp"
#include "tests/support/fp8_back_cases.hpp"
#include "tests/support/gpu_count.hpp"

namespace baton::test {

/// Empty if the tests can run. Where there are fewer GPUs than ranks some share one, whose driver gives processes turns.
inline std::string why_not_beyond() {
  if (num_gpus_without_touching_cuda() < 1) return "needs a GPU, found none";
  return std::getenv("BATON_NVSHMEM_MODULE") == nullptr
             ? "needs BATON_NVSHMEM_MODULE, the path of libbaton_nvshmem.so, and NVSHMEM"
             : "";
}

/// Ranks, those of a group, and how other groups are reached.
struct groups_beyond {
  int ranks, group;
  ep_levels levels = ep_levels::one;
  exchange_case of(exchange_case c) const {
    c.config.p2p_group_size = group;
    c.config.levels = levels;
    return c;
  }
  std::string name() const {
    return fmt::format("{}_in_groups_of_{}{}", ranks, group,
                       levels == ep_levels::two ? "_with_two_levels" : "");
  }
};

/// Tests of groups of ranks.
class ranks_beyond : public testing::TestWithParam<groups_beyond> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not_beyond(); !why.empty()) GTEST_SKIP() << why;
  }
};

/// Rounds whose calls are apart, then whose calls are fused. @throws std::runtime_error  what is wrong
inline void expect_right_rounds_beyond(const exchange_case& what, const world& w, const char* called) {
  exchange_rank mine{expert_parallel::create(w, what.config)};
  mine.options.bf16_output = what.bf16_output;
  std::string wrong = run_rank(what, mine, 3);
  if (wrong.empty()) wrong = run_rank(what, mine, 3, calls::fused);
  if (wrong.empty()) return;
  throw std::runtime_error{fmt::format(
      "{}, {}, sums in {}, {}: {}", called, name(what.config.format), name(what.config.combine_format),
      what.config.rows == ep_rows::by_token ? "by token" : "by expert", wrong)};
}

/// Layout per_rank: every conformance case; tokens that are cast to, and given in, every format of fewer bits; few blocks.
inline void expect_every_format_beyond(const groups_beyond& groups) {
  const int ranks = groups.ranks;
  expect_of_processes(ranks, device_kind::cuda, [&, ranks](const world& w) {
    for (const named_case& c : conformance_cases(ranks, 3))
      for (const token_format format : {token_format::bf16, token_format::blockwise_fp8, token_format::nvfp4})
        for (const ep_rows rows : {ep_rows::by_expert, ep_rows::by_token})
          expect_right_rounds_beyond(groups.of(per_rank(c.what, format, ep_transfer::automatic, rows)), w,
                                     c.name);
    for (const token_format format :
         {token_format::blockwise_fp8, token_format::mxfp8, token_format::mxfp4, token_format::nvfp4}) {
      exchange_case given = per_rank({ranks, sizes(11, 3, 128, 9), {}, routing::sparse}, format);
      given.tokens.resize(static_cast<std::size_t>(ranks), 9);
      expect_right_rounds_beyond(groups.of(given), w, "cast");
      given.given_tokens = true;
      expect_right_rounds_beyond(groups.of(given), w, "given");
    }
    exchange_case few_blocks = per_rank({ranks, sizes(13, 5, 264, 17), {}, routing::sparse});
    few_blocks.tokens.resize(static_cast<std::size_t>(ranks), 17);
    for (const int sms : {1, 3}) {
      few_blocks.config.num_sms = sms;
      expect_right_rounds_beyond(groups.of(few_blocks), w, "few_blocks");
    }
    return true;
  });
}

/// What else a communicator may be asked for, in any layout that has it.
inline void expect_every_way_beyond(const groups_beyond& groups) {
  exchange_case usual{groups.ranks, sizes(13, 5, 256, 17), {}, routing::sparse};
  usual.tokens.resize(static_cast<std::size_t>(groups.ranks), 17);
  const auto with_wish = [&](auto wish, exchange_case c) {
    wish(c);
    return groups.of(c);
  };
  const auto shared = [](exchange_case& c) { c.shared_experts = c.bf16_output = true; };
  const auto wide = [](exchange_case& c) { c.wide_ids = true; };
  const auto places = [](exchange_case& c) { c.config.rows_of_expert = 128; };
  const auto tiled = [](exchange_case& c) { c.config.tiled_scales = true; };
  expect_of_processes(groups.ranks, device_kind::cuda, [&](const world& w) {
    for (const exchange_case& c : {per_rank(usual), usual}) {
      if (groups.levels == ep_levels::two && c.config.layout == ep_layout::per_expert) continue;
      expect_right_rounds_beyond(with_wish(wide, c), w, "ids of 64 bits");
      exchange_case scaled = with_wish(tiled, with(c, token_format::mxfp8, arrival_policy::epoch));
      expect_right_rounds_beyond(scaled, w, "tiled scales");
    }
    expect_right_rounds_beyond(with_wish(shared, per_rank(usual)), w, "shared experts, bf16 outputs");
    expect_right_rounds_beyond(with_wish(places, per_rank(usual)), w, "rows of an expert");
    exchange_case slots = groups.of(per_rank(usual));
    slots.config.num_slots = 2;
    const auto both = std::make_shared<expert_parallel>(expert_parallel::create(w, slots.config));
    for (const int slot : {0, 1, 0}) {
      exchange_rank mine{both, {}, slot};
      expect_no_error(run_rank(slots, mine, 3, slot == 0 ? calls::apart : calls::fused));
    }
    return true;
  });
}

/// Ids that are no expert's count as none, everywhere, and are reported where they were given.
inline void expect_bad_ids_reported_beyond(const groups_beyond& groups, ep_layout layout) {
  exchange_case c{groups.ranks, sizes(8, 2, 64, 6), {}, routing::distinct};
  c.tokens.resize(static_cast<std::size_t>(groups.ranks), 6);
  c.config.layout = layout;
  expect_of_processes(groups.ranks, device_kind::cuda, [what = groups.of(c)](const world& w) {
    exchange_rank mine{expert_parallel::create(w, what.config)};
    auto inputs = draw_inputs(what, 3);
    inputs[1].topk_idx[2 * 4 + 1] = 8;
    inputs[1].topk_idx[2 * 5] = -7;
    mine.load(inputs[static_cast<std::size_t>(w.rank())]);
    mine.dispatch_async();
    mine.dispatch_wait();
    expect_no_error(difference({what, inputs}, w.rank(), mine.read_received()));
    std::string said;
    try {
      mine.ep().check();
    } catch (const device_error& e) {
      said = e.what();
    }
    if (w.rank() != 1) return said.empty();
    return said == "topk_idx: rank 1, token 4, choice 1 is 8, outside [-1, 8); it was treated as -1";
  });
}

/// Beyond the group no warps work in teams: the cases of lines are all there are.
inline void expect_sums_in_fp8_beyond(const groups_beyond& groups) {
  expect_of_processes(groups.ranks, device_kind::cuda, [&](const world& w) {
    for (const named_case& c : fp8_back_cases(groups.ranks))
      for (const token_format format : {token_format::bf16, token_format::blockwise_fp8}) {
        exchange_case what = per_rank(c.what, format);
        what.config.combine_format = token_format::blockwise_fp8;
        expect_right_rounds_beyond(groups.of(what), w, c.name);
      }
    return true;
  });
}

/// What a survivor of a rank that was killed makes of it, as an exit code: 7 if that rank is named, in the second round and at
/// `site`.
inline int name_the_dead(const world& w, const exchange_case& c, int killed, const std::string& site) {
  exchange_rank mine{expert_parallel::create(w, c.config)};
  expect_no_error(run_rank(c, mine, 1));
  w.synchronize();
  if (w.rank() == killed) ::kill(::getpid(), SIGKILL);
  mine.load(draw_inputs(c, 2).at(static_cast<std::size_t>(w.rank())));
  mine.dispatch_async();
  mine.dispatch_wait();
  try {
    w.synchronize();
  } catch (const stuck& e) {
    return e.where.peer == killed && e.where.epoch == 2 && e.where.site == site ? 7 : 1;
  }
  return 1;
}

/// The last rank dies before the second round.
inline void expect_the_killed_named_beyond(const groups_beyond& groups, ep_layout layout) {
  const int ranks = groups.ranks;
  ::setenv("BATON_DEADLINE_MS", "3000", 1);
  std::vector<int> exit_codes(static_cast<std::size_t>(ranks), 7);
  exit_codes.back() = 128 + SIGKILL;
  expect_of_processes(
      ranks, device_kind::cuda,
      [&, ranks](const world& w) {
        exchange_case c{ranks, sizes(8, 2, 64, 6), {}, routing::distinct};
        c.tokens.resize(static_cast<std::size_t>(ranks), 6);
        c.config.layout = layout;
        // Without NVSHMEM's ending, in which a dead rank could be waited for.
        std::_Exit(name_the_dead(w, groups.of(c), ranks - 1,
                                 layout == ep_layout::per_rank ? "dispatch.ids" : "dispatch.arrival"));
        return false;
      },
      exit_codes);
  ::unsetenv("BATON_DEADLINE_MS");
}

}  // namespace baton::test
