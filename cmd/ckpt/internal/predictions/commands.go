// Package predictions has the commands that predict checkpoints: their size, time,
// number and interval, and the measurements behind that.
package predictions

import (
	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
)

// Commands returns the commands of this package.
func Commands(g *ui.Globals) []*cobra.Command {
	return []*cobra.Command{newPredictCommand(g), intervalOfApp(g, newIntervalCommand(g)), newDatasetCommand(g)}
}

func newPredictCommand(g *ui.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "predict",
		Short: "Predict the size, time and number of checkpoints before a run",
		Long: `Predict the size, time and number of checkpoints before a run, from the
structure of the application and measurements, those of the built-in tables
(ckpt dataset) or your own (ckpt predict fit). Every number has an interval
that holds the true value in 95 of 100 cases; what lies outside the points
measured is marked as extrapolated. docs/PREDICT.md has the models.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPredictFitCommand(g), newPredictSizeCommand(g), newPredictTimeCommand(g),
		newPredictCountCommand(g), newPredictScaleCommand(g),
		newPredictPlanCommand(g), newPredictEvalCommand(g), ui.Moved("score", "predict eval"))
	return cmd
}
