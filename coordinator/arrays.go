package coordinator

import (
	"slices"

	"ckpt/coordinator/job"
	"ckpt/image"
)

// checkArrays checks that the parts of the ranks of the group belong to whole arrays, unless
// they are those of the checkpoint before.
func (g *group) checkArrays(m *image.Manifest) error {
	if was := g.taken; was != nil && slices.EqualFunc(was.Ranks, m.Ranks, sameParts) {
		return nil
	}
	return job.CheckArrays(m)
}

func sameParts(a, b image.Rank) bool {
	return slices.Equal(a.Replicated, b.Replicated) && slices.EqualFunc(a.Global, b.Global, func(p, q image.GlobalPart) bool {
		return p.Region == q.Region && p.Part.Equal(&q.Part)
	})
}
