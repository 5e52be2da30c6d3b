package nodes

import (
	"context"

	"ckpt/image"
)

// Survey says what the nodes have of a version, as Verify does, but reads no more than
// manifests, headers and indexes: damage to the contents of a file does not show.
func (t *Tier) Survey(ctx context.Context, m *image.Manifest) []Finding {
	v := &verification{tier: t, m: m, shallow: true}
	return append(v.directories(), v.all(ctx)...)
}
