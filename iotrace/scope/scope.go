package scope

import "ckpt/iotrace"

// Options say what belongs to the job. The zero value has the rules of the package.
//
// A pattern is a path or has the signs of path.Match; "**" stands for any number of
// directories. It matches a file and, if it names a directory, all below. From a slash
// on it matches from the root; without one it matches anywhere in a path, so that *.nc
// and results do what one expects.
type Options struct {
	Include []string // patterns of files that are the job's
	Exclude []string // patterns of files that are not
	All     bool     // everything is the job's
}

// Program is the name of a property (iotrace.Property) whose value is the path of a
// program that the job executed, or of a script.
const Program = "program"

// An Aside counts what was set apart.
type Aside struct {
	Files      int `json:"files"`     // that nothing is left of
	Processes  int `json:"processes"` // likewise
	Operations int `json:"operations"`
	// Bytes that those read and wrote. Bytes of a file that went through MPI-IO and
	// POSIX count once.
	BytesRead    int64 `json:"bytes_read"`
	BytesWritten int64 `json:"bytes_written"`
	// Kept is set if all of it was kept, since the job has nothing else. The counts
	// are 0 then.
	Kept bool `json:"nothing_else"`
}

// Apply returns the job's part of a trace. It may use the memory of t: t must not be
// used any more. If nothing is set apart, it returns t.
func Apply(t *iotrace.Trace, o Options) (*iotrace.Trace, Aside) {
	if o.All {
		return t, Aside{}
	}
	s := newSplit(t, o)
	if !s.candidates {
		return t, Aside{}
	}
	s.look()
	switch {
	case !s.gone:
		return t, Aside{}
	case !s.left:
		return t, Aside{Kept: true}
	}
	return s.apply()
}
