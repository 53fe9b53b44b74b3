#include <iostream>

#include "cli/commands/program.hpp"

int main(int argc, char** argv) {
  return baton::cli::run_program(argc, argv, std::cout, std::cerr);
}
