// A chat, from its first message to its end.
#pragma once

#include "writing.h"

// Holds a chat until the user ends it or its context is full. False with the reason, also if
// messages remain that were not read.
bool hold_chat(Writing *writing, Error *err);
