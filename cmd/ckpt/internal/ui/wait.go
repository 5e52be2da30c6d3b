package ui

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"ckpt/coordinator/wire"
	"ckpt/image"
)

// A Wait is how long a command waits for a job that another process has.
type Wait struct{ text string }

const (
	waitFlag    = "wait"
	waitForever = "forever"
	waitPause   = 200 * time.Millisecond
)

// AddFlags adds --wait to a command that needs a job for itself.
func (w *Wait) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&w.text, waitFlag, "", "if another process has the job, wait until it has ended, or so long: --wait=10m")
	f.Lookup(waitFlag).NoOptDefVal = waitForever
}

// For does something with a job, and again while another process has the job and there is
// time. The error says which process that is.
func (w *Wait) For(ctx context.Context, g *Globals, job string, do func() error) error {
	limit, err := w.limit()
	if err != nil {
		return err
	}
	err = do()
	for end, told := time.Now().Add(limit), false; errors.Is(err, image.ErrInUse); err = do() {
		if !time.Now().Before(end) {
			return g.holder(ctx, job, err)
		}
		if !told {
			g.Warn("waiting for job %s: %v", job, g.holder(ctx, job, err))
			told = true
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(waitPause):
		}
	}
	return err
}

// limit is the time to wait, 0 for none.
func (w *Wait) limit() (time.Duration, error) {
	switch w.text {
	case "":
		return 0, nil
	case waitForever:
		const years = 100
		return years * 365 * 24 * time.Hour, nil
	}
	return ParseDuration("--"+waitFlag, w.text)
}

// holder says which process has a job, as far as that is known.
func (g *Globals) holder(ctx context.Context, job string, err error) error {
	const wait = "--wait waits until it has ended"
	j, oerr := g.OpenJob(job)
	if oerr != nil {
		return err
	}
	client, cerr := wire.Contact(ctx, j)
	if cerr == nil {
		client.Close()
		return WithHint(err, fmt.Sprintf("the job is running: ckpt stop %s ends it; %s", job, wait))
	}
	if errors.As(cerr, new(*wire.UnreachableError)) {
		return OfJob(job, cerr)
	}
	return WithHint(err, "another command has the job now; "+wait)
}

// OfJob says which job an error is about.
func OfJob(name string, err error) error { return fmt.Errorf("job %s: %w", name, err) }
