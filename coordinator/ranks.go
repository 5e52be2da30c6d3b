package coordinator

import (
	"cmp"

	"ckpt/coordinator/job"
	"ckpt/image"
)

// onRanks describes the run that continues a job of simulated ranks: on as many as the
// checkpoint is of, unless another number is asked for.
func (o *RestartOptions) onRanks(spec *job.Resolved, j *image.Job) (job.Spec, error) {
	again := spec.Spec
	again.AutoRestart = again.AutoRestart || o.AutoRestart
	np, from := cmp.Or(o.NP, spec.NP), (*image.Manifest)(nil)
	if spec.AnyRanks() {
		var err error
		if from, err = o.choose(j, spec); err != nil {
			return again, err
		}
		np = cmp.Or(o.NP, from.NP)
	}
	if np != spec.NP || from != nil && np != from.NP {
		if err := spec.CheckRanks(from, np); err != nil {
			return again, err
		}
	}
	again = again.OnRanks(np)
	var err error
	switch {
	case o.Mapping != nil:
		again.Mapping, err = o.Mapping(np)
	case np != spec.NP && np == from.NP:
		again.Mapping = from.Mapping
	case np != spec.NP:
		again.Mapping, err = job.EvenMapping(np, min(np, len(from.Mapping)))
	}
	return again, err
}
