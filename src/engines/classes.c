// Architectures for which engines have a class, by the tables of their own packages. They are
// generated from src/engines/classes.json.
#include "engine_rules.h"
#include "made/classes.h"
