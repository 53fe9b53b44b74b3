#pragma once
#include "baton/error.hpp"
#include "baton/expert_mlp.hpp"
#include "baton/expert_parallel.hpp"
#include "baton/numeric.hpp"
#include "baton/ring_gemm.hpp"
#include "baton/version.hpp"
#include "baton/world.hpp"
