#pragma once
// `baton bench compare`: which times of two runs of `baton bench ep` differ by more than they vary.
#include <filesystem>
#include <ostream>

namespace baton::cli {

struct bench_compare_options {
  std::filesystem::path before, after;
  bool json = false;
};

/// Returns an exit_code: check_failed if a time became longer beyond the spread.
/// @throws bad_file  a file that baton bench ep did not write
int run_bench_compare(const bench_compare_options& options, std::ostream& out);

}  // namespace baton::cli
