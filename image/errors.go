package image

import (
	"errors"
)

// The errors that callers tell apart with errors.Is. The text of an error
// names the file or the job; these only name the case.
var (
	// ErrNoStore says that the directory does not hold a checkpoint store.
	ErrNoStore = errors.New("not a checkpoint store")
	// ErrJobExists says that the store has a job of this name already.
	ErrJobExists = errors.New("job exists already")
	// ErrJobNotFound says that the store has no job of this name.
	ErrJobNotFound = errors.New("job not found")
	// ErrInUse says that another coordinator holds the lock of the job.
	ErrInUse = errors.New("job is in use by another coordinator")
	// ErrJobGone says that the directory of a job was removed or renamed while this
	// process had its lock.
	ErrJobGone = errors.New("the directory of the job was removed or renamed while the job runs")
	// ErrCheckpointNotFound says that the job has no committed checkpoint of
	// this number.
	ErrCheckpointNotFound = errors.New("checkpoint not found")
	// ErrRankNotFound says that the checkpoint has no rank of this number.
	ErrRankNotFound = errors.New("no rank")
	// ErrOtherDescription says that a checkpoint was taken under another
	// description of the job than the one that is there. It comes with a
	// durable.DamageError.
	ErrOtherDescription = errors.New("taken under another description of the job")
)
