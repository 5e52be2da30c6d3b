package ui

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/internal/lazy"
	"ckpt/internal/objectfs"
)

// placeholder finds the arguments in the usage of a command: JOB[@N], FILE|DIR.
var placeholder = lazy.Regexp(`\b(JOB\[@N\]|JOB@[AB]|JOB|APP|TRACE|FILE|DIR|STORE|TABLE|CSV|[AB]\b)`)

// Complete adds the completion of arguments and flags to a command and all below it:
// arguments by their placeholders in the usage, flags by their choices and names.
func (g *Globals) Complete(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		g.Complete(sub)
	}
	usage := argumentsOf(cmd)
	if kinds := placeholder().FindAllString(usage, -1); cmd.ValidArgsFunction == nil && !cmd.HasAvailableSubCommands() {
		many := strings.Contains(usage, "...")
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			switch {
			case len(kinds) == 0 || len(args) >= len(kinds) && !many:
				return nil, cobra.ShellCompDirectiveNoFileComp
			case strings.Contains(usage, "|"): // FILE|DIR...
				return nil, cobra.ShellCompDirectiveDefault
			}
			return g.names(kinds[min(len(args), len(kinds)-1)], begun)
		}
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { g.completeFlag(cmd, f) })
}

// argumentsOf returns the part of a usage that shows the arguments.
func argumentsOf(cmd *cobra.Command) string {
	usage, _, _ := strings.Cut(cmd.Use, " --")
	usage, _, _ = strings.Cut(usage, " -o")
	usage, _, _ = strings.Cut(usage, " | "+cmd.Name()) // another form
	_, usage, _ = strings.Cut(usage, " ")
	return usage
}

// completeFlag registers the values of one flag. Numbers and texts have no values.
func (g *Globals) completeFlag(cmd *cobra.Command, f *pflag.Flag) {
	complete := cobra.NoFileCompletions
	if values := ChoicesOf(f); values != nil {
		complete = func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
			return listed(f, values, begun), cobra.ShellCompDirectiveNoFileComp
		}
	} else {
		switch f.Name {
		case "store", "dir", "measure":
			complete = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
		case "output", "plot", "model", "rules", "thresholds", "record":
			complete = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
				return nil, cobra.ShellCompDirectiveDefault
			}
		case "job":
			complete = func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
				return g.names("JOB", begun)
			}
		case "app":
			complete = func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
				return g.names("APP", begun)
			}
		}
	}
	if f.Value.Type() != "bool" {
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // registered already: keep that
	}
}

// listed completes the last of several values of a flag that takes a list.
func listed(f *pflag.Flag, values []string, begun string) []string {
	if _, list := f.Value.(pflag.SliceValue); !list {
		return values
	}
	done := begun[:strings.LastIndexByte(begun, ',')+1]
	var all []string
	for _, v := range values {
		if !slices.Contains(strings.Split(done, ","), v) {
			all = append(all, done+v)
		}
	}
	return all
}

// names completes an argument of some kind.
func (g *Globals) names(kind, begun string) ([]string, cobra.ShellCompDirective) {
	const alone = cobra.ShellCompDirectiveNoFileComp
	switch kind {
	case "JOB":
		return g.jobNames(), alone
	case "JOB[@N]", "JOB@A", "JOB@B":
		return g.checkpointNames(begun), alone
	case "APP":
		return apps(begun), cobra.ShellCompDirectiveNoSpace
	case "TRACE", "A", "B":
		return g.checkpointNames(begun), cobra.ShellCompDirectiveDefault
	case "TABLE":
		return dataset.TableNames(), alone
	case "DIR", "STORE":
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	return nil, cobra.ShellCompDirectiveDefault // FILE, CSV
}

// checkpointNames completes JOB, and JOB@N once the job is typed.
func (g *Globals) checkpointNames(begun string) []string {
	name, _, at := strings.Cut(begun, "@")
	if !at {
		return g.jobNames()
	}
	job, err := g.OpenJob(name)
	if err != nil {
		return nil
	}
	numbers, _ := job.Checkpoints() // what can be read is better than nothing
	var names []string
	for _, n := range slices.Backward(numbers) {
		names = append(names, fmt.Sprintf("%s@%d", name, n))
	}
	return names
}

// apps completes NAME.CLASS.NP up to the class. A path is a workload file.
func apps(begun string) []string {
	name, rest, class := strings.Cut(begun, ".")
	var all []string
	if !class {
		for _, n := range dataset.Names() {
			all = append(all, n+".")
		}
		return all
	}
	if strings.Contains(rest, ".") || strings.Contains(begun, "/") {
		return nil
	}
	w, err := dataset.LoadWorkload(name)
	if err != nil {
		return nil
	}
	for _, c := range w.Classes() {
		all = append(all, name+"."+c)
	}
	return all
}

// dirFlags are the flags that take a directory.
var dirFlags = []string{"store", "dir", "local", "measure", "storage"}

// storeFlags are the flags that take a store, which may be in an object storage.
var storeFlags = []string{"store", "to"}

// CheckPlaces refuses flags and arguments that name another host or an object store where a
// directory belongs, before anything is made.
func CheckPlaces(cmd *cobra.Command, args []string) (err error) {
	for _, name := range storeFlags {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed && !strings.HasPrefix(f.Value.String(), "s3:") {
			continue
		}
		list, several := f.Value.(pflag.SliceValue)
		names := []string{f.Value.String()}
		if several {
			names = list.GetSlice()
		}
		for i := range names {
			if names[i], err = storeDir("--"+name, names[i]); err != nil {
				return err
			}
		}
		if several {
			err = list.Replace(names)
		} else if names[0] != f.Value.String() {
			err = f.Value.Set(names[0])
		}
		if err != nil {
			return err
		}
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && slices.Contains(dirFlags, f.Name) {
			err = checkPlace("--"+f.Name+" ", f.Value.String())
		}
	})
	if n := cmd.ArgsLenAtDash(); n >= 0 {
		args = args[:n]
	}
	for i, kind := range placeholder().FindAllString(argumentsOf(cmd), -1) {
		switch {
		case err != nil || i >= len(args):
		case kind == "DIR":
			err = checkPlace("", args[i])
		case kind == "STORE":
			args[i], err = storeDir(kind, args[i])
		}
	}
	return err
}

