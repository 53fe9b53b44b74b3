#pragma once
// What every round on a GPU asks for, without a step of Python's interpreter, which took as long as all else that Python adds
// to a round.
#include "communicator.hpp"

namespace baton::python {

/// A communicator of a GPU, as far as the quick way of a call needs it.
struct quick {
  nb::object core;  // keeps what `its` points to
  communicator* its = nullptr;
  int gpu = -1;
  PyTypeObject* kind =
      nullptr;  // of the tokens that slot 0 was given last; null: the quick way is not for them
  nb::object owned_kind, place;  // as baton._received.Place

  explicit quick(nb::object of);
  void remember(const nb::object& type, nb::object its_place);
};

/// Decorators of methods of baton.ExpertParallel, which do calls of slot 0 that give arrays alone, and leave all others to the
/// method.
void bind_quick(nb::module_& module);

/// As nanobind would where it calls: the error that Python is to raise, of the one that is caught.
void raise_caught();

}  // namespace baton::python
