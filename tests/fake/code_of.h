// The error of a call that must have failed. `result.error()` alone is no claim: a success has
// one, too, an empty one, whose code is `invalid`.
#pragma once
#include <doctest/doctest.h>

#include "penstock/result.h"

namespace penstock {

template <class T>
Errc code_of(const Result<T>& result) {
  REQUIRE(!result);
  return result.error().code;
}

}  // namespace penstock
