// The jobs that show what a model, its RoPE and the machine do: a function each. What each is asked
// for, src/options/jobs.h says. Tables go to standard output; what fails returns false with the
// reason.
#pragma once

#include "../measure/measure.h"

// Times reading and decoding by the first plan, at the start and after job->length positions, and
// what the machine could give.
RunJob bench;

// Prints what the first plan does to each pair of a head at job->length positions, or what another
// encoding adds. At a terminal, or with --plot, the pairs are drawn on standard error, too.
RunJob explain;

// Its part for a model that knows positions by an encoding other than RoPE: prints what that adds at
// distances up to job->length.
bool explain_encoding(const Job *job, Error *err);

// Writes a copy of the model with weights of another type, and prints what rounding did.
RunJob measure_rounding;

// Prints the scores and weights that one head gives to every key, for the last query of the prompt.
RunJob show_attention;

// Prints what each head looks at, in texts of its own or in a prompt: within the trained length, and at
// job->length positions by each plan.
RunJob show_heads;

// Prints why the model fails at job->length positions, and what the plan changes.
RunJob show_why;

// Lists the models that were brought in, once it has removed them if that was asked for.
RunJob show_cache;

// Prints how engines read the job's settings, for a text of job->length positions. hf5 comes first
// and is the reference. The answer becomes NO when one differs, and UNDECIDED when none does but
// one that is named is unverified.
RunJob show_engines;

// Prints log-probabilities of what may come next, by each plan. A method that follows the length
// reads each beginning afresh.
RunJob show_next;
