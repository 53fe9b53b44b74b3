#pragma once
// Ctrl-C while the main thread waits for a rank that does not come.
#include "baton/world.hpp"

namespace baton::python {

/// Around a wait of the main thread, during which Python cannot act on signals: a SIGINT ends what `rank` waits for, so that it
/// is thrown stuck. Waits that are over in a moment cost two locks that nobody else wants; longer ones are watched by a thread.
class interruptible_wait {
 public:
  explicit interruptible_wait(const world& rank);
  ~interruptible_wait();
  interruptible_wait(const interruptible_wait&) = delete;
  interruptible_wait& operator=(const interruptible_wait&) = delete;

 private:
  bool is_main_ = false;
};

/// Whether SIGINT came during the last wait of the main thread.
bool was_interrupted();

}  // namespace baton::python
