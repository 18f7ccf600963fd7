// The names of the types of a session's cache.
#include "session_config.h"

const char *const kv_type_names[N_KV_TYPES] = {"f16", "f32", "q8", "q4"};
