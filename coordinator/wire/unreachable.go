package wire

import (
	"errors"
	"fmt"
	"os"

	"ckpt/image"
	"ckpt/internal/family"
)

// An UnreachableError says that a job runs, since a process has its lock, whose coordinator
// cannot be reached from here: it has other files or another network, or its socket was
// removed. It is image.ErrInUse.
type UnreachableError struct {
	Job  string
	PID  int    // of the coordinator, on its host
	Host string // "" if not known
	Here bool   // it is a process of this host, and has its number here, too
	Err  error  // why it cannot be reached
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("running, unreachable from here: %s has the lock of the job: %v", e.Process(), e.Err)
}

// Process names the process of the coordinator.
func (e *UnreachableError) Process() string {
	if e.Host == "" {
		return fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("process %d on host %s", e.PID, e.Host)
}

func (e *UnreachableError) Unwrap() []error { return []error{image.ErrInUse, e.Err} }

// alive returns an UnreachableError if a process that cannot be reached has the lock of the
// job, nil if the announcement is of one that was killed.
func (a *announcement) alive(j *image.Job, why error) error {
	if locked, err := j.Locked(); err != nil || !locked {
		return nil
	}
	id, host := ThisHost()
	here := SameProcesses(a.Where, id) || a.Where == "" && a.Host == host
	is, found := family.Find(a.PID)
	if here && (!found || a.Start != "" && is.Start != a.Start) {
		return nil // another process is about to run it, or to remove it
	}
	if errors.Is(why, os.ErrNotExist) {
		why = fmt.Errorf("its socket %s is not here", a.Address)
	}
	return &UnreachableError{Job: j.Name(), PID: a.PID, Host: a.Host, Here: here, Err: why}
}
