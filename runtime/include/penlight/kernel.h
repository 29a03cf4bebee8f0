// All that a kernel file includes.
//
// A kernel is the out variant of an operator: it gives `out` its shape through
// ctx.resize(), writes it and returns it. Errors go to ctx.fail(); nothing is
// thrown and nothing is allocated but scratch from the context.
#pragma once

#include <penlight/boxing.h>
#include <penlight/context.h>
#include <penlight/registry.h>
#include <penlight/tensor.h>
#include <penlight/value.h>
