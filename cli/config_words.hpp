#pragma once
// Errors about an exchange's configuration, in the words of the person who gave the command.
#include <map>
#include <string>

#include "baton/expert_parallel.hpp"

namespace baton::cli {

/// What sets a field of ep_config: "num_max_tokens_per_rank" -> "--tokens".
using config_words = std::map<std::string, std::string>;

/// Of generate and moe: options, and the model's config.json.
extern const config_words exchange_words;
/// Of bench ep.
extern const config_words bench_words;
/// Of bench groups.
extern const config_words group_words;
/// Of forecast.
extern const config_words forecast_words;

/// @throws invalid_argument  `reason`, if there is one, in these words; it begins with a field and a colon
void require_none(const std::string& reason, const config_words& words);

/// Where none of the words sets p2p_group_size, ranks are those of one group.
/// @throws invalid_argument  what why_not(config, num_ranks) says, in these words
void require_served(const ep_config& config, int num_ranks, const config_words& words);

}  // namespace baton::cli
