// Package jobs has the commands that plan, run and control jobs.
package jobs

import (
	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
)

// Commands returns the commands of this package.
func Commands(g *ui.Globals) []*cobra.Command {
	return []*cobra.Command{newLaunchCommand(g), newRestartCommand(g), newCheckpointCommand(g), newStopCommand(g),
		newStatusCommand(g), newTopCommand(g), newLayoutCommand(g), ui.Moved("plan", "layout"), newTuneCommand(g), newSDKCommand(g), NewRankCommand()}
}
