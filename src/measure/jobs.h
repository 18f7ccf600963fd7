// The jobs that print one table and are a function each. What each is asked for, settings/asked.h
// says. All return false with the reason.
#pragma once

#include "../job/job.h"

// Times reading and decoding by the first plan, at the start and behind job->length positions, and
// what the machine could give.
bool bench(const Job *job, Error *err);

// Prints what the first plan does to each pair of a head at job->length positions, or what another
// encoding adds. At a terminal, or if it `plots`, the pairs are drawn on standard error, too.
bool explain(const Job *job, bool plots, Error *err);

// Prints the perplexity by position of windows of job->length positions of job->ids, by each plan.
bool measure_perplexity(const Job *job, const PerplexityOptions *options, Error *err);

// Writes a copy of the model at `from`, with weights of the type, to `to`, and prints what rounding
// did.
bool measure_rounding(const Model *model, const char *from, WeightType type, const char *to,
                      TableForm form, Error *err);

// Prints the scores and weights that one head gives to every key, for the last query of the prompt.
// Layer and head count from 0.
bool show_attention(const Job *job, int layer, int head, Error *err);

// Prints log-probabilities of what may come next, by each plan. A method that follows the length
// reads each beginning afresh.
bool show_next(const Job *job, const NextOptions *options, Error *err);
