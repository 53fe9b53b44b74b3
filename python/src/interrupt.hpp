#pragma once
// Ctrl-C while the main thread waits for a rank that does not come.
#include <nanobind/nanobind.h>

#include <cstdint>

#include "baton/error.hpp"
#include "baton/world.hpp"

namespace baton::python {

/// Around a wait of the main thread, during which Python cannot act on signals: a SIGINT ends what `rank` waits for, so that it
/// is thrown stuck. Waits cost two locks that nobody else wants and two calls of the system; long ones are looked at by a thread.
class interruptible_wait {
 public:
  interruptible_wait();  // where ranks meet: thrown is transport_error
  explicit interruptible_wait(const world& rank);
  ~interruptible_wait();
  /// With Python's lock, before the wait: what Python's handlers raise of signals that came before this was there.
  void raise_what_came_before() const;
  interruptible_wait(const interruptible_wait&) = delete;
  interruptible_wait& operator=(const interruptible_wait&) = delete;

 private:
  bool is_main_ = false;
};

/// baton::give_up_meetings, and those of the package that meet by calls of Python are told.
void end_meetings();
/// How often that was said in this process.
std::uint64_t num_meetings_given_up();

/// Whether SIGINT came during the last wait of the main thread.
bool was_interrupted();

/// After an interrupted wait: says what was waited for, and throws what Python's handler of SIGINT raises, if it does.
void say_and_interrupt(const error& of_wait);

/// `work`, in which ranks meet, without Python's lock.
template <class Work>
auto where_ranks_meet(Work work) {
  try {
    const interruptible_wait watched;
    watched.raise_what_came_before();
    const nanobind::gil_scoped_release without_lock;
    return work();
  } catch (const error& of_wait) {
    if (was_interrupted()) say_and_interrupt(of_wait);
    throw;
  }
}

}  // namespace baton::python
