package dmtcp

import (
	"time"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/family"
)

// A state is what another coordinator needs to take over: the processes of the run, and
// the images that are not stored yet. Its file is replaced as a whole.
type state struct {
	Format int    `json:"format"`           // 1
	ID     string `json:"job_id,omitempty"` // random, of the description of the job, whose digest changes
	// Boot is the identity of the host on which the processes run, as wire.ThisHost says it.
	Boot      string           `json:"boot"`
	Session   string           `json:"session"` // directory of the MPI library's files
	Processes []family.Process `json:"processes,omitempty"`
	// Pending is a set that is whole and not stored yet, Spare one that is stored.
	Pending *rawSet `json:"pending,omitempty"`
	Spare   *rawSet `json:"spare,omitempty"`
	Sets    int     `json:"sets"` // how many were made
	// Mark is the file in which the program marks its end; those of before did not.
	Mark string `json:"mark,omitempty"`
}

// A rawSet is the files that DMTCP wrote for a checkpoint.
type rawSet struct {
	Name   string        `json:"name"`
	Number int           `json:"number,omitempty"` // of the checkpoint, once it is stored
	From   int           `json:"from"`             // checkpoint that the run was restarted from
	Pause  time.Duration `json:"pause"`            // of the program
	Peers  int           `json:"peers"`
}

// readState reads the state of a job; the zero value if it has none, and with an error: the
// processes of another job stay.
func readState(j *image.Job) (state, error) {
	var s state
	err := job.ReadState(j, &s)
	if err == nil && s.Format > 1 {
		err = durable.ErrNewerVersion
	}
	if err != nil {
		return state{}, err
	}
	return s, nil
}

// write replaces the state of a job, durably.
func (s *state) write(j *image.Job) error {
	s.Format = 1
	return durable.Op("write", job.StatePath(j), -1, durable.ReplaceSealed(j.FS(), job.StatePath(j), s))
}
