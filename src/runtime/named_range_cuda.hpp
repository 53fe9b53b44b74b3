#pragma once
// Names for profilers, through NVTX. Without a tool that listens each costs a look at a pointer; nothing is linked for it.
#include <nvtx3/nvToolsExt.h>

namespace baton {

/// What the calling thread enqueues while it lives is of this name, in NVTX's domain "baton".
class named_range {
 public:
  explicit named_range(const char* name) {
    nvtxEventAttributes_t its{};
    its.version = NVTX_VERSION;
    its.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    its.messageType = NVTX_MESSAGE_TYPE_ASCII;
    its.message.ascii = name;
    nvtxDomainRangePushEx(domain(), &its);
  }
  ~named_range() { nvtxDomainRangePop(domain()); }
  named_range(const named_range&) = delete;
  named_range& operator=(const named_range&) = delete;

 private:
  static nvtxDomainHandle_t domain() {
    static const nvtxDomainHandle_t baton = nvtxDomainCreateA("baton");
    return baton;
  }
};

}  // namespace baton
