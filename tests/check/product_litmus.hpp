#pragma once
// Litmus programs of products that read shared memory at their own time, of boxes for several blocks, and of slots that are
// handed over between blocks at block scope.
#include "tests/check/counted_litmus.hpp"

namespace baton::litmus {

inline constexpr int box_bytes = 16;
inline std::byte* at_room(context& x, int box = 0) {
  return reinterpret_cast<std::byte*>(room(x)) + box * box_bytes;
}
inline void multiply(context& x, int box = 0) {
  x.start_product({{at_room(x, box), box_bytes}});
}
inline void write_over(context& x, int box = 0) {
  x.write(reinterpret_cast<std::uint32_t*>(at_room(x, box)), 9u);
}
/// Words of its own in two boxes of the room, past a fence if `fenced`.
inline void fill_room(context& x, bool fenced = true) {
  for (int i = 0; i < 8; ++i) x.write(room(x) + i, 7u);
  if (fenced) x.fence_proxy_async();
}

/// One warp, whose room has two boxes.
template <class Body>
test of_a_warp(const char* name, Body body, verdict expected) {
  return one_block(
      name, 1,
      [=](program&, const cells&, context& x) {
        begin(x, 1);
        fill_room(x);
        body(x);
      },
      expected);
}

inline std::vector<test> reading_tests() {
  using enum verdict;
  return {of_a_warp(
              "what a product was started with is written over when it was awaited",
              [](context& x) {
                multiply(x);
                x.await_products<0>();
                write_over(x);
              },
              none),
          of_a_warp(
              "not before",
              [](context& x) {
                multiply(x);
                write_over(x);
                x.await_products<0>();
              },
              data_race),
          of_a_warp(
              "all but the newest product are awaited",
              [](context& x) {
                multiply(x);
                multiply(x, 1);
                x.await_products<1>();
                write_over(x);
                x.await_products<0>();
              },
              none),
          of_a_warp(
              "the newest one is not",
              [](context& x) {
                multiply(x);
                multiply(x, 1);
                x.await_products<1>();
                write_over(x, 1);
                x.await_products<0>();
              },
              data_race),
          of_a_warp(
              "each operand is read",
              [](context& x) {
                x.start_product({{at_room(x), box_bytes}, {at_room(x, 1), box_bytes}});
                write_over(x, 1);
                x.await_products<0>();
              },
              data_race),
          of_a_warp(
              "a block that may end while a product runs", [](context& x) { multiply(x); }, loose_end),
          one_block(
              "a product does not see what its warp wrote without a proxy fence", 1,
              [](program&, const cells&, context& x) {
                begin(x, 1);
                fill_room(x, false);
                multiply(x);
                x.await_products<0>();
              },
              data_race),
          one_block(
              "a fence for global memory is none for a product", 1,
              [](program&, const cells&, context& x) {
                begin(x, 1);
                fill_room(x, false);
                x.fence_proxy_async_global();
                multiply(x);
                x.await_products<0>();
              },
              data_race)};
}

/// Warp 0 has a box loaded; warp 1 waits, or not, and multiplies.
inline test multiplying_a_copy(const char* name, bool waits, verdict expected) {
  return one_block(
      name, 2,
      [=](program& p, const cells&, context& x) {
        const std::uint32_t* from = x.warp() == 0 ? source(p) : nullptr;
        begin(x, 1);
        if (x.warp() == 0) {
          x.mbarrier_arrive_expect(bar(x), 100);
          return x.box_part_load(room(x), from, box_bytes, bar(x), 100);
        }
        if (waits && !await(x, bar(x), parity::even)) return;
        multiply(x);
        x.await_products<0>();
        if (!waits) await(x, bar(x), parity::even);
      },
      expected);
}

/// Warp 0 multiplies and tells of it, warp 1 writes over the operand.
inline test telling_of_a_product(const char* name, bool awaited, verdict expected) {
  return one_block(
      name, 2,
      [=](program&, const cells&, context& x) {
        begin(x, 1);
        if (x.warp() == 0) {
          fill_room(x);
          multiply(x);
          if (awaited) x.await_products<0>();
          x.mbarrier_arrive(bar(x), 1);
          x.await_products<0>();
        } else if (await(x, bar(x), parity::even)) {
          write_over(x);
        }
      },
      expected);
}

/// A pair of blocks of one warp each, and what boxes are loaded from.
template <class First, class Second>
test of_a_pair_with_source(const char* name, First of_block_1, Second of_block_0, verdict expected,
                           bool meets = true) {
  return {name,
          [=](program& p, const cells&) {
            p.shared_memory(async_shared_bytes);
            p.clusters_of(2);
            const std::uint32_t* from = source(p);
            for (int block = 0; block < 2; ++block) {
              p.spawn(0, block, 0, [=](context& x) {
                begin(x, 1);
                block == 1 ? of_block_1(x, from) : of_block_0(x, from);
                if (meets) x.sync_cluster();
              });
            }
          },
          expected};
}

enum class heard { own, by_the_other, nothing };

/// Block 0 has a box loaded to these blocks. Block 1 reads it when its own barrier says so, or when block 0 does, which has it.
inline test loading_to_both(const char* name, std::uint32_t blocks, heard how, verdict expected) {
  const auto expect_box = [](context& x) {
    x.mbarrier_arrive_expect<scope::block>(bar(x), box_bytes);
    x.sync_cluster();
  };
  return of_a_pair_with_source(
      name,
      [=](context& x, const std::uint32_t*) {
        expect_box(x);
        if (how == heard::nothing) return;
        if (!await<scope::cluster>(x, bar(x, how == heard::own ? 0 : 1), parity::even)) return;
        x.read(room(x));
        await(x, bar(x), parity::even);
      },
      [=](context& x, const std::uint32_t* from) {
        expect_box(x);
        x.box_part_load_to(room(x), from, box_bytes, bar(x), box_bytes, blocks);
        if (await(x, bar(x), parity::even) && how == heard::by_the_other)
          x.mbarrier_arrive_at(bar(x, 1), 1, 1);
      },
      expected, how != heard::nothing);
}

enum class slot_fault { none, unawaited, untold };

/// Block 0 has a box loaded into block 1, twice. Block 1 multiplies, and frees the slot at block scope in block 0, whose wait
/// reaches no further than its block.
inline test handing_over(const char* name, slot_fault fault, verdict expected) {
  return of_a_pair_with_source(
      name,
      [=](context& x, const std::uint32_t*) {
        x.mbarrier_arrive_expect<scope::block>(bar(x), box_bytes);
        x.sync_cluster();
        if (!await(x, bar(x), parity::even)) return;
        multiply(x);
        if (fault != slot_fault::unawaited) x.await_products<0>();
        x.mbarrier_arrive_expect<scope::block>(bar(x), box_bytes);
        x.mbarrier_arrive_at<scope::block>(bar(x, 1), 0, 1);
        x.await_products<0>();
        await(x, bar(x), parity::odd);
      },
      [=](context& x, const std::uint32_t* from) {
        const auto load = [&] { x.box_part_load_to(room(x), from, box_bytes, bar(x), box_bytes, 0b10); };
        x.sync_cluster();
        load();
        if (fault == slot_fault::untold || await(x, bar(x, 1), parity::even)) load();
        if (fault == slot_fault::untold) await(x, bar(x, 1), parity::even);
      },
      expected);
}

inline std::vector<test> product_tests() {
  using enum verdict;
  std::vector<test> all = reading_tests();
  const std::vector<test> more = {
      multiplying_a_copy("a product reads what a copy brought that was awaited, without a fence", true, none),
      multiplying_a_copy("not one on its way", false, data_race),
      telling_of_a_product("who hears of an awaited product may write over what it read", true, none),
      telling_of_a_product("not who hears of one that runs", false, data_race),
      loading_to_both("a box for two blocks lands in both", 0b11, heard::own, none),
      loading_to_both("one for the first does not land in the second", 0b01, heard::own, deadlock),
      loading_to_both("a block that has a box does not know that the other has it", 0b11, heard::by_the_other,
                      data_race),
      loading_to_both("a block that may end while a box is on its way into it", 0b11, heard::nothing,
                      loose_end),
      handing_over("a slot of two blocks is handed over at block scope", slot_fault::none, none),
      handing_over("not while a product of the other block runs", slot_fault::unawaited, data_race),
      handing_over("nor before it was told of", slot_fault::untold, data_race),
      of_a_pair(
          "an arrival at block scope hands on nothing of what was written, at whatever scope it is awaited",
          [](context& x, const cells& c) {
            x.write(c.data, 1u);
            x.mbarrier_arrive_at<scope::block>(bar(x), 0, 1);
          },
          [](program&, context& x, const cells& c) {
            if (await(x, bar(x), parity::even)) x.read(c.data);
          },
          data_race),
      of_a_pair(
          "one at cluster scope is not heard by a wait at block scope",
          [](context& x, const cells&) { x.mbarrier_arrive_at(bar(x), 0, 1); },
          [](program&, context& x, const cells&) { await(x, bar(x), parity::even); }, scope_race),
      one_block(
          "in its own block an arrival at block scope tells of all", 2,
          [](program&, const cells& c, context& x) {
            begin(x, 1);
            if (x.warp() == 0) {
              x.write(c.data, 1u);
              x.mbarrier_arrive_at<scope::block>(bar(x), 0, 1);
            } else if (await(x, bar(x), parity::even)) {
              x.read(c.data);
            }
          },
          none)};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace baton::litmus
