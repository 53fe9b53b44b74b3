#pragma once
// Looks for lines that tear: whether 128 bytes that a warp stores at once are ever seen in part (protocol/line.hpp assumes not).
//
//   warps of a block   do
//   first half         store four lines into every rank's window, its own too, round after round
//   second half        look at what every rank's warp of the same number stores, `looks` times or until it is the last round's
//
//   a line of round n  16 words of 64 bits: line_flag(n) times an odd number, another one for each word of the four lines, 1
//                      for the last of each. So each word tells its round and its place, and a line is whole if all tell
//                      the same round. Round 0 is zeroed memory.
//
// Nobody waits: a kernel ends whatever the others do. What is stored again and again is looked at while it changes, at the
// links' full load, which is when it would tear.
#include "exec/kernel.hpp"
#include "exec/site.hpp"
#include "kernels/torn_lines/params.hpp"
#include "protocol/line.hpp"

namespace baton::torn_lines {

inline constexpr site line_look = "torn_lines.look";

/// Of one half of what a lane stores.
constexpr std::uint64_t factor_of(int lane, int half) {
  return holds_flag(lane) && half == 1 ? 1 : static_cast<std::uint64_t>(4 * lane + 2 * half + 3);
}

BATON_FN vec16 words_of(int lane, std::uint64_t flag) {
  const std::uint64_t low = flag * factor_of(lane, 0), high = flag * factor_of(lane, 1);
  return {{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
           static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)}};
}

BATON_FN bool are_same(const vec16& a, const vec16& b) {
  return ((a.word[0] ^ b.word[0]) | (a.word[1] ^ b.word[1]) | (a.word[2] ^ b.word[2]) |
          (a.word[3] ^ b.word[3])) == 0;
}

struct kernel {
  static constexpr kernel_bounds bounds{.max_threads = 512, .blocks_per_sm = 2};  // for two ranks of a GPU

  template <line_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    const int half = x.num_warps() / 2;
    const auto at = static_cast<std::ptrdiff_t>(x.block() * half + x.warp() % half) * line_access_bytes;
    if (x.warp() < half)
      send(x, p, at);
    else
      look(x, p, at);
  }

 private:
  template <class X>
  static BATON_FN void send(X& x, const params& p, std::ptrdiff_t at) {
    for (int round = 1; round <= p.rounds; ++round) {
      typename X::template lanes<vec16> v;
      x.each_lane([&](int lane) { v[lane] = words_of(lane, line_flag(static_cast<std::uint64_t>(round))); });
      for (int i = 0; i < p.num_ranks; ++i) x.store_lines(p.to[(p.rank + i) % p.num_ranks] + at, v);
    }
  }

  /// Bits: lanes whose line shows something else than its flag says, or is being written, or is not of the last round.
  struct seen {
    std::uint32_t torn, moving, unfinished;
  };
  template <class X>
  static BATON_FN seen look_at(X& x, const params& p, const std::byte* from) {
    typename X::template lanes<vec16> v[1];
    x.wait_lines(
        line_places<1>{{from}}, [](int, const vec16(&)[1]) { return true; }, {.where = line_look}, v);
    typename X::template lanes<std::uint64_t> flag;
    typename X::template lanes<int> last_of_line;
    typename X::template lanes<bool> torn, moving, unfinished;
    x.each_lane([&](int lane) {
      flag[lane] = v[0][lane].word[2] | static_cast<std::uint64_t>(v[0][lane].word[3]) << 32;
      last_of_line[lane] = lane | (lanes_of_line - 1);
    });
    const auto of_line = x.shuffle(flag, last_of_line);
    const std::uint64_t last = line_flag(static_cast<std::uint64_t>(p.rounds));
    x.each_lane([&](int lane) {
      torn[lane] = !are_same(v[0][lane], words_of(lane, of_line[lane]));
      unfinished[lane] = of_line[lane] != last;
      moving[lane] = unfinished[lane] & (of_line[lane] != 0);
    });
    return {x.ballot(torn), x.ballot(moving), x.ballot(unfinished)};
  }

  /// Of bits of lanes, how many lines.
  static BATON_FN std::uint64_t lines_of(std::uint32_t lanes) {
    std::uint64_t lines = 0;
    for (int line = 0; line < lines_of_access; ++line)
      lines += (lanes >> (line * lanes_of_line) & 0xffu) != 0 ? 1 : 0;
    return lines;
  }

  template <class X>
  static BATON_FN void look(X& x, const params& p, std::ptrdiff_t at) {
    found all{};
    bool unfinished = true;
    for (int n = 0; n < p.looks && unfinished; ++n) {
      unfinished = false;
      for (int peer = 0; peer < p.num_ranks; ++peer) {
        const seen s = look_at(x, p, p.from[peer] + at);
        unfinished |= s.unfinished != 0;
        all.lines += lines_of_access;
        all.moving += lines_of(s.moving);
        all.torn += lines_of(s.torn);
        if (s.torn != 0) all.writers |= std::uint64_t{1} << peer;
      }
    }
    x.elect([&] {
      x.template fetch_add<order::relaxed, scope::device>(&p.result->lines, all.lines);
      x.template fetch_add<order::relaxed, scope::device>(&p.result->moving, all.moving);
      x.template fetch_add<order::relaxed, scope::device>(&p.result->torn, all.torn);
      x.template fetch_or<order::relaxed, scope::device>(&p.result->writers, all.writers);
    });
  }
};

}  // namespace baton::torn_lines
