#pragma once
#include <ostream>

namespace baton::cli {

/// The program: parses, runs the chosen command and reports how it failed. Returns an exit_code; throws nothing.
int run_program(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace baton::cli
