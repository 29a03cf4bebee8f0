#pragma once

#include <executorch/kernel.h>
