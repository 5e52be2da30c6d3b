// Package images has the commands that show, check, compare, read and remove what is
// stored of jobs, and that read images and processes of other programs.
package images

import (
	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
)

// Commands returns the commands of this package.
func Commands(g *ui.Globals) []*cobra.Command {
	return []*cobra.Command{newListCommand(g), newShowCommand(g), newVerifyCommand(g), newScrubCommand(g), newDiffCommand(g), newPruneCommand(g), newRemoveCommand(g),
		newImportCommand(g), newExportCommand(g), newExtractCommand(g), newZonesCommand(g)}
}
