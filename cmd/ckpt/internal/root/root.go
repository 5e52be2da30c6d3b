// Package root has the commands of ckpt as one: it reads a command line, and runs it.
package root

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/benchmarks"
	"ckpt/cmd/ckpt/internal/images"
	"ckpt/cmd/ckpt/internal/jobs"
	"ckpt/cmd/ckpt/internal/machine"
	"ckpt/cmd/ckpt/internal/predictions"
	"ckpt/cmd/ckpt/internal/serve"
	"ckpt/cmd/ckpt/internal/study"
	"ckpt/cmd/ckpt/internal/traces"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/wire"
	"ckpt/internal/objectfs"
	"ckpt/internal/vfs"
)

func init() { vfs.Mount(objectfs.Mount, objectfs.Open) }

// Main runs the command line of this process, and ends it.
func Main() {
	if os.Getpid() == 1 {
		if status, ok := asProcess1(); ok {
			os.Exit(status)
		}
	}
	os.Exit(Run(context.Background(), os.Args[1:], ui.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// Run runs a command line and returns the exit status.
func Run(ctx context.Context, args []string, s ui.Streams) int {
	asJSON, err := execute(ctx, args, s)
	if err != nil {
		// The error may lie in the flags before --json was read.
		ui.Complain(s.Err, err, asJSON || slices.Contains(args, "--json"))
	}
	return ui.ExitCode(err)
}

// runStep runs a command line of a study, which words its error itself.
func runStep(ctx context.Context, args []string, s ui.Streams) error {
	_, err := execute(ctx, args, s)
	return err
}

// execute runs a command line, and says whether its result is JSON.
func execute(ctx context.Context, args []string, s ui.Streams) (asJSON bool, err error) {
	g := &ui.Globals{Streams: s}
	err = Call(ctx, g, args)
	return g.JSON, err
}

// Call runs a command line with the streams of g, and with what else takes its results.
func Call(ctx context.Context, g *ui.Globals, args []string) (err error) {
	out := &ui.Noticing{W: g.Out}
	g.Out = out
	root := rootFor(g, args)
	root.SetIn(g.In)
	root.SetOut(g.Out)
	root.SetErr(g.Err)
	if args, err = ui.Present(root, args); err != nil {
		return err
	}
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if out.Err != nil && (err == nil || errors.Is(err, out.Err)) {
		err = ui.OutputError(fmt.Errorf("write the output: %w", out.Err))
	}
	if err != nil {
		err = g.Advised(cmd, args, err)
	}
	return err
}

// New returns all commands.
func New(g *ui.Globals) *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:           "ckpt",
		Short:         "Checkpoint, restart and size parallel jobs",
		Long:          rootHelp + "\n\n" + ui.ExitHelp,
		Example:       "  ckpt launch bt.S.4 --nodes 2 --every 5 --fail rank=2@iter=12 --auto-restart",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return printVersion(g)
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&version, "version", false, "print the version")
	flags := root.PersistentFlags()
	flags.BoolVar(&g.JSON, "json", false, "print JSON on standard output")
	flags.BoolVarP(&g.Quiet, "quiet", "q", false, "print results only")
	flags.BoolVarP(&g.Verbose, "verbose", "v", false, "print more details")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return ui.FlagError(cmd, err) })
	addGroup(root, "jobs", "Run jobs", append(jobs.Commands(g), serve.NewCommand(g, serve.Tree{New: New, Call: Call})))
	addGroup(root, "images", "Look after checkpoints, and look into memory", images.Commands(g))
	addGroup(root, "predictions", "Predict, before a run", append(predictions.Commands(g), study.NewCommand(g, runStep), study.NewSimulateCommand(g)))
	addGroup(root, "machine", "Measure I/O and this machine", slices.Concat([]*cobra.Command{machine.NewCommand(g)}, machine.StorageCommands(g), traces.Commands(g), benchmarks.Commands(g)))
	root.AddCommand(newCompletionCommand(g), newVersionCommand(g), newManCommand())
	root.SetHelpCommand(newHelpCommand(g))
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		cmd.SuggestFor = fieldVerbs[cmd.Name()]
		describeExit(cmd)
	}
	checkArgs(root)
	g.Helps(root)
	return root
}

