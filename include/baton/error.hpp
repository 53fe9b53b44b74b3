#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace baton {

/// Base of everything baton throws. The text names the argument, what was expected, what was found, and what
/// to do about it.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An argument is outside its documented limits. Nothing was enqueued.
class invalid_argument : public error {
 public:
  using error::error;
};

/// The arguments are legal, but this machine or this build cannot serve them.
class unsupported : public error {
 public:
  using error::error;
};

/// A file is missing, truncated or contradicts itself. Nothing was loaded or written.
class bad_file : public error {
 public:
  using error::error;
};

/// The CUDA runtime or driver refused a call.
class cuda_error : public error {
 public:
  using error::error;
};

/// Ranks could not find each other, or disagree about what they are doing.
class transport_error : public error {
 public:
  using error::error;
};

/// What memory is for, and what to change where there is too little: out_of_memory says both.
struct memory_use {
  std::string purpose = "a device_buffer";
  std::string knob = "ask for less, or free some";
};

/// Memory ran out; says how much was needed, how much was free, and which setting changes that.
class out_of_memory : public error {
 public:
  out_of_memory(const std::string& what, std::size_t needed_bytes, std::size_t free_bytes)
      : error{what}, needed{needed_bytes}, free{free_bytes} {}
  std::size_t needed;
  std::size_t free;
};

/// A wait outlived its deadline: some peer never did what it should have; or what a peer said cannot be, and was
/// refused at once (waited_ns is 0). The kernels have returned and the process is healthy. Communicators of the world refuse to
/// go on, and say with what they can: set_members, or new ones that all ranks create, or new processes.
class stuck : public error {
 public:
  struct details {
    int rank = -1;  // who waited
    int peer =
        -1;  // for whom, or with ranks beyond the p2p group who was lost; -1: for another block of its own rank
    int block = -1;
    std::string site;  // where in the protocol
    int slot = -1;     // of the communicator; -1: it has one
    std::uint32_t epoch = 0;
    std::uint64_t expected = 0, seen = 0, waited_ns = 0;
  };
  stuck(const std::string& what, details d) : error{what}, where{std::move(d)} {}
  details where;
};

/// A kernel found something in its input that only the device knows, such as an expert id out of range.
class device_error : public error {
 public:
  using error::error;
};

}  // namespace baton
