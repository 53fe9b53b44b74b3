// Tensor copies, products of groups and their barriers on a GPU: what each verb does.
#include "baton/device_buffer.hpp"
#include "exec/site_name.hpp"
#include "tests/gpu/start.cuh"
#include "tests/gpu/waiting_case.hpp"
#include "tests/support/gemm_case.hpp"

namespace baton {
namespace {

constexpr int tile_bytes = group_rows * operand_tile::row_bytes;
constexpr std::size_t block_bytes = 6 * tile_bytes + 64;

struct params {
  tensor_map a, b, c;
  float* out = nullptr;
  int columns = 0;
  box_origin box{};
  bool is_stored = false;
};

/// Two tiles of 64 rows and one of 256, then barriers.
template <class X>
struct block_memory {
  BATON_FN explicit block_memory(X& x)
      : a{x.shared()},
        result{x.shared() + tile_bytes},
        b{x.shared() + 2 * tile_bytes},
        ready{reinterpret_cast<mbarrier*>(x.shared() + 6 * tile_bytes)} {}
  operand_tile a, result, b;
  mbarrier* ready;
};

constexpr wait_site at_verb() {
  return {.where = "test"};
}

template <class X>
BATON_FN void init(X& x, mbarrier* ready) {
  if (x.warp() == 0) {
    x.elect([&] {
      x.mbarrier_init(ready, 1);
      x.fence_mbarrier_init();
    });
  }
  x.sync_cluster();
}

template <int columns, bool b_is_rows_of_k>
struct fp32_pairs {
  static constexpr kernel_bounds bounds{
      .max_threads = 3 * group_threads, .blocks_per_sm = 1, .in_groups = true};

  /// out[64, columns] = twice a * b^T, or a * b, by two products of group 1; group 0 loads, group 2 does nothing.
  template <group_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    const block_memory<X> m{x};
    init(x, m.ready);
    if (x.group() != 1) {
      x.template leave_registers<40>();
      if (x.warp() == 0) {
        x.elect([&] {
          x.prefetch(p.a);
          x.template mbarrier_arrive_expect<scope::block>(m.ready,
                                                          tile_bytes + columns * operand_tile::row_bytes);
          x.tensor_load(m.a.at, p.a, {0, 0}, m.ready);
          for (int column = 0; column < (b_is_rows_of_k ? columns : 1); column += 64)
            x.tensor_load(as_rows_of_k(m.b).tile(column).at, p.b, {column, 0}, m.ready);
        });
      }
      return;
    }
    x.template take_registers<232>();
    typename X::template group_accumulators<columns> acc;
    if (!x.template mbarrier_wait<scope::block>(m.ready, parity::even, at_verb())) return;
    if constexpr (b_is_rows_of_k) {
      x.start_product(acc, m.a, as_rows_of_k(m.b), false);
      x.start_product(acc, m.a, as_rows_of_k(m.b), true);
    } else {
      x.start_product(acc, m.a, m.b, false);
      x.start_product(acc, m.a, m.b, true);
    }
    x.template await_products<0>(acc);
    x.each_pair(acc, [&](int row, int column, float& low, float& high) {
      row += x.warp_of_group() * group_warp_rows;
      x.write(p.out + row * columns + column, low);
      x.write(p.out + row * columns + column + 1, high);
    });
  }
};

/// The box of a, by way of shared memory, to c at the same place; out gets it as the tile's accessor reads it.
struct through_shared_memory {
  static constexpr kernel_bounds bounds{.max_threads = group_threads, .blocks_per_sm = 1, .in_groups = true};

  template <group_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    const block_memory<X> m{x};
    init(x, m.ready);
    x.elect([&] {
      if (x.warp() != 0) return;
      x.mbarrier_arrive_expect(m.ready, tile_bytes);
      x.tensor_load(m.a.at, p.a, p.box, m.ready);
    });
    if (!x.template mbarrier_wait<scope::block>(m.ready, parity::even, at_verb())) return;
    x.block_each(group_rows * operand_tile::chunks, [&](int i) {
      const int row = i / operand_tile::chunks, chunk = i % operand_tile::chunks;
      float values[8];
      widen(x.read(m.a.chunk(row, chunk)).word, values);
      for (int v = 0; v < 8; ++v) x.write(p.out + row * 64 + chunk * 8 + v, values[v]);
    });
    if (x.warp() == 0 && p.is_stored) {
      x.elect([&] {
        x.tensor_store(p.c, p.box, m.a.at);
        x.bulk_commit();
      });
      x.bulk_wait();
    }
  }
};

