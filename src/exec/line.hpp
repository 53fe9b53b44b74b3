#pragma once
// The line half of the seam: 128-byte lines that become visible whole, and kernels that begin early. A context that has
// these verbs satisfies line_exec_context.
//
//   verbs of the warp
//     store_lines(to, v)           lane i stores v[i] at `to` + 16 i: four lines, `to` on 128 bytes. Whoever sees any byte of a
//                                  line that was written sees the whole line; between lines there is no order
//     load_lines(from)             what the four lines hold: lane i gets the 16 bytes at `from` + 16 i
//     load_lines(from, seen)       one look at several places: lane i gets its 16 bytes of from[k] in seen[k]
//     wait_lines(from, done, where, seen)
//                                  loads from[0..n) again and again until done(lane, values) holds on every lane, where
//                                  values[i] are the lane's 16 bytes of from[i]. False: gave up, as in wait (exec.hpp)
//     launch_dependents()          the next kernel of the stream may begin, up to its await_dependencies
//     fetch_params(p)              brings a kernel's parameters near, but for the last that make no 64 bytes. They lie in memory
//                                  that is read through a cache of its own, 64 bytes at a time, each when it is first asked for;
//                                  here all at once, where nothing waits yet
//     await_dependencies()         until the kernels before this one in the stream have ended. No access to memory that
//                                  they touch may come earlier
//   verbs of one lane
//     prefetch_line(p)             asks for the line of p: a later load may find it in the L2. Nothing is taken from it, so
//                                  that it may come before await_dependencies
//     prefetch_bytes(p, bytes)     the same of so many bytes, both aligned to 16: one request of the copy engine
//     gave_up_before()             1, else 0: has_given_up(), of the kernels before this one; after await_dependencies. A word as
//                                  it was loaded, so that nobody waits for it before he looks at it
//
// Lines order nothing but themselves: what a line holds is all that its reader may take from its arrival.
#include "exec/exec.hpp"
#include "exec/mbarrier.hpp"

namespace baton {

inline constexpr int line_bytes = 128;
inline constexpr int lanes_of_line = line_bytes / static_cast<int>(sizeof(vec16));
inline constexpr int lines_of_access = warp_lanes / lanes_of_line;
inline constexpr int line_access_bytes = lines_of_access * line_bytes;

/// The same access of n places.
template <int n>
struct line_places {
  const std::byte* at[n];
};

template <class X>
concept line_exec_context = async_exec_context<X> &&
    requires(X& x, std::byte* memory, typename X::template lanes<vec16> v,
             typename X::template lanes<vec16> (&seen)[1], exec_detail::any_lane done, wait_site where) {
  x.store_lines(memory, v);
  { x.load_lines(memory) } -> std::same_as<typename X::template lanes<vec16>>;
  x.load_lines(line_places<1>{{memory}}, seen);
  { x.wait_lines(line_places<1>{{memory}}, done, where, seen) } -> std::same_as<bool>;
  x.launch_dependents();
  x.fetch_params(v);
  x.await_dependencies();
  x.prefetch_line(memory);
  x.prefetch_bytes(memory, 16);
  { x.gave_up_before() } -> std::same_as<std::uint32_t>;
};

}  // namespace baton
