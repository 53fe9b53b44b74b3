#pragma once
// Sync strategies with one thing wrong: mutants that tests must find.
#include "protocol/ring/ring_buffer.hpp"

namespace baton::checks {

enum class sync_fault {
  none,
  producer_phase_low,        // the producer's threshold is one too low: it refills before the last read
  consumer_phase_low,        // a reader's threshold is one too low: it reads before the fill
  producer_phase_high,       // the first fill waits for a read
  consumer_phase_high,       // a read waits for more than the fill
  producer_increment_low,    // the producer forgets a reader, or the write, in each lap
  consumer_increment_low,    // readers forget the write in each lap
  producer_signal_lost,      // no fill is signalled from the second on
  one_reader_signal_lost,    // reader 0 never signals
  one_reader_signals_twice,  // reader 0 counts for two
};

template <class Base, sync_fault Fault>
class faulty_sync : public Base {
  static constexpr bool is(sync_fault f) { return f == Fault; }

 public:
  using Base::Base;

  template <exec_context X>
  BATON_FN bool wait_producer_acquire(X& x, int tile, int stage, std::int32_t phase,
                                      const wait_site& where) const {
    const std::int32_t off = is(sync_fault::producer_phase_low)    ? -1
                             : is(sync_fault::producer_phase_high) ? 1
                                                                   : 0;
    return Base::wait_producer_acquire(x, tile, stage, phase + off, where);
  }
  template <exec_context X>
  BATON_FN void signal_producer_release(X& x, int tile, int stage, std::int32_t phase) const {
    if (is(sync_fault::producer_signal_lost) && stage > 0) return;
    Base::signal_producer_release(x, tile, stage, phase);
  }
  template <exec_context X>
  BATON_FN bool wait_consumer_acquire(X& x, int tile, int stage, std::int32_t phase,
                                      const wait_site& where) const {
    const std::int32_t off = is(sync_fault::consumer_phase_low)    ? -1
                             : is(sync_fault::consumer_phase_high) ? 1
                                                                   : 0;
    return Base::wait_consumer_acquire(x, tile, stage, phase + off, where);
  }
  template <exec_context X>
  BATON_FN void signal_consumer_release(X& x, int tile, int stage, std::int32_t phase, int reader) const {
    if (is(sync_fault::one_reader_signal_lost) && reader == 0) return;
    Base::signal_consumer_release(x, tile, stage, phase, reader);
    if (is(sync_fault::one_reader_signals_twice) && reader == 0)
      Base::signal_consumer_release(x, tile, stage, phase + 1, reader);
  }
  static constexpr std::int32_t get_producer_phase_increment() {
    return Base::get_producer_phase_increment() - (is(sync_fault::producer_increment_low) ? 1 : 0);
  }
  static constexpr std::int32_t get_consumer_phase_increment() {
    return Base::get_consumer_phase_increment() - (is(sync_fault::consumer_increment_low) ? 1 : 0);
  }
};

}  // namespace baton::checks
