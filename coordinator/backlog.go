package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"ckpt/internal/durable"
)

// retryEvery is the time between attempts to write what did not fit on a full disk.
const retryEvery = 200 * time.Millisecond

// postpone tells the user, once, of what waits since the storage is full, and ends
// the job if that is asked for. Any other error it returns.
func (d *driver) postpone(what string, err error) error {
	if err == nil || !errors.Is(err, durable.ErrStorageFull) {
		return err
	}
	if !slices.Contains(d.backlog.told, what) {
		d.backlog.told = append(d.backlog.told, what)
		d.out.Warn(fmt.Sprintf("%s: %v", what, err))
	}
	d.stopIfFull(err)
	return nil
}

// catchUp tries again, now and then, to write what was postponed.
func (d *driver) catchUp() error {
	owes := len(d.backlog.lines) > 0 || d.backlog.owed != nil
	if !owes || d.over() || d.now()-d.backlog.tried < retryEvery {
		return nil
	}
	d.backlog.tried = d.now()
	err := d.noteOutput()
	if a := d.backlog.owed; a != nil && err == nil {
		err = d.collect(*a)
	}
	if errors.Is(err, durable.ErrStorageFull) {
		return nil // which has been told
	}
	return err
}
