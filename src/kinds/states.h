// Layers that keep a state in place of keys and values, as the definition.
#pragma once

#include "../llama/plain_state.h"

// added (dim) = what a layer with a state makes of p->normed. The state goes on to the next token.
void gated_delta_rule(Plain *p);
void short_convolution(Plain *p);
