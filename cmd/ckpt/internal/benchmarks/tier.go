package benchmarks

import (
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/nodes/timing"
)

type tierOptions struct {
	tierMeasure
	model, workload, plot string
	ranks, nodes          int
	bytes                 string
}

// modelBytes is what a rank has on a described machine, if no flag says it.
const modelBytes = "64MiB"

func newBenchTierCommand(g *ui.Globals) *cobra.Command {
	var o tierOptions
	cmd := &cobra.Command{
		Use:   "tier",
		Short: "Measure what keeping checkpoints on nodes costs, here or on a described machine",
		Long: `Save checkpoints into directories of nodes, under each scheme of protection, and into
a plain store: how fast, in how many bytes, how fast they are read, and how long it
takes until the files of a lost node are back. Ranks are threads of this command, and
the directories are on this host; name those of real storage with --dir and --store.
The ways take turns in each round. Below the table are the ratios that matter, with
their bounds. The command checks first that there is space, and removes its files.

--workload blocks and random-walk run on files of this host, in the cache of the nodes
and in the store, with writes that are durable when they return and with others.

With --model, time a workload on a described machine whose nodes have persistent memory, in
virtual time (docs/TIERS.md):

  checkpoints   files of all ranks to their nodes, with copies or parity, or to the
                storage: the pause, and how long a restart takes to read them
  blocks        requests of each size to one file, in the cache and by MPI I/O
  random-walk   read, compute, write back, wait for the others: the cache with each
                level of protection, and MPI I/O
  images        a filter that reads through a buffer of each size`,
		Example: `  ckpt bench tier --ranks 16 --nodes 4
  ckpt bench tier --ranks 12 --nodes 6 --protect partner,rs:4+2 --dir '/nvme/{node}' --store /scratch
  ckpt bench tier --workload random-walk --dir '/dev/shm/{node}' --bytes 1MiB
  ckpt bench tier --model lap06
  ckpt bench tier --model lap06 --ranks 16 --nodes 4 --bytes 1GiB
  ckpt bench tier --model lap06 --workload blocks --plot blocks.svg`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := ui.Positive(cmd, "ranks", "nodes"); err != nil {
				return err
			}
			if o.model == "" {
				return runTierHere(cmd, g, &o)
			}
			if err := only(cmd, "a described machine has no directories and no chance", "rounds", "protect", "dir", "store"); err != nil {
				return err
			}
			if o.bytes == "" {
				o.bytes = modelBytes
			}
			return runTierModel(cmd.Context(), g, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.model, "model", "", "described machine: "+strings.Join(timing.Machines(), ", ")+", or a file")
	ui.Choices(f, "model", timing.Machines()...)
	f.StringVar(&o.workload, "workload", "checkpoints", "what the ranks do: "+strings.Join(tierWorkloads(), ", "))
	ui.Choices(f, "workload", tierWorkloads()...)
	f.IntVar(&o.ranks, "ranks", 0, "number of ranks (default 8; of a machine one for each core of a node but one)")
	f.IntVar(&o.nodes, "nodes", 0, "number of nodes (default 4; of a machine all)")
	f.StringVar(&o.bytes, "bytes", "", "bytes that each rank has in a checkpoint, or in the file of a random walk (default 16MiB; of a machine 64MiB)")
	f.StringVar(&o.plot, "plot", "", "draw the result to this .svg, .png or .pdf")
	o.tierMeasure.addFlags(f)
	return cmd
}

// runTierHere measures on this host.
func runTierHere(cmd *cobra.Command, g *ui.Globals, o *tierOptions) error {
	if err := only(cmd, "a picture is of a described machine", "plot"); err != nil {
		return err
	}
	if o.workload == tierWorkloads()[0] {
		return runTierMeasure(cmd.Context(), g, o)
	}
	if err := only(cmd, "it is of checkpoints", "rounds", "protect"); err != nil {
		return err
	}
	return runTierFiles(cmd.Context(), g, o)
}

// only refuses flags that mean nothing here.
func only(cmd *cobra.Command, why string, flags ...string) error {
	for _, name := range flags {
		if cmd.Flags().Changed(name) {
			return ui.BadUsage("--"+name+": "+why, "leave --"+name+" out")
		}
	}
	return nil
}
