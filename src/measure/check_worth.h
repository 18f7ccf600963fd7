// The rows of --check about what a context is worth, each asked for by an option: a page that is
// read again, values that change, and what rounding of the cache changes. Each function reads the
// row's next unit and adds its samples. False with the reason, or when it was too late.
#pragma once

#include "check_rows.h"

// Reads a stretch in place by the reference, and with jumps by the session: what the second reading
// of a page gains in each.
bool page_read(Check *check, Row *row, Session *session, Error *err);

// Reads the last tokens of a stretch behind a cache of float16, and behind those that round keys,
// values or both: the mean Kullback-Leibler divergence, in nats for each token. The row ends as
// unknown where the definition reads, which has no other cache. It opens sessions of its own.
bool cache_read(Check *check, Row *row, Session *unused, Error *err);
