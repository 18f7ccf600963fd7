// The names of what a session's cache may be kept as.
#include "session_config.h"

const char *const kv_type_names[N_KV_TYPES] = {"f16", "f32", "q8", "q4"};
