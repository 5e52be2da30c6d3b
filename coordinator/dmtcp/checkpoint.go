package dmtcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/dmtcp"
	"ckpt/internal/durable"
	"ckpt/internal/family"
)

// checkSpace refuses a checkpoint for which the disk has too little space: the images and
// what the store keeps of them are both there for a while. They will be as large as the last
// ones, at least what the program holds in memory.
func (a *agent) checkSpace() error {
	e := a.e
	free, err := e.opt.Free()
	if err != nil {
		return err
	}
	e.mu.Lock()
	need, spare := family.Resident(e.state.Processes), e.state.Spare
	e.mu.Unlock()
	if spare != nil {
		need = max(need, e.dir.written(spare.Name))
	}
	if free < 2*need {
		return fmt.Errorf("%w: %s has %d MiB free, a checkpoint of %d MiB needs twice as much", durable.ErrStorageFull, e.dir.root, free>>20, need>>20)
	}
	return e.dir.renew(liveName)
}

// write has DMTCP write the images of a checkpoint, and checks them: DMTCP also says that
// it is done when it is not.
func (a *agent) write(t *taking, set *rawSet) (*dmtcp.Set, error) {
	e := a.e
	began := time.Now()
	var err error
	if set.Peers, _, err = a.server.status(a.ctx); err != nil {
		return nil, err
	}
	err = a.server.checkpoint(a.ctx)
	set.Pause = time.Since(began)
	if err != nil {
		select { // DMTCP may know before us that the program has ended
		case <-a.program.over:
		case <-time.After(time.Second):
		}
		return nil, err
	}
	a.do(func() { a.captured(t) })
	if name, err := e.dir.unfinished(liveName); err != nil || name != "" {
		return nil, errors.Join(err, fmt.Errorf("DMTCP has left %s unfinished", name))
	}
	if err := e.dir.settle(set.Name); err != nil {
		return nil, err
	}
	return e.collect(a.ctx, set)
}

// collect reads the files of a set: every image to its end.
func (e *Engine) collect(ctx context.Context, set *rawSet) (*dmtcp.Set, error) {
	images, err := e.dir.images(set.Name)
	if err != nil {
		return nil, err
	}
	files, err := dmtcp.Collect(ctx, images, dmtcp.CollectOptions{Rules: e.rules})
	if err != nil {
		return nil, err
	}
	if n := len(files.Images); n != set.Peers {
		return nil, fmt.Errorf("the program has %d processes, DMTCP wrote %d images", set.Peers, n)
	}
	newest, err := e.Job.Latest()
	if err == nil && newest > 0 && files.NP != e.Spec.NP {
		err = fmt.Errorf("the images are of %d ranks, the job has %d", files.NP, e.Spec.NP)
	}
	return files, err
}

// store writes the files of a set into the checkpoint under way.
func (a *agent) store(ctx context.Context, set *rawSet, files *dmtcp.Set, progress func(int64)) (*image.Manifest, error) {
	e := a.e
	if err := e.describe(ctx, files); err != nil {
		return nil, err
	}
	tx, err := e.Tx(ctx)
	if err != nil {
		return nil, err
	}
	return files.Write(ctx, e.Job, tx, dmtcp.Options{Progress: progress, Notice: e.warn,
		Describe: func(m *image.Manifest) { m.Parent, m.Pause = set.From, set.Pause.Seconds() }})
}

// describe writes into the description of the job what its first images tell.
func (e *Engine) describe(ctx context.Context, files *dmtcp.Set) error {
	if newest, err := e.Job.Latest(); newest > 0 || err != nil {
		return err
	}
	first, s := files.Images[0], *e.Spec
	s.App, s.MPI, s.NP, s.Mapping = first.Name, first.MPI, files.NP, files.Mapping
	text, err := s.Encode()
	if err != nil {
		return err
	}
	job.ForgetEnding(e.Job) // it names the digest of the description
	if err := e.Job.Redescribe(text); err != nil {
		return err
	}
	return e.told(ctx, &s)
}

// told takes over a description that says more than the one before.
func (e *Engine) told(ctx context.Context, s *job.Spec) error {
	err := e.Describe(ctx, s)
	if err == nil {
		e.Spec = s
	}
	return err
}
