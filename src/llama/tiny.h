// The tiny program by one definition of the forward pass, such as that of ./llama (main.c).
#pragma once

#include "tiny_text.h"

// Parses the arguments and runs the job. Returns the exit status.
int tiny_program(int argc, char **argv, const Definition *by);
