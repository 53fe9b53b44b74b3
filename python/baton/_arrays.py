"""Arrays of whatever framework the caller uses: which one that is, its current stream, its new arrays, and views of baton's memory."""
import contextlib
import functools
import operator
import sys
import weakref
from typing import Any, Callable, NamedTuple, Optional

from . import _core
from ._errors import InvalidArgument

Array = Any  # numpy's on CPU ranks; on GPUs torch's, cupy's, jax's, or whatever else speaks DLPack
ML_DTYPES = dict.fromkeys(("bfloat16", "float8_e4m3fn", "float8_e8m0fnu"))  # those of ml_dtypes, once they are needed


class Format(NamedTuple):
    """What tokens of a format are made of."""

    bits: int  # of a value
    tokens: str  # elements of received tokens
    scales: str  # of their scales; without them anything


FORMATS = {"bf16": Format(16, "bfloat16", "uint8"), "fp8": Format(8, "float8_e4m3fn", "float32"), "mxfp8": Format(8, "float8_e4m3fn", "float8_e8m0fnu"),
           "mxfp4": Format(4, "uint8", "float8_e8m0fnu"), "nvfp4": Format(4, "uint8", "float8_e4m3fn")}

KNOWN: "weakref.WeakKeyDictionary[type, str]" = weakref.WeakKeyDictionary()  # type of an array: its framework's name


def kind_of(array: Array) -> type:
    """Its type; of a tuple, as quantised tokens are, that of its first."""
    return type(array[0]) if isinstance(array, tuple) and array else type(array)


def framework_of(kind: type) -> str:
    """numpy, torch, cupy, jax, or another's name."""
    if (name := KNOWN.get(kind)) is None:
        name = kind.__module__.partition(".")[0]
        for base in kind.__mro__:  # as torch.nn.Parameter, or a subclass of numpy's arrays
            if base.__module__.partition(".")[0] in ("numpy", "torch", "cupy", "jax", "jaxlib") and base is not object:
                name = base.__module__.partition(".")[0]
                break
        name = KNOWN[kind] = "jax" if name == "jaxlib" else name
    return name


def shown(value: Any) -> str:
    """`value` in a message: an array's numbers would be all that one sees."""
    text = repr(value)
    return text if len(text) <= 80 else f"{type(value).__name__} {text[:60]!r}..."


def flag(name: str, value: Any) -> bool:
    try:
        return bool(value)
    except (TypeError, ValueError):
        raise InvalidArgument(f"{name}: {shown(value)}, expected True or False") from None


def integer(name: str, value: Any, least: int = -2**31, most: int = 2**31 - 1) -> int:
    """`value`, whatever kind of integer it is."""
    try:
        found = operator.index(value)
    except TypeError:
        raise InvalidArgument(f"{name}: {shown(value)}, expected an integer") from None
    if not least <= found <= most:
        raise InvalidArgument(f"{name}: {found}, expected {least} to {most}")
    return found


def told(error: TypeError, **integers: Any) -> Exception:
    """What to raise when the library took a call's arguments for none of its own: which integer is none, or else `error`. Calls of rounds are
    looked at when they have failed only."""
    for name, value in integers.items():
        try:
            integer(name, value)
        except InvalidArgument as refused:
            return refused
    return error


def number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise InvalidArgument(f"{name}: {shown(value)}, expected a number") from None


def stream_handle(stream: Any, gpu: int, kind: type) -> int:
    """`stream` as an address. None: the current one of the framework that arrays of `kind` are of, on CPU ranks, whose `gpu` is -1,
    none."""
    if stream is None:
        return 0 if gpu < 0 else current_stream(kind, gpu)
    if isinstance(stream, int):
        return integer("stream", stream, 0, 2**64 - 1)
    if (handle := getattr(stream, "cuda_stream", None)) is not None:  # torch
        return integer("stream.cuda_stream", handle, 0, 2**64 - 1)
    if hasattr(stream, "__cuda_stream__"):  # (version, handle)
        return integer("stream.__cuda_stream__()[1]", stream.__cuda_stream__()[1], 0, 2**64 - 1)
    if (handle := getattr(stream, "ptr", None)) is not None:  # cupy
        return integer("stream.ptr", handle, 0, 2**64 - 1)
    raise InvalidArgument(f"stream: {type(stream).__name__}, expected None, an integer, or an object with cuda_stream or "
                          "__cuda_stream__")


def current_stream(kind: type, gpu: int) -> int:
    if (said := _core.current_stream_of(kind, gpu)) is not None:
        return said
    framework = framework_of(kind)
    if framework == "torch":
        return sys.modules["torch"].cuda.current_stream(gpu).cuda_stream
    if framework == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream().ptr
    return 0


def ml_dtype(name: str) -> Any:
    if (found := ML_DTYPES[name]) is None:
        import ml_dtypes
        found = ML_DTYPES[name] = getattr(ml_dtypes, name)
    return found


