#pragma once
// The line verbs on a GPU. What each verb means: exec/line.hpp.
//
// A line is written by eight lanes of one store instruction and read by eight lanes of one load instruction, 16 bytes
// each: NVLink and the L2 move it whole, as NCCL's LL128 protocol relies on too. The PTX memory model does not promise
// it. Both instructions need a converged warp, hence the __syncwarp before each.
#include "device/mma_gpu.cuh"
#include "exec/line.hpp"
#include "exec/word_pair.hpp"
#include "ptx/line.cuh"

namespace baton {

class line_gpu : public mma_gpu {
 public:
  using mma_gpu::mma_gpu;

  BATON_FN static void store_lines(std::byte* to, const lanes<vec16>& v) {
    __syncwarp();
    ptx::st_line(to + lane_offset(), std::bit_cast<uint4>(v.value));
  }
  BATON_FN static lanes<vec16> load_lines(const std::byte* from) {
    __syncwarp();
    return {std::bit_cast<vec16>(ptx::ld_line(from + lane_offset()))};
  }
  template <int n>
  BATON_FN static void load_lines(const line_places<n>& from, lanes<vec16> (&seen)[n]) {
    BATON_UNROLL
    for (int i = 0; i < n; ++i) seen[i] = load_lines(from.at[i]);
  }

  /// A time-out reports the last eight bytes of the first place, which is where lines carry what tells them apart.
  template <int n, class Done>
  BATON_FN bool wait_lines(const line_places<n>& from, Done done, const wait_site& where,
                           lanes<vec16> (&seen)[n]) {
    std::uint64_t start = 0;
    for (std::uint32_t polls = 1;; ++polls) {
      vec16 values[n];
      BATON_UNROLL
      for (int i = 0; i < n; ++i) values[i] = load_lines(from.at[i]).value;
      const bool ok = done(lane(), values);
      if (__all_sync(whole_warp, ok)) {
        BATON_UNROLL
        for (int i = 0; i < n; ++i) seen[i].value = values[i];
        if (where.peer >= 0 && start != 0) note_wait(where, 0, start);
        return true;
      }
      start_clock(polls, where, start);
      const std::uint64_t tail = static_cast<std::uint64_t>(values[0].word[3]) << 32 | values[0].word[2];
      if (polls % polls_between_clock_reads == 0 && gives_up(ok, tail, where, start)) return false;
    }
  }

  // Pairs of words: exec/word_pair.hpp.
  template <class PairAt>
  BATON_FN static void store_pairs(PairAt pair_at, const lanes<word_pair>& values) {
    if (word_pair* const to = pair_at(lane()); to != nullptr)
      ptx::st_words(to->word, values.value.word[0], values.value.word[1]);
  }
  /// The loads of all pairs are in flight together.
  template <int n, class PairAt, class Done>
  BATON_FN bool wait_pairs(PairAt pair_at, Done done, const wait_site& where, lanes<word_pair> (&seen)[n]) {
    std::uint64_t start = 0;
    for (std::uint32_t polls = 1;; ++polls) {
      BATON_UNROLL
      for (int i = 0; i < n; ++i) {
        seen[i].value = {};
        if (const word_pair* pair = pair_at(i, lane()); pair != nullptr)
          ptx::ld_words(pair->word, seen[i].value.word[0], seen[i].value.word[1]);
      }
      bool ok = true;
      std::uint64_t missing = 0;
      BATON_UNROLL
      for (int i = 0; i < 2 * n; ++i) {
        const std::uint64_t word = seen[i / 2].value.word[i % 2];
        const bool here = pair_at(i / 2, lane()) == nullptr || done(lane(), i % 2, word);
        if (!here) missing = word;
        ok = ok & here;
      }
      if (__all_sync(whole_warp, ok)) {
        if (where.peer >= 0 && start != 0) note_wait(where, 0, start);
        return true;
      }
      start_clock(polls, where, start);
      if (polls % polls_between_clock_reads == 0 && gives_up(ok, missing, where, start)) return false;
    }
  }

  BATON_FN static void prefetch_line(const void* p) { ptx::prefetch_l2(p); }
  BATON_FN static void prefetch_bytes(const void* p, int bytes) {
    ptx::bulk_prefetch_l2(p, static_cast<std::uint32_t>(bytes));
  }

  /// An ordinary load: the warps of an SM ask the L2 once between them.
  BATON_FN std::uint32_t gave_up_before() const { return limits().abort != nullptr ? *limits().abort : 0; }
  BATON_FN static void launch_dependents() { cudaTriggerProgrammaticLaunchCompletion(); }
  /// What they add up to is looked at, or the compiler would leave the loads out.
  template <class P>
  BATON_FN static void fetch_params(const P& p) {
    constexpr int line_words = 16, num_lines = static_cast<int>(sizeof(P)) / 4 / line_words;
    const auto* words = reinterpret_cast<const std::uint32_t*>(&p);
    std::uint32_t all = 0;
    BATON_UNROLL
    for (int i = 0; i < num_lines; ++i) all ^= words[i * line_words];
    ptx::look_at(all);
  }
  BATON_FN static void await_dependencies() { cudaGridDependencySynchronize(); }

 private:
  BATON_FN static int lane_offset() { return lane() * static_cast<int>(sizeof(vec16)); }
};

}  // namespace baton
