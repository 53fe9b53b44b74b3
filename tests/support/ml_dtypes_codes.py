"""What ml_dtypes, an implementation of narrow formats that is not ours, makes of floats: ml_dtypes_codes.py FLOATS OUT.

FLOATS: float32 values as bytes. OUT: their e4m3 codes, their e2m1 codes, then as float32 all 256 e4m3, 16 e2m1 and 256 e8m0.
Values are clipped to the format's range first, since to saturate is our choice. Exit code 77 without ml_dtypes."""
import sys

try:
    import ml_dtypes
    import numpy
except ImportError as e:
    print(f"{e}; to have it: ./dev test, or python3 -m pip install ml_dtypes, and BATON_PYTHON=<that python>")
    sys.exit(77)

floats = numpy.fromfile(sys.argv[1], numpy.float32)
with open(sys.argv[2], "wb") as out:
    for kind, largest in ((ml_dtypes.float8_e4m3fn, 448), (ml_dtypes.float4_e2m1fn, 6)):
        out.write(numpy.clip(floats, -largest, largest).astype(kind).view(numpy.uint8).tobytes())
    for kind, count in ((ml_dtypes.float8_e4m3fn, 256), (ml_dtypes.float4_e2m1fn, 16), (ml_dtypes.float8_e8m0fnu, 256)):
        out.write(numpy.arange(count, dtype=numpy.uint8).view(kind).astype(numpy.float32).tobytes())
