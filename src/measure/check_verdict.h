// What --check says in words: its last line, and with --json the reason of the status.
#pragma once

#include "check_needs.h"

// The budget for what should take so many seconds more, rounded up to two digits.
double budget_for(const Check *check, double seconds);

// Says what came out for -n, and returns the answer.
Answer say_verdict(Check *check);
// The same where only settings were judged.
Answer say_of_settings(Check *check);
