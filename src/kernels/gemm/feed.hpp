#pragma once
// Warps that put into slots what the copy engine does not: the scales of e4m3, and rows of A that lie where a list says. A warp
// for each consumer group. All is copied without passing through registers, so that many slots' are on their way at a time.
#include "exec/group_mma.hpp"
#include "kernels/gemm/block_sums.hpp"

namespace baton::gemm_kernels {

/// What a lane puts into a slot that does not copy it: the scales of rows lane and lane + 32, and of a block of B's columns.
struct read_scales {
  float a[group_rows / warp_lanes], b;
};
/// A base, as a member, used or not, would change kernels that have none.
template <config C, class X>
struct feed_registers {};
template <config C, class X>
requires(C.has_exponents()) struct feed_registers<C, X> {
  typename X::template lanes<read_scales> read;
};

template <config C, class X>
class feed : feed_registers<C, X> {
  using pipeline = slot_pipeline<C>;
  using slot = slot_scales<C>;
  static constexpr int rows_a_lane = group_rows / warp_lanes;

 public:
  static constexpr int warps = C.fed_by_warps() ? consumer.groups : 0;
  static constexpr int arrivals = warps * warp_lanes;  // for each slot

  BATON_FN feed(X& x, const params& p, const k_steps& steps, int number)
      : x_{x},
        p_{p},
        steps_{steps},
        number_{number},
        out_{pipeline{block_plan<C>{}.barriers(x)}.producer()} {}

  /// What one tile needs. False: gave up.
  BATON_FN bool run(const tile& t) {
    if constexpr (C.has_exponents())
      if (p_.a_exponents != nullptr || p_.b_exponents != nullptr) return run_with_exponents(t);
    const int first = t.row + number_ * group_rows, rows = t.rows - number_ * group_rows;
    if constexpr (C.listed) look_rows_up(first);
    if constexpr (C.block_scaled()) x_.each_lane([&](int lane) { from_[lane] = places_of(t, first, lane); });
    BATON_ROLLED
    for (int k = steps_.first; k < steps_.first + steps_.count; ++k) {
      if (!out_.producer_acquire(x_, {.where = "gemm.slot_free"})) return false;
      x_.each_lane([&](int lane) {
        if constexpr (C.listed) copy_rows(k, lane, rows);
        if constexpr (C.block_scaled()) copy_scales(k, lane);
        if constexpr (!C.listed) x_.mbarrier_arrive_after_copies(out_.producer_mbar());
      });
      if constexpr (C.listed) ask_for_rows();
      out_.step();
    }
    return true;
  }
  /// Behind the last tile.
  BATON_FN void finish() {
    if constexpr (C.listed) tell_of_copies<0>();
  }

 private:
  /// Scales of eight bits pass through registers, and are put into slots as fp32: they are read while a slot is waited for, with
  /// a list behind the rows, which leave few registers.
  BATON_FN bool run_with_exponents(const tile& t) {
    const int first = t.row + number_ * group_rows, rows = t.rows - number_ * group_rows;
    if constexpr (C.listed) look_rows_up(first);
    BATON_ROLLED
    for (int k = steps_.first; k < steps_.first + steps_.count; ++k) {
      if constexpr (!C.listed)
        x_.each_lane([&](int lane) { this->read[lane] = scales_at(t, first, k, lane); });
      if (!out_.producer_acquire(x_, {.where = "gemm.slot_free"})) return false;
      x_.each_lane([&](int lane) {
        if constexpr (C.listed) {
          copy_rows(k, lane, rows);
          move_scales(t, k, lane);
        } else {
          put_scales(lane, this->read[lane]);
          x_.template mbarrier_arrive<scope::block>(out_.producer_mbar(), 1);
        }
      });
      if constexpr (C.listed) ask_for_rows();
      out_.step();
    }
    return true;
  }
  BATON_FN void ask_for_rows() {
    x_.commit_copies();
    tell_of_copies<1>();
    untold_ = out_.index();
  }
  /// Products see copied rows only through a fence behind the copies. So a slot is told of when what the next one needs has been
  /// asked for.
  template <int newest>
  BATON_FN void tell_of_copies() {
    if (untold_ < 0) return;
    x_.template await_copies<newest>();
    x_.each_lane([&](int) {
      x_.fence_proxy_async();
      x_.template mbarrier_arrive<scope::block>(block_plan<C>{}.barriers(x_) + untold_, 1);
    });
    untold_ = -1;
  }
  /// Where a lane has it from what it puts into slots: of rows lane and lane + 32, and of a block of B's columns.
  struct places {
    const float *a[rows_a_lane], *b;
  };
  /// Of rows that there are not, another row's: what comes of them is not stored.
  BATON_FN int stored_row(int row) const {
    const int r = smaller(row, p_.m - 1);
    if constexpr (C.listed) return smaller(larger(x_.read(p_.a_list + r), 0), p_.num_a_rows - 1);
    return r;
  }
  BATON_FN const float* scales_of(int row) const { return p_.a_scales + std::int64_t{row} * p_.a_scale_row; }
  BATON_FN int own_rows() const { return number_ * group_rows; }
  BATON_FN std::int32_t* listed() const { return block_plan<C>{}.rows(x_) + own_rows(); }
  BATON_FN places places_of(const tile& t, int first, int lane) const {
    places from;
    BATON_UNROLL
    for (int r = 0; r < rows_a_lane && !C.listed; ++r)
      from.a[r] = scales_of(stored_row(first + lane + r * warp_lanes));
    const int blocks = ceil_div(p_.n, scaled_columns), group = C.grouped ? t.b_row / p_.n : 0;
    const int part = lane % slot::b_blocks, of_tile = t.column / scaled_columns;
    const int block = C.gated ? of_tile : smaller(of_tile + part, blocks - 1);
    const float* scales = C.gated && part == 1 ? p_.b_up_scales : p_.b_scales;
    from.b = scales + (std::int64_t{group} * blocks + block) * steps_.all;
    return from;
  }
  BATON_FN void copy_scales(int k, int lane) {
    slot& to = block_plan<C>{}.scales(x_)[out_.index()];
    const places& from = from_[lane];
    BATON_UNROLL
    for (int r = 0; r < rows_a_lane; ++r) {
      const int row = lane + r * warp_lanes;
      const int place = C.listed ? x_.read(listed() + row) : 0;
      x_.copy_word(&to.a[own_rows() + row], (C.listed ? scales_of(place) : from.a[r]) + k * p_.a_scale_block);
    }
    if (number_ == 0 && lane < slot::b_blocks) x_.copy_word(&to.b[lane], from.b + k);
  }

