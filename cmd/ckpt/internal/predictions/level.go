package predictions

import (
	"fmt"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image"
)

// wholeMemory refuses a job whose checkpoints hold the arrays that have to be saved: what
// they store says nothing about the zones of a process.
func wholeMemory(j *image.Job) error {
	spec, err := job.ReadSpec(j)
	if err != nil || !spec.SavesArrays() {
		return err
	}
	return ui.BadUsage(fmt.Sprintf("job %s takes checkpoints at application level: models are of the whole memory", j.Name()),
		"fit jobs at system level")
}
