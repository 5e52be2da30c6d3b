package job

import (
	"context"
	"errors"
	"fmt"

	"ckpt/image"
	"ckpt/image/dmtcp"
	"ckpt/internal/wording"
)

// Import stores a checkpoint of another checkpointer as the next one of a job,
// which it makes if there is none. Only imported checkpoints of the same program
// and number of ranks belong to one job.
func Import(ctx context.Context, store *image.Store, name string, set *dmtcp.Set, opt dmtcp.Options) (*image.Manifest, error) {
	spec := Spec{ID: image.NewID(), Origin: dmtcp.Origin, App: set.Images[0].Name, NP: set.NP, Mapping: set.Mapping, MPI: set.Images[0].MPI, Mode: Coordinated}
	text, err := spec.Encode()
	if err != nil {
		return nil, err
	}
	job, err := lockImported(store, name, &spec)
	if errors.Is(err, image.ErrJobNotFound) || errors.Is(err, errUnused) {
		job, err = store.TakeOverJob(name, text, func(job *image.Job) error { return Forsake(job) })
	}
	if err != nil {
		return nil, err
	}
	defer job.Unlock()
	if _, err := job.Sweep(); err != nil {
		return nil, err
	}
	return set.Import(ctx, job, opt)
}

// errUnused says that a job is the remains of an import that failed.
var errUnused = errors.New("the job has no checkpoint")

// lockImported opens a job for another import into it.
func lockImported(store *image.Store, name string, want *Spec) (*image.Job, error) {
	job, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	if err := job.Lock(); err != nil {
		return nil, err
	}
	_, err = store.Own()
	var text []byte
	if err == nil {
		text, err = job.Spec()
	}
	if err == nil {
		var have *Resolved
		if have, err = decodeSpec(text); err == nil {
			err = sameImported(job, have, want)
		}
	}
	if err != nil {
		return nil, errors.Join(err, job.Unlock())
	}
	return job, nil
}

func sameImported(job *image.Job, have *Resolved, want *Spec) error {
	name := job.Name()
	if have.Origin != want.Origin {
		return &UsageError{fmt.Sprintf("job %s is one of ckpt's own", name), wording.Sprintf("import under another {job}")}
	}
	if latest, err := job.Latest(); err != nil || latest == 0 {
		return errors.Join(err, errUnused)
	}
	if have.App != want.App || have.NP != want.NP {
		return &UsageError{fmt.Sprintf("job %s holds %d ranks of %s, the images are %d of %s", name, have.NP, have.App, want.NP, want.App),
			wording.Sprintf("import under another {job}")}
	}
	return nil
}
