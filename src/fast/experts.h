// Layers with experts: each row of a chunk chooses a few, and only these are read.
#pragma once

// What a chunk needs, see experts.c.
typedef struct Experts Experts;
