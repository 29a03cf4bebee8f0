// All that a kernel file includes: tensors, the context, dtype dispatch, and
// PENLIGHT_LIBRARY, which makes an operator of a function.
//
// A kernel is the out variant of an operator: it gives `out` its shape through
// ctx.resize(), writes it and returns it. Errors go to ctx.fail(); nothing is
// thrown and nothing is allocated but scratch from the context.
#pragma once

#include <penlight/boxing.h>
#include <penlight/context.h>
#include <penlight/dispatch.h>
#include <penlight/library.h>
#include <penlight/registry.h>
#include <penlight/tensor.h>
#include <penlight/value.h>