  BATON_FN float scale_at(const float* fp32, const float8_e8m0* exponents, std::int64_t index) const {
    return exponents == nullptr ? x_.read(fp32 + index) : static_cast<float>(x_.read(exponents + index));
  }
  BATON_FN float a_scale_at(int place, int k) const {
    return scale_at(p_.a_scales, p_.a_exponents, std::int64_t{place} * p_.a_scale_row + k * p_.a_scale_block);
  }
  /// Of a lane that has one.
  BATON_FN float b_scale_at(const tile& t, int k, int lane) const {
    const int blocks = ceil_div(p_.n, scaled_columns), group = C.grouped ? t.b_row / p_.n : 0;
    const int block = smaller(t.column / scaled_columns + lane, blocks - 1);
    return scale_at(p_.b_scales, p_.b_exponents, (std::int64_t{group} * blocks + block) * steps_.all + k);
  }
  BATON_FN bool has_b_scale(int lane) const { return number_ == 0 && lane < slot::b_blocks; }
  BATON_FN read_scales scales_at(const tile& t, int first, int k, int lane) const {
    read_scales made{};
    BATON_UNROLL
    for (int r = 0; r < rows_a_lane; ++r)
      made.a[r] = a_scale_at(stored_row(first + lane + r * warp_lanes), k);
    if (has_b_scale(lane)) made.b = b_scale_at(t, k, lane);
    return made;
  }
  BATON_FN void put_scales(int lane, const read_scales& read) {
    slot& to = block_plan<C>{}.scales(x_)[out_.index()];
    BATON_UNROLL
    for (int r = 0; r < rows_a_lane; ++r) x_.write(&to.a[own_rows() + lane + r * warp_lanes], read.a[r]);
    if (has_b_scale(lane)) x_.write(&to.b[lane], read.b);
  }
  /// One after the other, as rows that are copied leave few registers.
  BATON_FN void move_scales(const tile& t, int k, int lane) {
    slot& to = block_plan<C>{}.scales(x_)[out_.index()];
    BATON_ROLLED
    for (int row = lane; row < group_rows; row += warp_lanes)
      x_.write(&to.a[own_rows() + row], a_scale_at(x_.read(listed() + row), k));
    if (has_b_scale(lane)) x_.write(&to.b[lane], b_scale_at(t, k, lane));
  }

  /// Those of the tile before are read by this warp alone.
  BATON_FN void look_rows_up(int first) {
    x_.sync_warp();
    const auto look = [&](int i) { x_.write(listed() + i, stored_row(first + i)); };
    if constexpr (C.has_exponents()) {
      x_.each_lane([&](int lane) {
        // One at a time: with what else there is to read registers do not suffice for more.
        BATON_ROLLED
        for (int i = lane; i < group_rows; i += warp_lanes) look(i);
      });
    } else {
      x_.each(group_rows, look);
    }
    x_.sync_warp();
  }
  /// Eight lanes copy a row's 128 bytes. What is beyond k is zeros; rows that the group does not have stay as they were.
  BATON_FN void copy_rows(int k, int lane, int rows) {
    constexpr int lanes_a_row = operand<C>::chunks, rows_at_once = warp_lanes / lanes_a_row;
    const operand<C> to = a_slot<C>(x_, out_.index()).from_row(own_rows());
    const int chunk = lane % lanes_a_row, column = k * block_k<C> + chunk * operand<C>::chunk_values;
    const int bytes = column < p_.k ? 16 : 0;
    const std::byte* const first =
        p_.a_rows + (bytes > 0 ? column * (operand<C>::row_bytes / block_k<C>) : 0);
    constexpr int at_once = 2;  // whose places are read before the first is asked for
    BATON_ROLLED
    for (int row = lane / lanes_a_row; row < smaller(rows, group_rows); row += at_once * rows_at_once) {
      std::int32_t place[at_once];
      BATON_UNROLL
      for (int i = 0; i < at_once; ++i) place[i] = x_.read(listed() + row + i * rows_at_once);
      BATON_UNROLL
      for (int i = 0; i < at_once; ++i)
        if (row + i * rows_at_once < rows)
          x_.copy_chunk(to.chunk(row + i * rows_at_once, chunk),
                        first + std::int64_t{place[i]} * p_.a_row_bytes, bytes);
    }
  }

  X& x_;
  const params& p_;
  k_steps steps_;
  int number_;
  typename X::template lanes<places> from_;
  typename pipeline::producer_end out_;
  int untold_ = -1;  // a slot that has been asked for, and is not told of yet
};

}  // namespace baton::gemm_kernels
