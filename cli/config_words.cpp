#include "cli/config_words.hpp"

#include "baton/error.hpp"

namespace baton::cli {

const config_words exchange_words{{"ranks", "--ranks"},
                                  {"format", "--format"},
                                  {"combine_format", "--combine-format"},
                                  {"rows", "--rows"},
                                  {"num_max_tokens_per_rank", "--max-tokens-per-rank"},
                                  {"num_experts", "config.json: num_experts"},
                                  {"top_k", "config.json: num_experts_per_tok"},
                                  {"hidden", "config.json: hidden_size"}};

const config_words bench_words{{"ranks", "--ranks"},
                               {"format", "--format"},
                               {"num_max_tokens_per_rank", "--tokens"},
                               {"num_experts", "--experts"},
                               {"top_k", "--top-k"},
                               {"hidden", "--hidden"},
                               {"num_sms", "--sms"},
                               {"num_threads", "--threads"},
                               {"rows", "--rows"},
                               {"combine_format", "--combine-format"}};

const config_words group_words{
    {"ranks", "WORLD_SIZE"}, {"num_max_tokens_per_rank", "--tokens"}, {"num_experts", "--experts"},
    {"top_k", "--top-k"},    {"p2p_group_size", "--group-size"},      {"hidden", "--hidden"}};

void require_served(const ep_config& config, int num_ranks, const config_words& words) {
  const std::string reason = why_not(config, num_ranks);
  if (reason.empty()) return;
  const std::string field = reason.substr(0, reason.find(':'));
  const auto word = words.find(field);
  throw invalid_argument{(word == words.end() ? field : word->second) + reason.substr(field.size())};
}

}  // namespace baton::cli
