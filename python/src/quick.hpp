#pragma once
// What every round asks for, without a step of Python's interpreter, which took as long as all else that Python adds to a
// round.
#include <vector>

#include "communicator.hpp"

namespace baton::python {

/// A communicator, as far as the quick way of a call needs it.
struct quick {
  /// Of a slot, by the tokens that it was given last.
  struct slot_place {
    nb::object kind;     // their type; invalid: the quick way is not for them
    nb::object place;    // as baton._received.Place
    nb::object new_out;  // makes a result of a shape where nobody said of which stream; None: nobody does
  };

  nb::object core;  // keeps what `its` points to
  communicator* its = nullptr;
  int gpu = -1;
  std::vector<slot_place> places;

  explicit quick(nb::object of);
  void remember(std::size_t slot, const nb::object& place);
  /// Null: `slot` is none, or the quick way is not for what it was given.
  const slot_place* place_of(int slot) const;
};

/// baton._core.quick, a decorator of baton.ExpertParallel's and baton.Received's methods of a round. The communicator looks at
/// what a call gives, by place or by name, whichever way it takes; what the quick way does not know is left to the method.
void bind_quick(nb::module_& module);

/// As nanobind would where it calls: the error that Python is to raise, of the one that is caught.
void raise_caught();

}  // namespace baton::python
