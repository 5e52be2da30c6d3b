package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ckpt/coordinator"
)

func newShowCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "show JOB[@N]",
		Short:   "Show a checkpoint zone by zone",
		Long:    "Show a checkpoint, by default the newest, with the zones of each rank.",
		Example: "  ckpt show bt.S.4-1@2 --json",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return runShow(g, args[0]) },
	}
	g.addStoreFlag(cmd)
	return cmd
}

func runShow(g *globals, target string) error {
	job, m, err := g.openCheckpoint(target)
	if err != nil {
		return err
	}
	line := describeManifest(coordinator.ReadHistory(job), m, true)
	if g.json {
		return g.printJSON(line)
	}
	if err := g.printCheckpoint(line.CheckpointEvent); err != nil {
		return err
	}
	if line.Origin != "" {
		if err := g.printf("imported   from %s\n", line.Origin); err != nil {
			return err
		}
	}
	if err := g.printf("taken      %s by %s under %s, mapping %s\n\n", line.Created.Local().Format(time.DateTime), m.App, m.MPI, line.Mapping.Short()); err != nil {
		return err
	}
	var rows [][]string
	for _, z := range line.Zones {
		rows = append(rows, []string{fmt.Sprint(z.Rank), fmt.Sprint(z.Node), mib(z.Library), mib(z.Data), mib(z.Shared), mib(z.IOBuffer),
			mib(z.Library + z.Data + z.Shared + z.IOBuffer)})
	}
	return g.table([]string{"|rank", "|node", "|library MiB", "|data MiB", "|shared MiB", "|iobuffer MiB", "|total MiB"}, rows)
}
