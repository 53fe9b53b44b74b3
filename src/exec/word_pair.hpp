#pragma once
// Two words of 64 bits beside each other, moved by one access of 16 bytes where a context has a verb for that, and one after the
// other, which comes to the same, where it has not: PTX has an access to a vector of words be one to each, in any order.
//
//   store_pairs(pair_at, values)
//     each lane: its pair to pair_at(lane), unless that is null; relaxed, system
//   wait_pairs<n>(pair_at, done, where, seen) -> bool
//     until done(lane, nth, word) holds for both words, nth 0 and 1, of *pair_at(i, lane) of every lane and every i of n, where
//     that is not null; seen[i] gets the last values, 0 where there is no pair. Relaxed, system: words are all that it tells of.
//     As wait in exec.hpp otherwise
#include "exec/exec.hpp"

namespace baton {

struct alignas(16) word_pair {
  std::uint64_t word[2];
};

template <exec_context X, class PairAt>
BATON_FN void store_pairs(X& x, PairAt pair_at, const typename X::template lanes<word_pair>& values) {
  if constexpr (requires { x.store_pairs(pair_at, values); }) {
    x.store_pairs(pair_at, values);
  } else {
    x.each_lane([&](int lane) {
      word_pair* const to = pair_at(lane);
      for (int nth = 0; to != nullptr && nth < 2; ++nth)
        x.template store<order::relaxed, scope::system>(&to->word[nth], values[lane].word[nth]);
    });
  }
}

template <int n, exec_context X, class PairAt, class Done>
BATON_FN bool wait_pairs(X& x, PairAt pair_at, Done done, const wait_site& where,
                         typename X::template lanes<word_pair> (&seen)[n]) {
  if constexpr (requires { x.wait_pairs(pair_at, done, where, seen); }) {
    return x.wait_pairs(pair_at, done, where, seen);
  } else {
    for (int i = 0; i < 2 * n; ++i) {
      const int nth = i % 2;
      typename X::template lanes<std::uint64_t*> words;
      typename X::template lanes<std::uint64_t> word{};
      x.each_lane([&](int lane) {
        word_pair* const from = pair_at(i / 2, lane);
        words[lane] = from != nullptr ? &from->word[nth] : nullptr;
      });
      const auto is_done = [=](int lane, std::uint64_t value) { return done(lane, nth, value); };
      if (!x.template wait<order::relaxed, scope::system>(words, is_done, where, word)) return false;
      x.each_lane([&](int lane) { seen[i / 2][lane].word[nth] = words[lane] != nullptr ? word[lane] : 0; });
    }
    return true;
  }
}

}  // namespace baton
