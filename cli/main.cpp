#include <fcntl.h>

#include <csignal>
#include <iostream>

#include "cli/commands/program.hpp"

namespace {

/// A file that we open must not become our standard output because that was closed. What stands in for it cannot be
/// written, so that the loss of our words is noticed.
void occupy_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd)
    if (::fcntl(fd, F_GETFD) == -1) (void)::open("/dev/null", O_RDONLY);
}

}  // namespace

int main(int argc, char** argv) {
  occupy_standard_descriptors();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of write()
  return baton::cli::run_program(argc, argv, std::cout, std::cerr);
}
