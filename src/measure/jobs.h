// The jobs that measure, a function each. What each is asked for, src/settings/options.h says. All
// return false with the reason.
#pragma once

#include "../job/job.h"

// Times reading and decoding by the first plan, at the start and behind job->length positions, and
// what the machine could give.
RunJob bench;

// Judges within the budget whether the model holds to job->length positions. The answer becomes NO
// or UNDECIDED where it does not.
RunJob check_model;

// Prints what the first plan does to each pair of a head at job->length positions, or what another
// encoding adds. At a terminal, or with --plot, the pairs are drawn on standard error, too.
RunJob explain;

// Prints the perplexity by position of windows of job->length positions of job->ids, by each plan.
RunJob measure_perplexity;

// Writes a copy of the model with weights of another type, and prints what rounding did.
RunJob measure_rounding;

// Prints accuracies of tasks by length and depth for each plan. The answer becomes NO when a
// method's accuracy in a task at a length is below --min-accuracy.
RunJob measure_tasks;

// Prints the trials of these tasks instead, as lines of JSON for other programs. It needs the
// tokenizer and the length. Lengths begin at half the model's trained context. Without one, all
// trials are of that length.
RunJob print_prompts;

// The tasks of a list (NULL: passkey) as bits by their order. 0 with the reason where one is not
// known.
unsigned tasks_asked(const char *list, Error *err);

// LongRoPE's search (arXiv 2402.13753): searches windows of job->length positions of job->ids. Prints
// what it found, and the block as --rope-json does. Ctrl-C ends it with the best so far.
RunJob search_divisors;

// Prints the scores and weights that one head gives to every key, for the last query of the prompt.
RunJob show_attention;

// Prints how engines read the job's settings, for a text of job->length positions. hf5 comes first
// and is the reference. The answer becomes NO when one differs, and UNDECIDED when none does but
// nobody has looked at one that is named.
RunJob show_engines;

// Prints log-probabilities of what may come next, by each plan. A method that follows the length
// reads each beginning afresh.
RunJob show_next;
