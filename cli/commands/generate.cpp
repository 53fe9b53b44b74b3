#include "cli/commands/generate.hpp"

#include <fmt/format.h>

#include <numeric>

#include "baton/device_facts.hpp"
#include "cli/commands/exchange_report.hpp"
#include "cli/commands/generate_report.hpp"
#include "cli/exit_code.hpp"
#include "cli/generation.hpp"
#include "cli/model/byte_tokenizer.hpp"
#include "cli/view/text.hpp"

namespace baton::cli {
namespace {

std::vector<prompt> collect_prompts(const generate_options& options) {
  std::vector<prompt> prompts;
  for (const std::string& text : options.prompts) prompts.push_back({text, std::nullopt});
  const auto add = [&prompts](std::vector<prompt> more) {
    prompts.insert(prompts.end(), more.begin(), more.end());
  };
  if (!options.prompts_file.empty()) add(read_prompts(options.prompts_file));
  if (!options.expect.empty()) add(read_expectations(options.expect));
  if (prompts.empty()) {
    throw invalid_argument{"nothing to continue: give --prompt, --prompts-file or --expect"};
  }
  return prompts;
}

generate_backend make_backend(const generate_options& options, const model::checkpoint& weights,
                              int most_tokens) {
  generate_backend made;
  if (options.backend == backend_choice::reference) {
    made.reference = std::make_unique<model::reference_moe>(weights);
    return made;
  }
  std::vector<int> layers(static_cast<std::size_t>(weights.config().num_hidden_layers));
  std::iota(layers.begin(), layers.end(), 0);
  made.exchange = load_exchange(weights, layers, options.exchange, most_tokens);
  return made;
}

/// Null: the model's own attention.
std::unique_ptr<library_attention> make_attention(const generate_run& run, const generate_backend& moe,
                                                  const model::model_config& config) {
  const attention_choice choice = run.options.attention;
  if (choice == attention_choice::host) return nullptr;
  if (moe.exchange.experts == nullptr) {
    if (choice == attention_choice::automatic) return nullptr;
    throw invalid_argument{"--attention library: expected --backend exchange, whose ranks have devices"};
  }
  const exchange_moe& experts = *moe.exchange.experts;
  const device_kind device = experts.rank(0).device();
  if (choice == attention_choice::automatic &&
      (device == device_kind::cpu || !library_attention::why_not(config, device).empty()))
    return nullptr;
  return std::make_unique<library_attention>(
      config, experts.ranks(), positions_of_ranks(run.sequences, run.options.exchange.num_ranks));
}

/// Shows the first sequence as it grows, and how far all are.
class live_text {
 public:
  explicit live_text(generate_run& run) : run_{run} {
    for (const sequence& s : run.sequences) wanted_ += s.max_new;
    if (run.options.json) progress_.show("prefill");  // else the cursor stands behind the prompt
  }

  void on_token(std::size_t i) {
    ++made_;
    if (run_.options.json) {
      progress_.show(fmt::format("{} of {} tokens", made_, wanted_));
    } else if (i == 0) {
      progress_.clear();
      const auto byte = static_cast<char>(run_.sequences[0].generated.back());
      run_.out << run_.marks.bold(text_.push({&byte, 1})) << std::flush;
    } else if (finished_) {
      progress_.show(fmt::format("the other prompts: {} of {} tokens", made_, wanted_));
    }
    if (i == 0 && static_cast<int>(run_.sequences[0].generated.size()) == run_.sequences[0].max_new) finish();
  }

 private:
  void finish() {
    finished_ = true;
    if (run_.options.json) return;
    run_.out << run_.marks.bold(text_.finish()) << '\n';
    print_verdict(run_, 0);
    run_.out << std::flush;
  }

  generate_run& run_;
  utf8_stream text_;
  progress_line progress_;
  std::int64_t made_ = 0, wanted_ = 0;
  bool finished_ = false;
};

generation_times decode(generate_run& run, model::qwen3_moe& network, const generate_backend& moe) {
  live_text live{run};
  if (moe.attention) network.attend_with(*moe.attention);
  return generate_greedily(network, moe.experts(), run.sequences, run.options.exchange.num_ranks,
                           [&live](std::size_t i) { live.on_token(i); });
}

}  // namespace

int run_generate(const generate_options& options, std::ostream& out) {
  check_settings(options.exchange);
  const int num_ranks = options.exchange.num_ranks;
  generate_run run{options, out, options.json ? style::plain() : style::of_descriptor(1)};
  run.prompts = collect_prompts(options);
  progress_line loading;
  loading.show("opening the model");
  const model::checkpoint weights = model::checkpoint::open(options.model);
  model::require_byte_vocabulary(weights.config());
  run.sequences = spread(run.prompts, weights.config(), num_ranks, options.max_new);
  require_host_memory(bytes_of(run.sequences, weights.config()),
                      {fmt::format("{} prompts and what continues them", run.sequences.size()),
                       "use fewer or shorter prompts, or a lower --max-new"});
  loading.show("loading the experts");
  generate_backend moe = make_backend(options, weights, most_tokens_of_a_rank(run.sequences, num_ranks));
  moe.attention = make_attention(run, moe, weights.config());
  model::qwen3_moe network{weights};
  loading.clear();
  if (!options.json) {
    out << run.marks.bold(describe(weights)) << '\n';
    out << (moe.exchange.experts ? describe(moe.exchange, options.exchange)
                                 : "reference experts in double precision")
        << (moe.attention ? "\nattention by the library, in bf16\n" : "\n");
    print_heading(run, 0);
    out << std::flush;
  }
  run.times = decode(run, network, moe);
  if (options.json) {
    out << result_json(run, moe, network.times()).dump(2) << '\n';
  } else {
    print_others(run);
    print_summary(run, moe, network.times());
  }
  const auto [good, all] = score(run);
  return static_cast<int>(good == all ? exit_code::ok : exit_code::check_failed);
}

}  // namespace baton::cli
