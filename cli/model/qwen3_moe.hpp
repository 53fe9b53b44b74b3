#pragma once
// The forward pass of qwen3_moe over several ranks. Projections, norms, router and head run here in fp32; the experts of each
// layer run in a moe_backend, for all ranks at once, and rows meet keys in an attention_backend.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cli/model/attention_backend.hpp"
#include "cli/model/checkpoint.hpp"
#include "cli/model/kv_cache.hpp"
#include "cli/model/moe_backend.hpp"

namespace baton::model {

/// The new tokens of one sequence: its whole prompt, or the token chosen last. At least one.
struct sequence_step {
  kv_cache* cache = nullptr;  // the sequence's; from make_cache()
  std::vector<std::int32_t> ids;
};
/// The sequences of one rank that take part in a step; may be empty.
using rank_step = std::vector<sequence_step>;

enum class logits_of { last_position, all_positions };

/// Wall-clock seconds, summed over the steps since the model was made.
struct phase_times {
  double attention = 0;  // with its norms and projections
  double router = 0;
  double moe = 0;   // inside the backend
  double head = 0;  // embeddings, final norm and logits
  double total() const { return attention + router + moe + head; }
};

/// step()'s result: logits[rank][sequence] is [vocab], or [new tokens, vocab] with logits_of::all_positions.
using step_logits = std::vector<std::vector<std::vector<float>>>;

/// Results do not depend on what else is in a step: a sequence gets the same logits, bit for bit, alone or
/// with others, as long as the backend keeps that too.
class qwen3_moe {
 public:
  /// Converts the weights outside the experts to fp32.
  explicit qwen3_moe(const checkpoint& weights);
  qwen3_moe(qwen3_moe&&) noexcept;
  qwen3_moe& operator=(qwen3_moe&&) noexcept;
  ~qwen3_moe();

  const model_config& config() const;
  kv_cache make_cache() const;

  /// One forward pass over the new tokens of all ranks. The backend is called once a layer, with an entry for
  /// every rank, also those without tokens. What the backend throws passes through and leaves all sequences
  /// as they were.
  /// @throws invalid_argument  a sequence without tokens or cache, listed twice, longer than
  ///                           max_position_embeddings, or an id outside the vocabulary
  step_logits step(moe_backend& experts, std::span<const rank_step> ranks,
                   logits_of which = logits_of::last_position);

  const phase_times& times() const;

  /// Who makes attention from here on, as long as the model lives; the host, in fp32, if nobody is named.
  void attend_with(attention_backend& backend);

  /// Sees what enters each MoE layer, before the backend does; for tests and traces. Empty: nobody.
  using moe_observer = std::function<void(int layer, std::span<const routed_tokens> ranks)>;
  void observe_moe(moe_observer observer);

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// The most probable token; ties go to the lower id.
std::int32_t greedy_choice(std::span<const float> logits);

}  // namespace baton::model
