// Architectures that engines have a class for, by the tables of their own packages. They are written from
// src/engines/classes.json.
#include "engine_rules.h"
#include "made/classes.h"
