#pragma once
// Entry points of the CUDA driver, found through the runtime: nothing links libcuda, so that one build also
// starts on machines without a driver.
#include <cuda.h>

namespace baton {

struct driver_calls {
  decltype(&cuGetErrorName) get_error_name;
  decltype(&cuGetErrorString) get_error_string;
  decltype(&cuDeviceGetAttribute) device_get_attribute;
  decltype(&cuMemGetAllocationGranularity) mem_get_allocation_granularity;
  decltype(&cuMemCreate) mem_create;
  decltype(&cuMemRelease) mem_release;
  decltype(&cuMemAddressReserve) mem_address_reserve;
  decltype(&cuMemAddressFree) mem_address_free;
  decltype(&cuMemMap) mem_map;
  decltype(&cuMemUnmap) mem_unmap;
  decltype(&cuMemSetAccess) mem_set_access;
  decltype(&cuMemExportToShareableHandle) mem_export;
  decltype(&cuMemImportFromShareableHandle) mem_import;
  decltype(&cuTensorMapEncodeTiled) tensor_map_encode_tiled;
};

/// Resolved at the first call. @throws unsupported  the driver is absent or lacks one of them
const driver_calls& driver();

}  // namespace baton
