package turns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"ckpt/image/iosched/arbiter"
	"ckpt/internal/vfs"
)

// Status is what a controller knows. Times are in seconds.
type Status struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Started time.Time `json:"started"`
	// Address is HOST:PORT for other hosts, "" without it.
	Address     string `json:"address,omitempty"`
	Connections int    `json:"connections"`
	arbiter.Status
}

// Ask asks the controller of a directory how it is. The error is ErrNone if there is none
// or the one that was there has died.
func Ask(ctx context.Context, dir string) (*Status, error) {
	info, err := Find(vfs.OS{}, dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, defaultPatience)
	defer cancel()
	conn, err := dial(ctx, info)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNone, silent(ctx, err))
	}
	l, _, err := greet(ctx, conn, info, Who{})
	if err = silent(ctx, err); errors.Is(err, errDied) {
		err = fmt.Errorf("%w: %w", ErrNone, err)
	}
	if err != nil {
		return nil, err
	}
	defer l.end()
	stop := context.AfterFunc(ctx, l.drop)
	defer stop()
	l.send(&status{})
	for {
		m, err := readFrame(l.r, maxReport)
		if err != nil {
			return nil, silent(ctx, fmt.Errorf("%w: %w", errDied, err))
		}
		if m, ok := m.(*report); ok {
			var s Status
			if err := json.Unmarshal([]byte(m.JSON), &s); err != nil {
				return nil, fmt.Errorf("status of the controller of %s: %w", info.Dir, err)
			}
			return &s, nil
		}
	}
}

// silent returns the error of a question that was not answered in time.
func silent(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errSilent
	}
	return err
}
