// The library's errors as exceptions of baton._errors, with their fields.
#include <exception>
#include <new>

#include "baton/error.hpp"
#include "quick.hpp"
#include "ranks.hpp"

namespace baton::python {
namespace {

nb::object made(const char* type, const std::exception& error) {
  return nb::module_::import_("baton._errors").attr(type)(error.what());
}

void raise(const nb::object& exception) {
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
}

nb::object made_of(const stuck& error) {
  const nb::object exception = made("Stuck", error);
  const stuck::details& where = error.where;
  exception.attr("rank") = where.rank;
  exception.attr("peer") = where.peer;
  exception.attr("block") = where.block;
  exception.attr("phase") = where.site.c_str();
  exception.attr("slot") = where.slot;
  exception.attr("epoch") = where.epoch;
  exception.attr("expected") = where.expected;
  exception.attr("seen") = where.seen;
  exception.attr("waited_ns") = where.waited_ns;
  return exception;
}

nb::object made_of(const out_of_memory& error) {
  const nb::object exception = made("OutOfMemory", error);
  exception.attr("needed") = error.needed;
  exception.attr("free") = error.free;
  return exception;
}

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const stuck& e) {
    raise(made_of(e));
  } catch (const out_of_memory& e) {
    raise(made_of(e));
  } catch (const invalid_argument& e) {
    raise(made("InvalidArgument", e));
  } catch (const unsupported& e) {
    raise(made("Unsupported", e));
  } catch (const bad_file& e) {
    raise(made("BadFile", e));
  } catch (const cuda_error& e) {
    raise(made("CudaError", e));
  } catch (const transport_error& e) {
    raise(made("TransportError", e));
  } catch (const device_error& e) {
    raise(made("DeviceError", e));
  } catch (const error& e) {
    raise(made("Error", e));
  }
}

}  // namespace

void raise_caught() {
  try {
    throw;
  } catch (nb::python_error& raised) {
    raised.restore();
  } catch (const error&) {
    translate(std::current_exception(), nullptr);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& other) {
    PyErr_SetString(PyExc_RuntimeError, other.what());
  }
}

void bind_errors(nb::module_&) {
  nb::register_exception_translator(translate, nullptr);
}

}  // namespace baton::python
