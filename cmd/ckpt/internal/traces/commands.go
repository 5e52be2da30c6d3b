// Package traces has the commands that record, read, analyse, draw and replay I/O.
package traces

import (
	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
)

// Commands returns the commands of this package, but for the benchmark.
func Commands(g *ui.Globals) []*cobra.Command { return []*cobra.Command{newTraceCommand(g)} }

func newTraceCommand(g *ui.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Record, analyse, draw, export and replay I/O",
		Long: `Characterise the I/O of a checkpoint, or of any program, so that it can be
compared, predicted and replayed elsewhere. ckpt records its own checkpoints
(ckpt launch --trace). docs/TRACE.md explains patterns, findings and formats.`,
		Example: `  ckpt trace analyze bt.S.4-1
  ckpt trace record -o job.trace -- ./a.out
  ckpt trace export job.trace --format chrome -o job.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRecordCommand(g), newAnalyzeCommand(g), newShowCommand(g),
		newDiffCommand(g), newExportCommand(g), newReportCommand(g), newReplayCommand(g), ui.Moved("import", "trace export"), ui.Moved("plot", "trace report"))
	return cmd
}
