// The story of book.txt.
#pragma once

// All of its 83,610 bytes: what --check reads when no FILE is given. tools/prose.py writes prose.c.
extern const char prose[];
