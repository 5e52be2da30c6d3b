package elfcore

import (
	"bytes"
	"strconv"
)

// rank returns the number that the launcher gave the process, or -1. The
// environment lies at the upper end of the stack, as the kernel put it there
// when the program started. The names are those of MPICH and its kin, Open MPI,
// PMIx and Slurm; the last comes last because Slurm sets it, to 0, in batch
// scripts too, for all that they start.
func (c *core) rank(stack int) (int, error) {
	a := &c.areas[stack]
	if a.Stored < a.Bytes() {
		return -1, nil // the upper end is not in the file
	}
	const most = 256 << 10
	b := make([]byte, min(a.Stored, most))
	if err := c.read(b, c.contents[stack]+a.Stored-int64(len(b))); err != nil {
		return -1, err
	}
	for _, name := range []string{"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"} {
		// The last occurrence: below may be copies that functions made.
		key := []byte("\x00" + name + "=")
		i := bytes.LastIndex(b, key)
		if i < 0 {
			continue
		}
		value, _, ok := bytes.Cut(b[i+len(key):], []byte{0})
		if n, err := strconv.ParseUint(string(value), 10, 31); ok && err == nil {
			return int(n), nil
		}
	}
	return -1, nil
}