class Exported:
    """Memory of a GPU as an array that speaks DLPack, for frameworks that take no capsules."""

    def __init__(self, capsule: Callable[[], Any], gpu: int) -> None:
        self._capsule, self._gpu = capsule, gpu

    def __dlpack_device__(self) -> tuple:
        return 2, self._gpu  # DLPack's cuda

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule()

    def __repr__(self) -> str:
        return f"<baton array on cuda:{self._gpu}: memory of a communicator, for from_dlpack>"


def seen_as(view: Callable[[], Any], framework: str, gpu: int, dtype: str) -> Optional[Array]:
    """A view of baton's memory as an array of `framework`; `view` makes one, numpy's on CPU ranks and on GPUs a capsule of DLPack, of
    unsigned integers where takes_bits, or None. Of a framework that is none of these, an object that speaks DLPack."""
    if (bits := view()) is None:
        return None
    if framework == "torch":
        torch = sys.modules["torch"]
        with torch.inference_mode(False):  # rounds share views, and one of inference mode would be refused outside of it
            array = torch.from_dlpack(bits)
            return array if array.dtype == getattr(torch, dtype) else array.view(getattr(torch, dtype))
    if gpu < 0:
        return bits.view(ml_dtype(dtype)) if dtype in ML_DTYPES else bits
    if framework == "cupy":
        array = sys.modules["cupy"].from_dlpack(bits)
        return array.view(ml_dtype(dtype)) if dtype in ML_DTYPES else array
    if framework == "jax":
        return sys.modules["jax"].dlpack.from_dlpack(Exported(view, gpu))
    return Exported(view, gpu)


def memory_of(array: Array) -> Optional[tuple]:
    """(address, type of elements) where the framework says so without a copy; None: it does not."""
    if (address := getattr(array, "data_ptr", None)) is not None:  # torch
        return address(), array.dtype
    if (interface := getattr(array, "__array_interface__", None)) is not None:  # numpy
        return interface["data"][0], array.dtype
    if (address := getattr(getattr(array, "data", None), "ptr", None)) is not None:  # cupy
        return address, array.dtype
    return None


def takes_bits(framework: str) -> bool:
    """Whether views of narrow elements come to `framework` as integers."""
    return framework in ("numpy", "torch", "cupy")


def zeros(shape: tuple, dtype: str, framework: str, world: Any, name: str = "out", stream: Any = None) -> Array:
    """A new array on the world's device, aligned as allocators do. It belongs to `stream`, None to the framework's current one: there it
    becomes zeros, and there its memory is used again."""
    return new_array("zeros", shape, dtype, (framework, world, stream), name)


def empty(shape: tuple, dtype: str, framework: str, world: Any, name: str = "out", stream: Any = None) -> Array:
    """The same, with anything in it."""
    return new_array("empty", shape, dtype, (framework, world, stream), name)


def torch_device(world: Any) -> str:
    return "cpu" if world.device == "cpu" else f"cuda:{world.device_index}"


def new_array(how: str, shape: tuple, dtype: str, place: tuple, name: str) -> Array:
    framework, world, stream = place
    if framework == "torch":
        torch = sys.modules["torch"]
        with on_stream(stream, framework, world._gpu):
            return getattr(torch, how)(shape, dtype=getattr(torch, dtype), device=torch_device(world))
    if world.device == "cpu":
        import numpy
        return getattr(numpy, how)(shape, ml_dtype(dtype) if dtype in ML_DTYPES else dtype)
    if framework == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(world.device_index), on_stream(stream, framework, world._gpu):
            return getattr(cupy, how)(shape, ml_dtype(dtype) if dtype in ML_DTYPES else dtype)
    raise InvalidArgument(f"{name}: None, expected {dtype} {list(shape)} on cuda:{world.device_index}: of arrays of {framework} baton "
                          f"makes none; give {name}=")


def new_out_of(framework: str, world: Any) -> Optional[Callable[[tuple], Array]]:
    """What makes empty() in float32 where no stream is given, with nothing to look up; None: there is none."""
    if framework == "torch":
        torch = sys.modules["torch"]
        return functools.partial(torch.empty, dtype=torch.float32, device=torch.device(torch_device(world)))
    if framework == "numpy" and world.device == "cpu":
        numpy = sys.modules["numpy"]
        return functools.partial(numpy.empty, dtype=numpy.float32)
    return None


NOWHERE_ELSE = contextlib.nullcontext()


def on_stream(stream: Any, framework: str, gpu: int) -> Any:
    """A context in which `stream` is the current one of torch or cupy; with None nothing changes."""
    if stream is None or gpu < 0:
        return NOWHERE_ELSE
    handle = stream_handle(stream, gpu, type(None))
    if framework == "torch":
        cuda = sys.modules["torch"].cuda
        return cuda.stream(cuda.ExternalStream(handle, device=gpu) if handle else cuda.default_stream(gpu))
    cuda = sys.modules["cupy"].cuda
    return cuda.ExternalStream(handle, gpu) if handle else cuda.Stream.null
