package job

import (
	"errors"
	"slices"

	"ckpt/image"
)

// ChooseCheckpoint reads the manifest of checkpoint n, 0 for the newest. A
// damaged newest one is not silently passed over. With several groups it is the
// newest that can be read, nil if there is none: the recovery line tells more.
func ChooseCheckpoint(job *image.Job, spec *Resolved, n int) (*image.Manifest, error) {
	if spec.Several() {
		return newestReadable(job, spec)
	}
	if n == 0 {
		var err error
		if n, err = job.Latest(); err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, &noCheckpointError{job.Name()}
		}
	}
	m, err := job.Manifest(n)
	if err != nil {
		return nil, err
	}
	return m, spec.CheckTaken(job, m)
}

func newestReadable(job *image.Job, spec *Resolved) (*image.Manifest, error) {
	numbers, err := job.Checkpoints()
	for _, n := range slices.Backward(numbers) {
		m, err := job.Manifest(n)
		if err == nil {
			err = spec.CheckTaken(job, m)
		}
		if err == nil || !Unrestorable(err) {
			return m, err
		}
	}
	return nil, err
}

// Take locks a job of the store, to continue it, and reads its description. The caller
// unlocks it.
func Take(store *image.Store, name string) (*image.Job, *Resolved, error) {
	j, err := store.Job(name)
	if err != nil {
		return nil, nil, err
	}
	if err := j.Lock(); err != nil {
		return nil, nil, err
	}
	_, err = store.Own()
	var spec *Resolved
	if err == nil {
		spec, err = readChecked(j)
	}
	if err != nil {
		j.Unlock()
		return nil, nil, err
	}
	return j, spec, nil
}

// readChecked reads the description of a job under which its checkpoints were taken.
func readChecked(j *image.Job) (*Resolved, error) {
	spec, err := ReadSpec(j)
	if err != nil {
		return nil, err
	}
	return spec, checkDescription(j)
}

// checkDescription checks that a job has the description under which its newest
// checkpoint was taken that tells.
func checkDescription(job *image.Job) error {
	numbers, err := job.Checkpoints()
	if err != nil {
		return err
	}
	var other error
	for _, n := range slices.Backward(numbers) {
		m, err := job.Manifest(n)
		if err == nil && m.Description != "" {
			return nil
		}
		if errors.Is(err, image.ErrOtherDescription) && other == nil {
			other = err
		}
	}
	return other
}
