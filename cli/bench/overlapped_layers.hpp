#pragma once
// Layers of two micro-batches: while the experts of one work, tokens of the other travel.
//
//   exchange | dispatch a | dispatch b | combine a, dispatch a | combine b, dispatch b | ...
//   experts  |            | experts a  | experts b             | experts a             | ...
//
// A combine waits for its micro-batch's experts, and they for its dispatch. The idea is DeepSeek's
// (github.com/deepseek-ai/profile-data).
#include <array>
#include <memory>
#include <vector>

#include "cli/bench/ep_session.hpp"

namespace baton::cli {

/// Of the same worlds, each with experts' memory of its own.
using micro_batches = std::array<ep_session*, 2>;

class overlapped_layers {
 public:
  virtual ~overlapped_layers() = default;
  /// Both, `layers` times: microseconds of a layer of both, of each rank, from one dispatch of the second to the one `layers`
  /// later, behind layers that bring the ranks together.
  virtual std::vector<double> time(int layers) = 0;
};

/// The sessions must outlive it. On the CPU, where ranks share one machine, one micro-batch after the other.
std::unique_ptr<overlapped_layers> make_overlapped_layers(const micro_batches& of);
/// On CUDA what travels and what computes have a stream each; a rank's layers are captured in one graph.
/// @throws unsupported  in a build without CUDA
std::unique_ptr<overlapped_layers> make_cuda_overlapped_layers(const micro_batches& of);

}  // namespace baton::cli
