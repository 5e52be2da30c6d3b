package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/coordinator"
	"ckpt/image"
	"ckpt/internal/vfs"
)

type streams struct {
	in       io.Reader
	out, err io.Writer
}

// globals are the settings that all commands share.
type globals struct {
	streams
	json    bool
	quiet   bool
	verbose bool
	store   string

	narrator *narrator // of the job that the command runs
}

// run runs a command line and returns the exit status.
func run(ctx context.Context, args []string, s streams) int {
	out := &noticing{w: s.out}
	s.out = out
	g := &globals{streams: s}
	root := newRootCommand(g)
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	err := root.ExecuteContext(ctx)
	if out.err != nil && (err == nil || errors.Is(err, out.err)) {
		err = outputError(fmt.Errorf("write the output: %w", out.err))
	}
	if err != nil {
		// The error may lie in the flags before --json was read.
		complain(s.err, err, g.json || slices.Contains(args, "--json"))
	}
	return exitCode(err)
}

// noticing remembers the first error of a writer, for callers that ignore it.
type noticing struct {
	w   io.Writer
	err error
}

func (n *noticing) Write(p []byte) (int, error) {
	k, err := n.w.Write(p)
	if n.err == nil {
		n.err = err
	}
	return k, err
}

func newRootCommand(g *globals) *cobra.Command {
	root := &cobra.Command{
		Use:   "ckpt",
		Short: "Checkpoint, restart and size parallel jobs",
		Long: `ckpt runs parallel (MPI) jobs and takes checkpoints of them. It stores checkpoints
durably, verifies every byte that it restarts from, and survives the death of ranks
and nodes.

` + exitHelp,
		Example: `  ckpt launch bt.S.4 --nodes 2 --every 5 --fail rank=2@iter=12 --auto-restart
  ckpt list bt.S.4-1
  ckpt verify bt.S.4-1`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := root.PersistentFlags()
	flags.BoolVar(&g.json, "json", false, "print JSON on standard output")
	flags.BoolVarP(&g.quiet, "quiet", "q", false, "print results only")
	flags.BoolVarP(&g.verbose, "verbose", "v", false, "print more details")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, err) })
	root.AddCommand(newLaunchCommand(g), newRestartCommand(g), newCheckpointCommand(g), newStopCommand(g),
		newStatusCommand(g), newListCommand(g), newShowCommand(g), newVerifyCommand(g), newDiffCommand(g), newPruneCommand(g),
		newImportCommand(g), newExportCommand(g), newExtractCommand(g), newZonesCommand(g),
		newIntervalCommand(g), newPredictCommand(g), newPlanCommand(g), newTraceCommand(g), newDatasetCommand(g), newBenchCommand(g), newVersionCommand(g), newManCommand(), newRankCommand())
	for _, cmd := range root.Commands() {
		describeExit(cmd)
	}
	checkArgs(root)
	return root
}

// describeExit appends the exit statuses to the help of a command.
func describeExit(cmd *cobra.Command) {
	if cmd.Long == "" {
		cmd.Long = cmd.Short + "."
	}
	cmd.Long += "\n\n" + exitHelp
	for _, sub := range cmd.Commands() {
		describeExit(sub)
	}
}

// checkArgs makes errors about arguments usage errors.
func checkArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usage(cmd, err)
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		checkArgs(sub)
	}
}

// hinted is an error with a hint of its own.
type hinted struct {
	error
	hint string
}

func (h hinted) Hint() string  { return h.hint }
func (h hinted) Unwrap() error { return h.error }

func usage(cmd *cobra.Command, err error) error {
	return errUsage{hinted{err, "see " + cmd.CommandPath() + " --help"}}
}

func (g *globals) addStoreFlag(cmd *cobra.Command) {
	dir := os.Getenv("CKPT_STORE")
	if dir == "" {
		dir = "./ckpt-store"
	}
	cmd.Flags().StringVar(&g.store, "store", dir, "directory of the checkpoint store; $CKPT_STORE")
}

func (g *globals) openStore() (*image.Store, error) {
	if err := g.checkStore(); err != nil {
		return nil, err
	}
	return image.OpenStore(vfs.OS{}, g.store)
}

func (g *globals) checkStore() error {
	if g.store == "" {
		return &coordinator.UsageError{Text: "--store is empty", Fix: "name a directory with --store or $CKPT_STORE"}
	}
	return nil
}

func (g *globals) openJob(name string) (*image.Job, error) {
	store, err := g.openStore()
	if err != nil {
		return nil, err
	}
	return store.Job(name)
}

// printJSON prints one document, indented for people.
func (g *globals) printJSON(v any) error {
	enc := json.NewEncoder(g.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func newVersionCommand(g *globals) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  ckpt version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				Format  int    `json:"format"` // of images
			}{Version: "devel", Format: 1}
			if info, ok := debug.ReadBuildInfo(); ok {
				v.Go = info.GoVersion
				if s := info.Main.Version; s != "" && s != "(devel)" {
					v.Version = strings.TrimPrefix(s, "v")
				}
			}
			if g.json {
				return g.printJSON(v)
			}
			return g.printf("ckpt %s (%s), image format %d\n", v.Version, v.Go, v.Format)
		},
	}
}
