package zones

import (
	"bytes"
	"strconv"
	"strings"
)

// rankVariables hold the rank of a process in the MPI job, the most trustworthy first.
// The process manager of an MPI implementation knows better than a batch system, which
// also sets its variable, to 0, in scripts and everything that they start. CKPT_RANK is
// that of ckpt's own jobs, which their coordinator does not have.
var rankVariables = []string{"CKPT_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"}

// jobVariables hold the number of ranks of the MPI job, nodeVariables those on the node.
// Batch systems set them for all that they start, so they mean something in ranks only.
var (
	jobVariables  = []string{"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}
	nodeVariables = []string{"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"}
)

// RankOf returns the rank of a process from its environment, as NAME=VALUE, or -1.
func RankOf(env []string) int { return inEnvironment(env, rankVariables, -1) }

// JobOf returns the number of ranks of the MPI job, and of those on the node, from the
// environment of a rank. They are 0 if unknown.
func JobOf(env []string) (job, node int) {
	return inEnvironment(env, jobVariables, 0), inEnvironment(env, nodeVariables, 0)
}

func inEnvironment(env, names []string, unknown int) int {
	for _, name := range names {
		for _, e := range env {
			if value, ok := strings.CutPrefix(e, name+"="); ok {
				if n, ok := parseRank(value); ok {
					return n
				}
			}
		}
	}
	return unknown
}

// StackTop is how many bytes of the top of a stack RankOnStack needs: the kernel puts
// the environment there when a program starts.
const StackTop = 256 << 10

// RankOnStack is RankOf for the memory at the upper end of a stack, where the
// variables are strings that end in a NUL. The last occurrence wins: copies that a
// program made lie further down than the environment.
func RankOnStack(top []byte) int { return onStack(top, rankVariables, -1) }

// JobOnStack is JobOf for the memory at the upper end of a stack.
func JobOnStack(top []byte) (job, node int) {
	return onStack(top, jobVariables, 0), onStack(top, nodeVariables, 0)
}

func onStack(top []byte, names []string, unknown int) int {
	for _, name := range names {
		pattern := append(append([]byte{0}, name...), '=')
		for rest := top; ; {
			i := bytes.LastIndex(rest, pattern)
			if i < 0 {
				break
			}
			value := top[i+len(pattern):]
			if n := bytes.IndexByte(value[:min(len(value), maxRankDigits+1)], 0); n > 0 {
				if rank, ok := parseRank(string(value[:n])); ok {
					return rank
				}
			}
			rest = rest[:i]
		}
	}
	return unknown
}

// maxRankDigits is more than any job needs.
const maxRankDigits = 7

func parseRank(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil
}
