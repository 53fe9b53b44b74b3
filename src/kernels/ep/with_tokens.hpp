#pragma once
// From a communicator's format to what takes its tokens in, for launchers.
#include "kernels/ep/token_format.hpp"

namespace baton::ep {

/// f.operator()<Tokens>() for tokens that a rank has in bf16, or `given` in the format already.
template <class F>
void with_tokens(token_format format, bool given, F f) {
  const auto either = [&]<token_format Format, class Cast>() {
    if (given) return f.template operator()<given_tokens<Format>>();
    f.template operator()<Cast>();
  };
  using enum token_format;
  switch (format) {
    case bf16:
      return f.template operator()<bf16_tokens>();
    case blockwise_fp8:
      return either.template operator()<blockwise_fp8, fp8_tokens>();
    case mxfp8:
      return either.template operator()<mxfp8, block_tokens<mxfp8>>();
    case mxfp4:
      return either.template operator()<mxfp4, block_tokens<mxfp4>>();
    case nvfp4:
      return either.template operator()<nvfp4, block_tokens<nvfp4>>();
  }
}

}  // namespace baton::ep
