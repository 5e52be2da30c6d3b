#include "program.h"
long from_the_other_file(void) { return ckpt_boundary(7); }
