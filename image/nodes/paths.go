package nodes

import (
	"fmt"
	"path"

	"ckpt/image/container"
)

// RankFile returns the path of the container of a rank, as manifests have it.
func RankFile(number, rank int) string {
	return path.Join(container.FormatNumber(number), fmt.Sprintf("rank-%d.img", rank))
}

// ParityFile returns the path of a parity of a set.
func ParityFile(number, set, index int) string {
	return path.Join(container.FormatNumber(number), fmt.Sprintf("parity-%d-%d.par", set, index))
}

// manifestPath returns the path of a manifest, as those of files are.
func manifestPath(number int) string {
	return container.FormatNumber(number) + "/" + container.ManifestName
}
