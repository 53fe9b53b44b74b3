#pragma once
// The lane verbs of contexts in which one thread or fiber speaks for a warp: lanes are looped in order, so a warp is one
// participant. What each verb means: exec/exec.hpp.
//
// On a GPU a verb of the warp that one lane calls waits for lanes that never come, or has one lane do what all should. On the CPU
// machine those of here, of waits, lines, copies and barriers ask for the whole warp, and are refused where lanes go one by one.
// Not asked yet: products and what is done with their results, and what the checker's context and that of threads have of
// their own.
#include <string>

#include "base/unchecked.hpp"
#include "baton/error.hpp"
#include "exec/exec.hpp"

namespace baton::sim {

[[noreturn, gnu::noinline, gnu::cold]] inline void refuse_of_one_lane(const char* verb) {
  throw error{std::string{verb} +
              ": a verb of the warp, called by one lane; on a GPU it would wait for the others. Call it "
              "outside of each_lane, each, block_each, elect and from_one"};
}

/// `Context` says warp() and num_warps().
template <class Context>
class lane_verbs {
 public:
  template <class T>
  struct lanes {
    T value[warp_lanes];
    T& operator[](int lane) { return value[lane]; }
    const T& operator[](int lane) const { return value[lane]; }
  };

  template <class F>
  BATON_UNCHECKED void each_lane(F f) {
    const lane_by_lane apart{*this, "each_lane"};
    for (int lane = 0; lane < warp_lanes; ++lane) f(lane);
  }
  template <class F>
  BATON_UNCHECKED void each(int n, F f) {
    const lane_by_lane apart{*this, "each"};
    for (int i = 0; i < n; ++i) f(i);
  }
  template <class F>
  BATON_UNCHECKED void block_each(int n, F f) {
    const auto& x = static_cast<const Context&>(*this);
    const lane_by_lane apart{*this, "block_each"};
    for (int begin = x.warp() * warp_lanes; begin < n; begin += x.num_warps() * warp_lanes) {
      for (int i = begin; i < n && i < begin + warp_lanes; ++i) f(i);
    }
  }
  template <class F>
  BATON_UNCHECKED void elect(F f) {
    const lane_by_lane apart{*this, "elect"};
    f();
  }
  template <class F>
  BATON_UNCHECKED auto from_one(F f) {
    const lane_by_lane apart{*this, "from_one"};
    return f();
  }
  template <class T>
  T broadcast(const lanes<T>& v, int from) {
    require_whole("broadcast");
    return v[from];
  }
  template <class T>
  lanes<T> shuffle(const lanes<T>& v, const lanes<int>& from) {
    require_whole("shuffle");
    lanes<T> out;
    for (int lane = 0; lane < warp_lanes; ++lane) out[lane] = v[from[lane] % warp_lanes];
    return out;
  }
  template <class T>
  lanes<T> shuffle_xor(const lanes<T>& v, int mask) {
    require_whole("shuffle_xor");
    lanes<T> out;
    for (int lane = 0; lane < warp_lanes; ++lane) out[lane] = v[lane ^ mask];
    return out;
  }
  template <class T>
  lanes<T> shuffle_up(const lanes<T>& v, int delta) {
    require_whole("shuffle_up");
    lanes<T> out;
    for (int lane = 0; lane < warp_lanes; ++lane) out[lane] = v[lane < delta ? lane : lane - delta];
    return out;
  }
  std::uint32_t ballot(const lanes<bool>& p) {
    require_whole("ballot");
    std::uint32_t bits = 0;
    for (int lane = 0; lane < warp_lanes; ++lane) bits |= static_cast<std::uint32_t>(p[lane]) << lane;
    return bits;
  }
  lanes<std::uint32_t> equal_lanes(const lanes<int>& v) {
    require_whole("equal_lanes");
    lanes<std::uint32_t> equal;
    for (int lane = 0; lane < warp_lanes; ++lane) {
      const int value = v[lane];
      std::uint32_t bits = 0;
      for (int other = 0; other < warp_lanes; ++other)
        bits |= static_cast<std::uint32_t>(v.value[other] == value) << other;
      equal[lane] = bits;
    }
    return equal;
  }
  void sync_warp() { require_whole("sync_warp"); }
  /// Kernels of a queue run one after the other here.
  void launch_dependents() {}
  template <class Params>
  void fetch_params(const Params&) {}
  /// Looked at, so that a sanitizer says where there is no memory.
  void prefetch_line(const void* p) { static_cast<void>(*static_cast<const volatile std::byte*>(p)); }
  void prefetch_bytes(const void* p, int bytes) {
    prefetch_line(p);
    prefetch_line(static_cast<const std::byte*>(p) + bytes - 1);
  }
  void await_dependencies() {}

 protected:
  /// At the beginning of each verb of the warp.
  BATON_UNCHECKED void require_whole(const char* verb) const {
    if (is_apart_) refuse_of_one_lane(verb);
  }

 private:
  /// While there is one, lanes go one by one.
  class lane_by_lane {
   public:
    BATON_UNCHECKED lane_by_lane(lane_verbs& of, const char* verb) : of_{of} {
      of.require_whole(verb);
      of.is_apart_ = true;
    }
    lane_by_lane(const lane_by_lane&) = delete;
    lane_by_lane& operator=(const lane_by_lane&) = delete;
    BATON_UNCHECKED ~lane_by_lane() { of_.is_apart_ = false; }

   private:
    lane_verbs& of_;
  };

  bool is_apart_ = false;
};

}  // namespace baton::sim
