// Package benchmarks has the commands that measure this machine.
package benchmarks

import (
	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
)

// Commands returns the commands of this package.
func Commands(g *ui.Globals) []*cobra.Command { return []*cobra.Command{newBenchCommand(g)} }

func newBenchCommand(g *ui.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchWriteCommand(g), newBenchCodecCommand(g), newBenchModesCommand(g), newBenchSieveCommand(g), newBenchStorageCommand(g), newBenchTierCommand(g), newBenchInterferenceCommand(g))
	return cmd
}