/// Each block of a pair loads half of a and gives it to both; each tells what it got.
struct both_get_halves {
  static constexpr kernel_bounds bounds{
      .max_threads = group_threads, .blocks_per_sm = 1, .cluster = 2, .in_groups = true};

  template <group_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    const block_memory<X> m{x};
    init(x, m.ready);
    const int part = x.cluster_block() * 32;
    if (x.warp() == 0) {
      x.elect([&] {
        x.template mbarrier_arrive_expect<scope::block>(m.ready, tile_bytes);
        x.tensor_load_to(m.a.from_row(part).at, p.a, {0, part}, m.ready, 3u);
      });
    }
    if (x.template mbarrier_wait<scope::block>(m.ready, parity::even, at_verb())) {
      x.block_each(group_rows * operand_tile::chunks, [&](int i) {
        const int row = i / operand_tile::chunks, chunk = i % operand_tile::chunks;
        float values[8];
        widen(x.read(m.a.chunk(row, chunk)).word, values);
        float* to = p.out + (x.cluster_block() * group_rows + row) * 64 + chunk * 8;
        for (int v = 0; v < 8; ++v) x.write(to + v, values[v]);
      });
    }
    x.sync_cluster();
  }
};

/// Rows of accumulators that are written by hand, to a tile of T and from there to c: bf16 or fp32.
template <class T>
struct puts_rows {
  static constexpr kernel_bounds bounds{.max_threads = group_threads, .blocks_per_sm = 1, .in_groups = true};

  template <group_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    typename X::template group_accumulators<128> acc;
    const int first_row = x.warp_of_group() * group_warp_rows;
    x.each_pair(acc, [&](int row, int column, float& low, float& high) {
      low = static_cast<float>((first_row + row) * 128 + column);
      high = low + 1;
    });
    constexpr int columns = swizzled_tile<T>::columns;
    BATON_UNROLL
    for (int first = 0; first < 128; first += columns) {
      const swizzled_tile<T> place{x.shared() + x.warp() * group_warp_rows * operand_tile::row_bytes};
      x.bulk_wait_read();
      x.put_rows(place, acc, first);
      x.each_lane([&](int) { x.fence_proxy_async(); });
      x.sync_warp();
      x.elect([&] {
        x.tensor_store(p.c, {first, first_row}, place.at);
        x.bulk_commit();
      });
    }
    x.bulk_wait();
  }
};

/// Groups 0 and 1 hand a word back and forth through barrier 3, while group 2 has left.
struct meets_without_the_third {
  static constexpr kernel_bounds bounds{
      .max_threads = 3 * group_threads, .blocks_per_sm = 1, .in_groups = true};

  template <group_exec_context X>
  static BATON_FN void run(X& x, const params& p) {
    auto* word = reinterpret_cast<float*>(x.shared());
    if (x.group() == 2) return;
    float wrong = 0;
    for (int turn = 1; turn <= 100; ++turn) {
      if (x.group() == turn % 2 && x.warp_of_group() == 3)
        x.elect([&] { x.write(word, static_cast<float>(turn)); });
      x.sync_groups(3, 2);
      x.each_lane([&](int) { wrong += x.read(word) != static_cast<float>(turn) ? 1.0f : 0.0f; });
      x.sync_groups(3, 2);
    }
    x.each_lane([&](int lane) { x.write(p.out + x.warp() * warp_lanes + lane, wrong); });
  }
};

