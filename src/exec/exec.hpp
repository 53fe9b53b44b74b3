#pragma once
// exec: the one seam. Kernels and protocols are templates on an execution context X and use nothing else of
// the machine. A context speaks for one **warp** of one block of one rank.
//
//   back end   where                 participants                     used for
//   gpu        src/device/gpu.cuh    32 lanes in lockstep             the product
//   sim        sim/context.hpp       one fiber a warp, lanes looped   the CPU product, tests, faults
//   check      sim/check.hpp         one fiber a warp, explored       proofs up to a bound
//   threads    sim/threads.hpp       one std::thread a warp           ThreadSanitizer
//
// Per-lane state that crosses a verb lives in `X::lanes<T>`: one value a lane, indexed by lane. On the GPU it
// is a register and the index is ignored; elsewhere it is an array. Code between verbs is warp-uniform.
//
//   verbs that the whole warp calls together
//     each_lane(f)                f(lane) on every lane
//     each(n, f)                  f(i) for i in [0, n), lanes take i = lane, lane + 32, ...
//     block_each(n, f)            the same over all lanes of the block; all warps of the block call it
//     elect(f)                    f() on one lane
//     from_one(f)                 value of f() run on one lane, given to all
//     broadcast(v, lane)          value of a lanes<T>
//     shuffle(v, from)            lanes<T> with lane i holding v of lane from[i]
//     shuffle_xor(v, mask)        lanes<T> with lane i holding v of lane i ^ mask
//     shuffle_up(v, delta)        lane i holds v of lane i - delta; lanes below delta keep their own
//     ballot(p)                   bit i: p of lane i
//     equal_lanes(v)              lanes<uint32_t> of which lane i's bit j says that lanes i and j hold the same 32 bits
//     sync_warp(), sync_block()   convergence; orders memory at block scope
//     wait<order, scope>(...)     the only way to wait; see below
//
//   verbs of one lane (inside each_lane, each, block_each, elect, from_one)
//     read(p), write(p, v)        plain access to memory, trivially copyable T of at most 16 bytes
//     load<order, scope>(p)       atomic, 32 or 64 bits
//     store<order, scope>(p, v)
//     fetch_add<order, scope>(p, v), fetch_min<...>, fetch_or<...>, exchange<...>
//     count_to<order, scope>(p, n, target)   adds n; true in the call that makes it `target`. Nothing more is told, so
//                                 that counts short of the target commute: prefer it to fetch_add
//     fence<order, scope>()
//     has_given_up()              a wait of this rank has given up: its kernels return without touching anything
//     refuse(where, seen)         `seen` cannot be: the rank gives up here and now, as a wait does at its deadline
//
//   wait<order, scope>(words, done, where, seen) -> bool
//     Blocks the warp until done(lane, value of *words[lane]) holds on every lane whose word is not null.
//     `seen` gets each lane's last value, if it returns true. False: the deadline passed or the rank's abort word was set; then
//     the caller returns from the kernel without touching anything else. Which lane and value were missing is
//     in the stuck record.
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "base/macros.hpp"
#include "exec/order.hpp"
#include "exec/wait.hpp"

namespace baton {

inline constexpr int warp_lanes = 32;

/// 16 bytes, the unit of payload access.
struct alignas(16) vec16 {
  std::uint32_t word[4];
};

namespace exec_detail {
struct any_lane {
  template <class... Args>
  constexpr bool operator()(Args...) const {
    return true;
  }
};
}  // namespace exec_detail

/// What a protocol or kernel may ask of its context. Geometry is warp-uniform.
template <class X>
concept exec_context = requires(X& x, typename X::template lanes<int> v, typename X::template lanes<bool> p,
                                typename X::template lanes<std::uint64_t> seen,
                                typename X::template lanes<std::uint64_t*> words, std::uint64_t* w64,
                                std::uint32_t* w32, vec16* payload, exec_detail::any_lane f,
                                wait_site where) {
  { x.rank() } -> std::convertible_to<int>;
  { x.block() } -> std::convertible_to<int>;
  { x.num_blocks() } -> std::convertible_to<int>;
  { x.warp() } -> std::convertible_to<int>;
  { x.num_warps() } -> std::convertible_to<int>;
  { x.shared() } -> std::convertible_to<std::byte*>;
  x.each_lane(f);
  x.each(1, f);
  x.block_each(1, f);
  x.elect(f);
  { x.broadcast(v, 0) } -> std::same_as<int>;
  { x.shuffle(v, v) } -> std::same_as<typename X::template lanes<int>>;
  { x.shuffle_xor(v, 1) } -> std::same_as<typename X::template lanes<int>>;
  { x.shuffle_up(v, 1) } -> std::same_as<typename X::template lanes<int>>;
  { x.ballot(p) } -> std::same_as<std::uint32_t>;
  { x.equal_lanes(v) } -> std::same_as<typename X::template lanes<std::uint32_t>>;
  x.sync_warp();
  x.sync_block();
  { x.read(payload) } -> std::same_as<vec16>;
  x.write(payload, vec16{});
  { x.template load<order::acquire, scope::system>(w64) } -> std::same_as<std::uint64_t>;
  x.template store<order::release, scope::system>(w64, std::uint64_t{});
  { x.template fetch_add<order::acq_rel, scope::device>(w32, 1u) } -> std::same_as<std::uint32_t>;
  { x.template count_to<order::acq_rel, scope::device>(w32, 1u, 2u) } -> std::same_as<bool>;
  {
    x.template fetch_min<order::relaxed, scope::device>(w64, std::uint64_t{1})
    } -> std::same_as<std::uint64_t>;
  { x.template fetch_or<order::relaxed, scope::block>(w32, 1u) } -> std::same_as<std::uint32_t>;
  x.template fence<order::acq_rel, scope::system>();
  { x.has_given_up() } -> std::same_as<bool>;
  x.refuse(where, std::uint64_t{});
  { x.template wait<order::acquire, scope::system>(words, f, where, seen) } -> std::same_as<bool>;
};

}  // namespace baton
