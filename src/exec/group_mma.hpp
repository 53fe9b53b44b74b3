#pragma once
// Group verbs of the seam: four warps multiply tiles in shared memory into fp32 accumulators, asynchronously. A context that
// has them satisfies group_exec_context. A group is warps 4g to 4g + 3 of a block; its warps call these verbs together, with the
// same tiles. Warp w of a group holds rows 16 w to 16 w + 15 of the 64.
//
//   group(), warp_of_group()           which group of the block, which warp of the group
//   group_accumulators<columns>        this warp's 16 rows of 64 x columns fp32; columns is 64, 128 or 256;
//                                      of few columns 8 or 32, of narrow_mma.hpp 16
//   start_product(acc, a, b, add)      acc = A * B^T, plus acc where `add`: starts it. A is 64 rows, B `columns` rows, both
//                                      operand_tiles of bf16 or fp16, or of e4m3 (128 columns). Products are done in the order of
//                                      their start. B of bf16 or fp16 may be rows_of_k, too: then it is A * B. A of bf16 or
//                                      fp16 may be group_results<k, T>, of which each warp has its rows: k is 64 for B a tile;
//                                      with rows_of_k<T, k>, A may be them or tile_columns<T, k>
//   prepare(tile)                      a prepared_tile<T>, which start_product takes too: what there is to work out of a place
//                                      is worked out before it is waited for. from_row(n) as of the tile
//   prepare_anew(tile)                 the same where it is used once, and again each time: it is not kept in registers
//   await_products<n>(done...)         until all but the newest n products are done; `done` are accumulators of none of
//                                      those n. Before it whoever touches acc, or writes over A or B, has a race
//   clear(acc)                         acc = 0
//   each_pair(acc, f)                  f(row, column, v0, v1) on the lane that holds them, row from 0 to 15 of this warp; v0
//                                      and v1 are references, acc at (row, column) and (row, column + 1)
//   row_values                         a float for each of this warp's 16 rows
//   read_rows(values, from)            plain reads of 16 floats of shared memory
//   of_rows(f)                         row_values, f(row) of each of this warp's 16 rows
//   mapped(values, f)                  row_values, f of each
//   each_row(values, f)                f(row, value) of each of this warp's 16 rows, on one lane
//   combined(a, b, f)                  row_values, f of each two
//   any_row(values, f)                 whether f(value) holds for one of this warp's 16 rows
//   largest_values(acc)                row_values: the largest of each row
//   row_sums                           sums of this warp's rows, spread over lanes; row_sums{} are zeros. scale_sums(sums, by)
//                                      are sums * by[row], total(sums) is row_values
//   exponentials<first, n>(acc, scale, low, sums)
//                                      each v of columns first to first + n - 1 becomes 2^(v * scale - low[row]), with one
//                                      rounding in front of the power, and is added to sums
//   largest_of_rows(acc, columns)      row_values: of each row the largest magnitude in the left half of acc, among the first
//                                      `columns`, a multiple of 8. What is no number loses
//   fold_halves(acc, f)                each value of the left half of acc becomes f(it, the one as far right of the middle)
//   scale_rows(acc, by)                acc = acc * by[row]
//   add_scaled(acc, first, part, by)   acc += by[row] * part, with one rounding, at as many columns from `first` on as part has
//   group_results<columns, T>          this warp's 16 rows of 64 x columns as T, bf16 or fp16: half the registers
//   round(acc, first, results)         results = acc from column `first` on, as many as results has
//   take_rows(tile, results)           results = the first 16 rows of a tile, all columns, as put_rows(tile, results, 0) put
//                                      them. All lanes read; they meet (sync_warp) before another warp may write there
//   each_chunk(results, f)             of results of 32 columns f(row, chunk, 16 bytes) for chunks 0 to 3 of each row, on a lane
//   each_turned_chunk(results, f)      the same without a word between lanes, with columns in another order: column
//                                      8 j + 2 i + b stands where column 8 i + 2 j + b would
//   put_rows(tile, results, first)     the same of results, and
//   put_rows(tile, acc, first)         this warp's 16 rows, columns first to first + tile.columns - 1, rounded to the tile's
//                                      type, bf16, fp16 or fp32, into 16 rows of a tile
//   put_rows(tile, acc, first, by)     the same as e4m3, of acc * by[row]
//   column_values<columns>             a float for each column of accumulators of 8, 16 or 32 columns, as combined_columns(
//                                      a, b, f), of_columns<columns>(f), each_column(values, f), any_column(values, f),
//                                      scale_columns(acc, by), largest_of_columns(acc), total_of_columns(sums) and
//                                      exponentials_of_columns(acc, scale, low, sums) have them: of this warp's rows
//   start_product(acc, spread, b, add) acc of 8 or 32 columns = A * B^T of a spread_tile and a tile
//   start_products(accs, turned, b, add)  each of 8 or 32 columns: of A whose columns are rows, 16 values of k, and B of as many
//   await_all_products<n>(accs)        as await_products, of several
//   leave_registers<n>()               the group keeps n registers a thread, the rest are free for others
//   take_registers<n>()                the group gets n registers a thread; waits until they are free
//   sync_groups(id, groups)            barrier `id`, 1 to 15, of all warps of `groups` groups; orders memory at block scope
//
// Products read shared memory as the copy engine does: what a warp wrote plainly is there after fence_proxy_async. A warp that
// gave up starts none: what it waited for may still be on its way.
#include <cstdint>

