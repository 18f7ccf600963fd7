// All kinds of models that the fast engine knows.
#pragma once

#include "hooks.h"

extern const FastKinds fast_kinds;
