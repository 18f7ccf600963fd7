// The jobs that show the inner workings of a model, its RoPE and the machine, a function each.
// src/options/jobs.h has their inputs. Tables are printed on standard output; a failure returns
// false with the reason.
#pragma once

#include "../measure/measure.h"

// Times reading and decoding with the first plan, at the start and after job->length positions, and
// measures the limits of the machine.
RunJob bench;

// Prints the effect of the first plan on each pair of a head at job->length positions, or of
// another encoding. At a terminal, or with --plot, the pairs are also drawn on standard error.
RunJob explain;

// Like explain, for a model with a position encoding other than RoPE: prints its contribution at
// distances up to job->length.
bool explain_encoding(const Job *job, Error *err);

// Writes a copy of the model with weights of another type, and prints the rounding errors.
RunJob measure_rounding;

// Prints the scores and weights that one head gives to every key, for the last query of the prompt.
RunJob show_attention;

// Prints the tokens that each head attends to, in the program's own texts or in a prompt: within
// the trained length, and at job->length positions with each plan.
RunJob show_heads;

// Prints the reason why the model fails at job->length positions, and the changes with the plan.
RunJob show_why;

// Lists the imported models, after removing them if asked to.
RunJob show_cache;

// Prints the engines' readings of the job's settings, for a text of job->length positions. hf5
// comes first and is the reference. The answer becomes NO if an engine differs, and UNDECIDED if
// none differs but a named one is unverified.
RunJob show_engines;

// Prints log-probabilities of the next token with each plan. A method that depends on the length
// reads each beginning from the start.
RunJob show_next;
