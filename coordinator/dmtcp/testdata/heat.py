# A numpy program that knows nothing of checkpoints.
import sys
import time

import numpy as np

field = np.zeros((512, 512))
field[0] = 100
for it in range(1, int(sys.argv[1]) + 1):
    field[1:-1, 1:-1] += 0.2 * (field[:-2, 1:-1] + field[2:, 1:-1] + field[1:-1, :-2] + field[1:-1, 2:] - 4 * field[1:-1, 1:-1])
    print(it, flush=True)
    time.sleep(0.02)
print("sum %.17g" % field.sum())
