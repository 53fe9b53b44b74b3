#pragma once
// The model's attention by the library, on the ranks of an exchange.
#include <vector>

#include "cli/exchange_moe.hpp"
#include "cli/generation.hpp"
#include "cli/library_attention.hpp"
#include "tests/cpu/tiny_moe.hpp"

namespace baton::test {

inline cli::library_attention library_attention_of(const cli::exchange_moe& experts,
                                                   const std::vector<cli::sequence>& sequences) {
  return {tiny_moe().config(), experts.ranks(), cli::positions_of_ranks(sequences, experts.rank(0).size())};
}

}  // namespace baton::test
