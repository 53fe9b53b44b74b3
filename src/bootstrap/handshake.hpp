#pragma once
// How ranks that are processes of one machine find each other at a name.
//
//   rank 0   claims the name, listens, hears hellos until all ranks are there, stops listening, answers all
//   others   connect, say hello, wait for the answer
//
// The claim outlives the listener: who finds a name that is claimed and where nobody listens has come too late.
#include <cstdint>
#include <memory>
#include <vector>

#include "bootstrap/file_descriptor.hpp"
#include "bootstrap/frames.hpp"
#include "bootstrap/name_claim.hpp"

namespace baton::bootstrap {

struct handshake {
  std::vector<file_descriptor>
      peers;                // rank 0: [r] leads to rank r, [0] is empty; others: [0] leads to rank 0
  std::uint64_t token = 0;  // the world's, drawn by rank 0
  std::shared_ptr<name_claim> claim;  // of rank 0
};

/// Rank 0's side. Strangers are ignored and ranks of another job refused; what speaks for two jobs that nothing tells
/// apart, or for a wrong launch, fails all. @throws transport_error  which the ranks that have come are told, too
handshake await_ranks(const rendezvous_config& m);

/// The others' side. @throws transport_error  what rank 0 says, or that it does not listen or answer
handshake join_rank_0(const rendezvous_config& m);

/// For a name that may belong to a job that is just ending, because this one is its restart.
std::chrono::milliseconds time_to_leave(std::chrono::milliseconds deadline);

}  // namespace baton::bootstrap
