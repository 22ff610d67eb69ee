// What host code of a `.co` file and generated CUDA include: the names of namespace choreo.
//
// Element types, views and owned tensors on the host, checks that throw, timing with CUDA events, kernel
// launches that are recorded, and tensor maps. Standard library and CUDA headers only; C++17; header only.
// Everything that fails throws choreo::Error: a program that does not catch it ends with its text.
// docs/runtime.md is the overview.
#pragma once

#include "choreo/error.h"
#include "choreo/launch.h"
#include "choreo/tensormap.h"
#include "choreo/timing.h"
#include "choreo/types.h"
#include "choreo/view.h"

namespace croq = choreo;
