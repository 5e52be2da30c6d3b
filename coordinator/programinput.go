package coordinator

import (
	"fmt"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/image"
)

// keepInput keeps what has come of the standard input of a new program, for later runs.
func (d *driver) keepInput() (job.Input, error) {
	kept, err := d.program.input.Kept()
	if err == nil {
		err = job.WriteInput(d.job, kept)
	}
	if err != nil {
		err = fmt.Errorf("keep standard input: %w", err)
	}
	return kept, err
}

// inputAgain returns the standard input of a job that is restarted. Where it cannot be given
// again, a command of its own has the one of this run.
func (o *RestartOptions) inputAgain(j *image.Job) (*launch.Input, error) {
	kept, err := job.ReadInput(j)
	if err == nil && kept != nil {
		err = kept.Check(j)
	}
	switch {
	case err != nil && len(o.Command) == 0:
		return nil, err
	case err != nil || kept == nil:
		return launch.NewInput(o.Streams.In)
	}
	return launch.Again(kept)
}

// errLongInput refuses an input that no later run could read.
func errLongInput() error {
	return &job.UsageError{Text: fmt.Sprintf("standard input is a pipe of more than %d MiB: it cannot be given again to a run that is restarted", job.InputLimit>>20),
		Fix: "give it as a file, < FILE, or have the program read the file itself; < /dev/null if it reads none"}
}

// keepPause is the time between two times that a stream which grows is kept.
const keepPause = 100 * time.Millisecond

// watchInput keeps a stream of a new program as it comes, and ends a job whose stream is too
// long.
func (d *driver) watchInput() {
	p := d.program
	d.helpers.Go(func() {
		select {
		case <-p.program.InputTooLong():
			d.post(func() { d.fail(errLongInput()) })
		case <-d.done:
		}
	})
	if !p.fresh {
		return
	}
	d.helpers.Go(func() {
		for had := -1; p.input.More(had); {
			kept, err := d.keepInput()
			if err != nil {
				d.post(func() { d.out.Warn(err.Error() + ": a later restart cannot give it again") })
			}
			if had = len(kept.Data); err != nil || kept.Ended {
				return
			}
			select {
			case <-time.After(keepPause):
			case <-d.done:
			}
		}
	})
}