// storeDir returns the name of the directory that the URL of a store means.
func storeDir(flag, url string) (string, error) {
	dir, err := objectfs.Dir(url)
	if err != nil {
		return "", BadUsage(fmt.Sprintf("%s: %v", flag, err), "as "+flag+" 's3://bucket/prefix?region=eu-central-1', or with endpoint=https://HOST for another storage than Amazon's")
	}
	return dir, nil
}

// ParseNext reads the values of --next.
func ParseNext(values []string) (list []image.Next, err error) {
	for _, text := range values {
		n, err := image.ParseNext(text)
		if err != nil {
			return nil, BadUsage(fmt.Sprintf("--next %s: %v", text, err), "as --next /archive/store,every=4,keep=3,keep-daily=7: keep, keep-hourly and keep-daily say what stays there")
		}
		if n.Store, err = storeDir("--next", n.Store); err != nil {
			return nil, err
		}
		if err := checkStore("--next", n.Store, ""); err != nil {
			return nil, err
		}
		if n.Store, err = filepath.Abs(n.Store); err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// AddNext adds --next.
func AddNext(f *pflag.FlagSet, to *[]string, usage string) { f.StringArrayVar(to, "next", nil, usage) }

// checkPlace refuses what no directory here is called: a name with a colon before its first
// slash, as rsync has it. The text before the name says where it stands.
func checkPlace(before, name string) error {
	service, rest, colon := strings.Cut(name, ":")
	if !colon || strings.Contains(service, "/") {
		return nil
	}
	fix := "name a directory of a mounted file system; while no job runs, rsync or rclone copies a store elsewhere"
	switch {
	case strings.EqualFold(service, "s3"):
		fix = "write s3:" + rest
	case service == "file":
		fix = "name the directory itself: /" + strings.TrimLeft(rest, "/")
	case !strings.HasPrefix(rest, "//"):
		fix += "; a directory of this name is ./" + name
	}
	return BadUsage(fmt.Sprintf("%s%s is no directory of this machine", before, name), fix)
}

// DefaultStore is the store of commands without --store.
func DefaultStore() string {
	if dir := os.Getenv("CKPT_STORE"); dir != "" {
		return dir
	}
	return "./ckpt-store"
}

// Placement are the flags that place ranks on nodes.
type Placement struct {
	Nodes   int
	mapping string
}

func (p *Placement) AddFlags(f *pflag.FlagSet) {
	f.IntVar(&p.Nodes, "nodes", 0, "spread the ranks over this many nodes")
	f.StringVar(&p.mapping, "map", "", "ranks of each node, like 8,8,4")
}

func (p *Placement) Given() bool { return p.Nodes != 0 || p.mapping != "" }

// Count is the number of nodes that the flags say, 0 without any.
func (p *Placement) Count() int {
	if p.mapping != "" {
		return strings.Count(p.mapping, ",") + 1
	}
	return p.Nodes
}

func (p *Placement) Resolve(np int) (job.Mapping, error) {
	switch {
	case p.Nodes != 0 && p.mapping != "":
		return nil, BadUsage("--nodes and --map exclude each other", "give one of them")
	case p.mapping != "":
		return job.ParseMapping(p.mapping, np)
	case p.Nodes != 0:
		return job.EvenMapping(np, p.Nodes)
	}
	return job.Mapping{np}, nil
}
