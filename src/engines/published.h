// A plan for other programs with what engines make of it.
#pragma once

#include "../configs/publish.h"
#include "engines.h"

// Prints the plan as a rope_scaling block (JSON). Lines with # have llama.cpp's options, what has
// to stand beside the block, and engines that read it otherwise. False with the reason where other
// programs have no such method.
bool publish_print(const Publication *publication, Error *err);

// The readings of one engine, one for each kind of layers, stand together: how many there are from
// `reading` on.
int reading_kinds(const Reading *reading);
// How many engines read all kinds of layers as the reference does. *known becomes how many
// were looked at.
int readings_alike(const Readings *readings, int *known);
