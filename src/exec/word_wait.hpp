#pragma once
// A wait for several words of each lane: all of them at once, where a context has a verb of its own for it; one after the
// other, which comes to the same, where it has not. As wait in exec.hpp otherwise; a relaxed wait, whose words are all that
// it tells of.
//
//   wait_words<n>(word_at, done, where, seen) -> bool
//     until done(lane, value of *word_at(i, lane)) holds for every lane and every i of n, where word_at is not null; seen[i]
//     gets the
//     last values, 0 where there is no word
#include "exec/exec.hpp"

namespace baton {

template <int n, exec_context X, class WordAt, class Done>
BATON_FN bool wait_words(X& x, WordAt word_at, Done done, const wait_site& where,
                         typename X::template lanes<std::uint64_t> (&seen)[n]) {
  if constexpr (requires { x.wait_words(word_at, done, where, seen); }) {
    return x.wait_words(word_at, done, where, seen);
  } else {
    for (int i = 0; i < n; ++i) {
      typename X::template lanes<std::uint64_t*> words;
      x.each_lane([&](int lane) {
        words[lane] = word_at(i, lane);
        seen[i][lane] = 0;
      });
      if (!x.template wait<order::relaxed, scope::system>(words, done, where, seen[i])) return false;
    }
    return true;
  }
}

}  // namespace baton
