// protocol/signed_parts.hpp: blocks of one rank make parts and sign for them, the one that is told of all reads them; kernel
// after kernel on the same word. Then with words that hold what they cannot, and with a block that cannot make its part.
#include "protocol/signed_parts.hpp"

#include <memory>

#include "checks/all.hpp"
#include "checks/planted_context.hpp"

namespace baton::checks {
namespace {

using check::verdict;

constexpr site parts_signed = "parts.signed";

struct signing_setting {
  int blocks = 2;
  int warps = 1;
  int kernels = 3;
  std::uint32_t left = 0;  // what the word holds at first
  int blotting = -1;       // the block that cannot make its part of the first kernel
  planted_bug bug = {};

  bool begins_whole() const { return left == 0 && blotting < 0; }
};

struct signing_world {
  std::uint32_t* word;
  std::uint32_t* parts;  // [blocks, warps]
};
/// Of an execution, by kernel: how many were told of all, and how many met a word that cannot be.
struct signing_counts {
  std::vector<int> told, refused;
};

template <class X>
void read_parts(X& x, check::program& p, const signing_world& w, const signing_setting& s,
                std::uint32_t kernel) {
  for (int i = 0; i < s.blocks * s.warps; ++i)
    p.require(x.from_one([&] { return x.read(w.parts + i); }) == kernel, "every part is this kernel's");
}

template <class X>
void run_signer(X& x, check::program& p, const signing_world& w, const signing_setting& s,
                signing_counts& counts) {
  for (std::uint32_t kernel = 1; kernel <= static_cast<std::uint32_t>(s.kernels); ++kernel) {
    const bool can = x.block() != s.blotting || kernel > 1;
    if (can) x.elect([&] { x.write(w.parts + x.block() * s.warps + x.warp(), kernel); });
    x.sync_block();
    bool all = false;
    if (x.warp() == 0) {
      x.elect([&] {
        if (!can) return blot(x, w.word);
        std::uint32_t seen = 0;
        const signing found = sign(x, w.word, x.block(), s.blocks, seen);
        all = found == signing::all;
        counts.told[kernel - 1] += all;
        counts.refused[kernel - 1] += found == signing::impossible;
        if (found == signing::impossible && s.begins_whole()) x.refuse({.where = parts_signed}, seen);
      });
      if (all) read_parts(x, p, w, s, kernel);
    }
    x.next_kernel();
  }
}

void require_counts(check::program& p, const signing_setting& s, const signing_counts& counts,
                    std::uint32_t word) {
  const bool whole = s.begins_whole();
  for (int kernel = 0; kernel < s.kernels; ++kernel) {
    const auto k = static_cast<std::size_t>(kernel);
    p.require(counts.told[k] == (whole ? 1 : 0),
              whole ? "one block is told of all parts of each kernel" : "nobody is told of all parts");
    if (whole)
      p.require(counts.refused[k] == 0, "nobody meets a word that cannot be");
    else if (s.left != 0 || kernel > 0)
      p.require(counts.refused[k] > 0, "somebody meets a word that cannot be");
  }
  if (whole) p.require(word == 0, "the word ends as it began");
}

check::result explore_signing(const signing_setting& s, const check::bounds& limits) {
  return check::explore(limits, [&](check::program& p) {
    const auto parts = static_cast<std::size_t>(s.blocks * s.warps),
               kernels = static_cast<std::size_t>(s.kernels);
    const signing_world w{p.allocate<std::uint32_t>(1, "word"), p.allocate<std::uint32_t>(parts, "part")};
    *w.word = s.left;
    const auto counts = std::make_shared<signing_counts>(
        signing_counts{std::vector<int>(kernels), std::vector<int>(kernels)});
    for (int i = 0; i < s.blocks * s.warps; ++i) {
      p.spawn(0, i / s.warps, i % s.warps, [w, counts, &p, &s](check::context& x) {
        planted<check::context> mine{x, s.bug, p.names()};
        run_signer(mine, p, w, s, *counts);
      });
    }
    p.at_end([w, counts, &p, &s] { require_counts(p, s, *counts, *w.word); });
  });
}

exploration signing_holds(const char* name, const signing_setting& s) {
  return {name, [s](const check::bounds& limits) { return explore_signing(s, limits); }};
}

std::vector<mutant> signing_mutants() {
  using enum change;
  constexpr verbs add = verbs::add;
  const auto wrong = [](const char* name, const char* breaks, std::vector<verdict> as, const planted_bug& bug,
                        signing_setting s = {}) {
    s.bug = bug;
    return mutant{name, breaks, std::move(as),
                  [s](const check::bounds& limits) { return explore_signing(s, limits); }};
  };
  const std::vector<verdict> race{verdict::data_race}, promise{verdict::broken_promise};
  return {
      wrong("the signature is relaxed", "P1", race, {.what = add, .how = relaxed}),
      wrong("the signature does not release", "P1", race, {.what = add, .how = without_release}),
      wrong("the signature does not acquire", "P1", race, {.what = add, .how = without_acquire}),
      wrong("the signature is at block scope", "P1", {verdict::scope_race}, {.what = add, .how = narrow}),
      wrong("signed before the part is written", "P1", race,
            {.what = verbs::write, .how = late, .cell = "part"}),
      wrong("no sync_block before signing", "P1", race, {.what = verbs::sync_block, .how = lost},
            {.warps = 2}),
      wrong("a block does not sign", "P1", promise, {.what = add, .how = lost, .block = 1, .time = 1}),
      wrong("a block signs for another", "P2", promise, {.what = add, .how = shifted, .block = 1, .by = 256}),
      wrong("the word is not reset", "Start", promise, {.what = verbs::relaxed_store, .how = lost}),
      wrong("the word is reset to a signature", "Start", promise,
            {.what = verbs::relaxed_store, .how = shifted, .by = 1})};
}

}  // namespace

protocol_check signed_parts_check() {
  return {.name = "signed_parts",
          .title =
              "Signing for parts so that exactly one block learns that all are there, and what cannot be is "
              "noticed",
          .headers = {"src/protocol/signed_parts.hpp"},
          .explorations =
              {signing_holds("2 blocks, 1 kernel", {.kernels = 1}),
               signing_holds("2 blocks, 4 kernels", {.kernels = 4}),
               signing_holds("2 blocks of 2 warps, 2 kernels", {.warps = 2, .kernels = 2}),
               signing_holds("3 blocks, 2 kernels", {.blocks = 3, .kernels = 2}),
               signing_holds("4 blocks, 1 kernel", {.blocks = 4, .kernels = 1}),
               signing_holds("3 blocks, the word was 1", {.blocks = 3, .kernels = 1, .left = 1}),
               signing_holds("3 blocks, the word was 3 of no parts", {.blocks = 3, .kernels = 1, .left = 3}),
               signing_holds("2 blocks, the word was a sum of no parts", {.kernels = 1, .left = 1 << 8}),
               signing_holds("2 blocks, the word was of other parts", {.kernels = 1, .left = 1 + (7 << 8)}),
               signing_holds("3 blocks, one makes no part, 2 kernels",
                             {.blocks = 3, .kernels = 2, .blotting = 1})},
          .mutants = signing_mutants()};
}

}  // namespace baton::checks
