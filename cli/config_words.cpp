#include "cli/config_words.hpp"

#include <fmt/format.h>

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
    {"top_k", "--top-k"},    {"p2p_group_size", "--group-size"},      {"hidden", "--hidden"},
    {"levels", "--levels"}};

const config_words forecast_words{{"ranks", "--ranks"},
                                  {"format", "--format"},
                                  {"combine_format", "--combine-format"},
                                  {"rows", "--rows"},
                                  {"num_max_tokens_per_rank", "--tokens"},
                                  {"num_experts", "--experts"},
                                  {"top_k", "--top-k"},
                                  {"hidden", "--hidden"},
                                  {"p2p_group_size", "--group-size"},
                                  {"near_gb_per_s", "--link-gb-per-s"},
                                  {"near_us", "--link-us"},
                                  {"nic_gb_per_s", "--nic-gb-per-s"},
                                  {"nic_us", "--nic-us"},
                                  {"nic_messages_per_us", "--nic-messages-per-us"},
                                  {"nic_overhead_bytes", "--nic-overhead-bytes"},
                                  {"ranks_per_nic", "--ranks-per-nic"}};

void require_none(const std::string& reason, const config_words& words) {
  if (reason.empty()) return;
  const std::string field = reason.substr(0, reason.find(':'));
  const auto word = words.find(field);
  throw invalid_argument{(word == words.end() ? field : word->second) + reason.substr(field.size())};
}

void require_served(const ep_config& config, int num_ranks, const config_words& words) {
  if ((num_ranks < 1 || num_ranks > most_ranks_of_p2p_group) && !words.contains("p2p_group_size"))
    require_none(fmt::format("ranks: {} is outside [1, {}], the ranks of one p2p group", num_ranks,
                             most_ranks_of_p2p_group),
                 words);
  require_none(why_not(config, num_ranks), words);
}

}  // namespace baton::cli
