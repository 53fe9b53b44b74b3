"""Arrays that speak DLPack and are of nobody: what a framework on a GPU hands over, without one."""
import ctypes


class device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("index", ctypes.c_int32)]


class dtype(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", device), ("ndim", ctypes.c_int32), ("dtype", dtype),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class managed(ctypes.Structure):
    _fields_ = [("tensor", tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


CPU, CUDA = 1, 2
FLOAT, BFLOAT, BOOL = 2, 4, 6
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class foreign_array:
    """Memory of a numpy array, said to be on some device and of some element type."""

    def __init__(self, memory, code, bits, kind=CPU, index=0):
        self.memory, self.shape = memory, memory.shape
        extents = (ctypes.c_int64 * memory.ndim)(*memory.shape)
        self.kept = extents
        self.managed = managed(tensor(memory.ctypes.data, device(kind, index), memory.ndim, dtype(code, bits, 1), extents, None, 0), None, None)

    def __dlpack_device__(self):
        return self.managed.tensor.device.kind, self.managed.tensor.device.index

    def __dlpack__(self, **_):
        return new_capsule(ctypes.addressof(self.managed), b"dltensor", None)
