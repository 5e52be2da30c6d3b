/* What the two files of the test's program share. */
#ifndef PROGRAM_H
#define PROGRAM_H
#include "ckpt.h"
long from_the_other_file(void);
#endif
