// The jobs of --tasks and --prompts. They return false with the reason on an error.
#pragma once

#include "../job/job.h"

// Prints accuracies of tasks by length and depth for each plan. The answer becomes NO when a
// method's accuracy in a task at a length is below --min-accuracy.
RunJob measure_tasks;

// Prints the trials of these tasks instead, as lines of JSON for other programs. It needs the
// tokenizer and the length. Lengths begin at half the model's trained length. Without one, all
// trials are of that length.
RunJob print_prompts;

// Judges answers that others heard to such trials, and prints their accuracies by length and depth,
// and the effective length. It needs no model. The answer becomes NO when a task's accuracy at a
// length is below --min-accuracy.
RunJob judge_answers;