// rootFor returns the commands for a command line. All commands with their completions
// take a fifth of the time in which ckpt starts: a rank of a job does with its own, and only
// a shell asks for completions.
func rootFor(g *ui.Globals, args []string) *cobra.Command {
	if len(args) > 0 && args[0] == "rank" && os.Getenv(wire.EnvSocket) != "" {
		root := &cobra.Command{Use: "ckpt", SilenceUsage: true, SilenceErrors: true}
		root.AddCommand(jobs.NewRankCommand())
		return root
	}
	root := New(g)
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		g.Complete(root)
	}
	return root
}

// fieldVerbs are what other tools call the commands.
var fieldVerbs = map[string][]string{
	"launch": {"run", "submit", "start", "exec"}, "status": {"ps", "top", "logs", "queue"}, "list": {"ls", "jobs"},
	"stop": {"cancel", "kill", "halt"}, "restart": {"resume", "continue", "restore"}, "rm": {"delete", "remove", "del"},
	"show": {"inspect", "describe", "info"}, "prune": {"gc", "clean"}, "verify": {"check", "fsck"}, "doctor": {"health"},
}

const rootHelp = `ckpt takes, stores and restarts checkpoints of parallel (MPI) jobs, and predicts
how large they will be, how long they will take and how many you can afford. It is
for people whose long jobs must survive failures, and for people who plan the
storage for that.

ckpt launch -- mpiexec -n 8 ./heat runs an MPI program that calls ckpt in a few lines:
ckpt sdk prints the header for C, and modules for Fortran and Python. ckpt launch APP
runs simulated jobs: the processes, the failures and the files are real, the
applications (bt, cg, lu, …) are stand-ins with the memory of the codes they are named
after. Of any program, ckpt looks into the memory (ckpt zones --pid), records the I/O
(ckpt trace record), and stores checkpoints that DMTCP has taken (ckpt import, ckpt
export). ckpt predict and ckpt interval need no job.

The first command to type is the one below: it kills a rank of a small job, and
restarts it from a checkpoint, in a few seconds. ckpt doctor says whether this
machine is ready for jobs.`

// addGroup adds commands under a title of their own.
func addGroup(root *cobra.Command, id, title string, commands []*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	for _, cmd := range commands {
		cmd.GroupID = id
	}
	root.AddCommand(commands...)
}

// newHelpCommand is cobra's, but for names that it does not know: an error, in place
// of the help of ckpt.
func newHelpCommand(g *ui.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]...",
		Short: "Show the help of a command",
		Long: `Show the help of a command. ckpt help combinations shows which settings of jobs go with
which, and why the others make no sense together.`,
		Example: "  ckpt help predict size\n  ckpt help combinations",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if of, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range of.Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Equal(args, []string{"combinations"}) {
				return jobs.ShowCombinations(g)
			}
			of, rest, err := cmd.Root().Find(args)
			if err == nil && len(rest) > 0 {
				err = ui.UnknownCommand(of, rest[0])
			}
			if err != nil {
				return err
			}
			of.InitDefaultHelpFlag()
			return of.Help()
		},
	}
}

// describeExit appends the exit statuses to the help of a command.
func describeExit(cmd *cobra.Command) {
	if cmd.Long == "" {
		cmd.Long = cmd.Short + "."
	}
	cmd.Long += "\n\n" + ui.ExitHelp
	for _, sub := range cmd.Commands() {
		describeExit(sub)
	}
}

// checkArgs makes errors about arguments usage errors.
func checkArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil || cmd.Runnable() {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.HasAvailableSubCommands() {
				return ui.UnknownCommand(cmd, args[0])
			}
			if check != nil && check(cmd, args) != nil {
				return ui.WrongCount(cmd, args)
			}
			return ui.CheckPlaces(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		checkArgs(sub)
	}
}
