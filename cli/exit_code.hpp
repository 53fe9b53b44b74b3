#pragma once

namespace baton::cli {

/// What the program returns; listed by `baton --help`.
enum class exit_code : int {
  ok = 0,
  check_failed = 1,   // a text or a number is not the expected one, or a doctor's check failed
  bad_input = 2,      // usage, an argument, a model or an input file
  peer_lost = 3,      // a wait outlived its deadline, or the ranks could not meet
  no_device = 4,      // the device is absent, or it cannot do what was asked
  out_of_memory = 5,  // on the host or on a device
  internal = 6,       // a fault of baton itself
};

}  // namespace baton::cli