#include "exec/tensor_copy.hpp"

namespace baton {

inline constexpr int group_warps = 4, group_threads = group_warps * warp_lanes;
inline constexpr int group_rows = 64, group_warp_rows = 16;

/// What a role of a block has: so many groups, and so many registers for each of their threads.
struct role_groups {
  int groups, registers;
};
inline constexpr int registers_of_an_sm = 64 << 10;

/// Registers of a thread as the kernel begins: an equal share of the SM's.
constexpr int registers_at_start(int groups) {
  return registers_of_an_sm / (groups * group_threads) / 8 * 8;
}
/// Null if roles can share registers so, otherwise the first reason they cannot.
template <int n>
constexpr const char* why_not(const role_groups (&roles)[n]) {
  int groups = 0, registers = 0;
  for (const role_groups& r : roles) {
    if (r.registers < 24 || r.registers > 240 || r.registers % 8 != 0)
      return "registers: not a multiple of 8 from 24 to 240";
    groups += r.groups;
    registers += r.groups * r.registers;
  }
  return registers <= groups * registers_at_start(groups)
             ? nullptr
             : "registers: more than the block begins with, so that who takes them waits for ever";
}

namespace exec_detail {
struct any_pair_of_row {
  constexpr void operator()(int, int, float&, float&) const {}
};
struct value_of_value {
  constexpr float operator()(float v) const { return v; }
};
struct value_of_row {
  constexpr void operator()(int, float) const {}
};
struct row_of_value {
  constexpr float operator()(int) const { return 1; }
};
struct any_chunk {
  constexpr void operator()(int, int, const vec16&) const {}
};
struct any_value {
  constexpr bool operator()(float) const { return true; }
};
struct value_of_two {
  constexpr float operator()(float v, float) const { return v; }
};
}  // namespace exec_detail

/// Verbs of products whose columns are few.
template <class X>
concept columns_exec_context = requires(X& x, typename X::template group_accumulators<8> acc,
                                        typename X::template group_accumulators<32> (&accs)[4],
                                        typename X::template column_values<8> values,
                                        spread_tile<bfloat16, 4096> spread,
                                        turned_tiles<float16, 4096> turned, operand_tile tile) {
  values = x.template of_columns<8>(exec_detail::row_of_value{});
  x.each_column(values, exec_detail::value_of_row{});
  values = x.combined_columns(values, values, exec_detail::value_of_two{});
  { x.any_column(values, exec_detail::any_value{}) } -> std::same_as<bool>;
  values = x.largest_of_columns(acc);
  values = x.total_of_columns(values);
  x.scale_columns(acc, values);
  x.exponentials_of_columns(acc, 1.0f, values, values);
  x.start_product(acc, spread, tile, true);
  x.start_products(accs, turned, tile_columns<float16, 16>{}, true);
  x.template await_all_products<0>(accs);
};

template <class X>
concept group_exec_context = tensor_exec_context<X> && columns_exec_context<X> &&
    requires(X& x, typename X::template group_accumulators<128> acc,
             typename X::template group_results<64, bfloat16> results,
             typename X::template group_results<64, float16> half_results, typename X::row_values values,
             typename X::template group_results<32, bfloat16> half_of_results, typename X::row_sums sums,
             std::uint32_t* late, operand_tile tile, operand_tile_fp16 half_tile,
             operand_tile_e4m3 small_tile, swizzled_tile<float> wide_tile, exec_detail::any_pair_of_row f,
             mbarrier* b, float* rows) {
  { x.group() } -> std::convertible_to<int>;
  { x.warp_of_group() } -> std::convertible_to<int>;
  x.start_product(acc, tile, tile, true);
  x.start_product(acc, half_tile, half_tile, true);
  x.start_product(acc, tile, rows_of_k<bfloat16>{tile}, true);
  x.start_product(acc, half_tile, rows_of_k<float16>{half_tile}, true);
  x.start_product(acc, x.prepare(small_tile), x.prepare(small_tile).from_row(8), true);
  x.start_product(acc, x.prepare_anew(tile), x.prepare_anew(tile), true);
  x.start_product(acc, results, tile, true);
  x.start_product(acc, half_of_results, rows_of_k<bfloat16, 32>{tile}, true);
  x.start_product(acc, tile_columns<bfloat16, 32>{tile, 0}, rows_of_k<bfloat16, 32>{tile}, true);
  x.take_rows(tile, results);
  x.each_chunk(half_of_results, exec_detail::any_chunk{});
  x.each_turned_chunk(half_of_results, exec_detail::any_chunk{});
  {
    x.any_row(x.combined(values, x.largest_values(acc), exec_detail::value_of_two{}),
              exec_detail::any_value{})
    } -> std::same_as<bool>;
  x.template exponentials<0, 32>(acc, 1.0f, values, sums);
  x.scale_sums(sums, values);
  values = x.total(sums);
  x.template await_products<1>();
  x.template await_products<0>(acc);
  x.clear(acc);
  x.each_pair(acc, f);
  x.round(acc, 0, results);
  x.put_rows(tile, results, 0);
  x.put_rows(tile, acc, 0);
  x.round(acc, 0, half_results);
  x.put_rows(half_tile, half_results, 0);
  x.put_rows(half_tile, acc, 0);
  x.put_rows(wide_tile, acc, 0);
  x.template leave_registers<40>();
  x.template take_registers<232>();
  x.sync_groups(1, 1);
  x.read_rows(values, rows);
  x.add_scaled(acc, 0, acc, x.mapped(values, exec_detail::value_of_value{}));
  x.each_row(x.largest_of_rows(acc, 8), exec_detail::value_of_row{});
  x.scale_rows(acc, x.of_rows(exec_detail::row_of_value{}));
  x.fold_halves(acc, exec_detail::value_of_two{});
  x.put_rows(small_tile, acc, 0, values);
  x.store_counted(x.reach(0), rows, 1.0f, b);
  x.copy_word(rows, rows);
  x.copy_chunk(rows, rows, 16);
  x.commit_copies();
  x.template await_copies<1>();
  x.mbarrier_arrive_after_copies(b);
  { x.template mbarrier_is_over<scope::block>(b, parity::even) } -> std::same_as<bool>;
  x.template mbarrier_wait_or_note<scope::block>(b, parity::even, 1u, wait_site{}, late);
  x.report_late(wait_site{});
};

}  // namespace baton