class gpu_group : public test::waiting_case {
 protected:
  gpu_group() : waiting_case{2'000'000'000} {}
  void SetUp() override {
    waiting_case::SetUp();
    if (!IsSkipped()) worlds_ = world::local(1, device_kind::cuda);
  }
  template <class Kernel>
  std::vector<float> run(params p, std::size_t values, int groups, int blocks = 1) {
    device_buffer<float> out{worlds_[0], std::vector<float>(values, -1.0f)};
    p.out = out.data();
    test::start<Kernel>({blocks, groups * group_threads, block_bytes}, p, {3, limits_});
    test::finish();
    EXPECT_EQ(record_->claimed, 0u) << name(record_->where);
    return out.to_host();
  }
  template <class T>
  device_buffer<T> on_gpu(const std::vector<T>& values) {
    return {worlds_[0], values};
  }
  template <class T>
  static tensor_map map_of(const device_buffer<T>& values, int rows, int columns, int box_rows) {
    const int bytes = static_cast<int>(sizeof(T));
    const tensor_layout matrix{values.data(), bytes, columns, rows, std::int64_t{columns} * bytes, box_rows};
    return on_cuda::make_tensor_map(boxes_of(matrix), 2);
  }
  template <int columns>
  void expect_product() {
    const test::gemm_size size{64, columns, 64};
    const test::gemm_case g = test::integer_gemm(size);
    const auto a = on_gpu(g.a), b = on_gpu(g.b), rows_of_k = on_gpu(test::b_of_rows_of_k(g));
    params p{};
    p.a = map_of(a, 64, 64, 64);
    p.b = map_of(b, columns, 64, columns);
    const auto out = run<fp32_pairs<columns, false>>(p, g.c.size(), 3);
    p.b = map_of(rows_of_k, 64, columns, 64);
    const auto same = run<fp32_pairs<columns, true>>(p, g.c.size(), 3);
    for (std::size_t i = 0; i < out.size(); ++i) {
      ASSERT_EQ(static_cast<double>(out[i]), 2 * g.c[i]) << columns << " " << i;
      ASSERT_EQ(same[i], out[i]) << columns << " " << i << ", b of rows of k";
    }
  }
  std::vector<world> worlds_;
};

TEST_F(gpu_group, products_of_every_width_are_exact_and_done_in_order) {
  expect_product<64>();
  expect_product<128>();
  expect_product<256>();
}

TEST_F(gpu_group, a_box_is_swizzled_with_zeros_outside_and_stored_back_without_them) {
  constexpr int rows = 70, columns = 88;
  std::vector<bfloat16> values;
  for (int i = 0; i < rows * columns; ++i) values.push_back(bfloat16{static_cast<float>(i % 251 + 1)});
  const auto a = on_gpu(values);
  for (const box_origin box : {box_origin{0, 0}, {64, 0}, {0, 64}, {64, 64}, {-8, -3}, {128, 0}}) {
    const auto c = on_gpu(std::vector<bfloat16>(values.size(), bfloat16{-1.0f}));
    params p{};
    p.a = map_of(a, rows, columns, 64);
    p.c = map_of(c, rows, columns, 64);
    p.box = box;
    p.is_stored = box.row >= 0 && box.column >= 0;
    const auto out = run<through_shared_memory>(p, 64 * 64, 1);
    const auto stored = c.to_host();
    const auto at = [&](int row, int column) { return static_cast<std::size_t>(row * columns + column); };
    for (int r = 0; r < rows; ++r) {
      for (int k = 0; k < columns; ++k) {
        const bool in_box =
            p.is_stored && r >= box.row && r < box.row + 64 && k >= box.column && k < box.column + 64;
        ASSERT_EQ(static_cast<float>(stored[at(r, k)]),
                  in_box ? static_cast<float>(values[at(r, k)]) : -1.0f);
      }
    }
    for (int r = 0; r < 64; ++r) {
      for (int k = 0; k < 64; ++k) {
        const int row = box.row + r, column = box.column + k;
        const bool is_there = row >= 0 && row < rows && column >= 0 && column < columns;
        ASSERT_EQ(out[static_cast<std::size_t>(r * 64 + k)],
                  is_there ? static_cast<float>(values[at(row, column)]) : 0.0f);
      }
    }
  }
}

TEST_F(gpu_group, a_box_for_several_blocks_lands_and_is_counted_in_each) {
  std::vector<bfloat16> values;
  for (int i = 0; i < 64 * 64; ++i) values.push_back(bfloat16{static_cast<float>(i % 251 + 1)});
  const auto a = on_gpu(values);
  params p{};
  p.a = map_of(a, 64, 64, 32);
  const auto out = run<both_get_halves>(p, 2 * 64 * 64, 1, 2);
  for (std::size_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(out[i], static_cast<float>(values[i % values.size()])) << i;
}

TEST_F(gpu_group, rows_are_put_rounded_into_tiles_of_both_types) {
  device_buffer<bfloat16> halves{worlds_[0], 64 * 128};
  device_buffer<float> floats{worlds_[0], 64 * 128};
  params p{};
  p.c = map_of(halves, 64, 128, 16);
  run<puts_rows<bfloat16>>(p, 1, 1);
  p.c = map_of(floats, 64, 128, 16);
  run<puts_rows<float>>(p, 1, 1);
  const auto rounded = halves.to_host();
  const auto exact = floats.to_host();
  for (std::size_t i = 0; i < exact.size(); ++i) {
    ASSERT_EQ(exact[i], static_cast<float>(i));
    ASSERT_EQ(rounded[i], bfloat16{static_cast<float>(i)});
  }
}

TEST_F(gpu_group, groups_meet_at_a_barrier_that_orders_memory_without_the_others) {
  const auto wrong = run<meets_without_the_third>({}, 2 * group_threads, 3);
  for (const float w : wrong) ASSERT_EQ(w, 0.0f);
}

}  // namespace
}  // namespace baton
