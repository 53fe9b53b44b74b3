#pragma once
// The options that generate and moe share: ranks, device, token format, arrival policy, layout.
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "cli/exchange_moe.hpp"

namespace baton::cli {

enum class device_choice { automatic, cpu, cuda };

struct exchange_settings {
  int num_ranks = 4;
  device_choice device = device_choice::automatic;
  token_format format = token_format::bf16;
  token_format combine_format = token_format::bf16;
  arrival_policy arrival = arrival_policy::epoch;
  ep_layout layout = ep_layout::per_rank;
  ep_transfer transfer = ep_transfer::automatic;
  ep_rows rows = ep_rows::by_expert;
  int max_tokens_per_rank = 256;
  int num_replicas = 0;
  std::filesystem::path trace;  // a recorded routing, by which replicas are placed; empty: by none
};

const char* name(device_kind device);
const char* name(arrival_policy arrival);
const char* name(ep_layout layout);

/// Why there is no CUDA, as the library says it, without the argument's name in front and the advice behind.
std::string short_reason(const std::string& text);

/// @throws invalid_argument  ranks or tokens that no model can be served with, with the option's name
void check_settings(const exchange_settings& settings);

/// An exchange, and why it does not use CUDA where it was free to choose.
struct open_exchange {
  std::unique_ptr<exchange_moe> experts;
  std::string why_not_cuda;  // empty: it uses CUDA, or the CPU was asked for
};

/// Loads the experts of `layers`; no round is larger than `most_tokens`, the most a rank will bring at once.
/// With device_choice::automatic the CPU serves where CUDA cannot.
open_exchange load_exchange(const model::checkpoint& weights, std::span<const int> layers,
                            const exchange_settings& settings, int most_tokens);

/// "4 ranks on the CPU", "4 ranks on 2 GPUs"
std::string placement(const exchange_moe& experts);

}  // namespace baton::cli
