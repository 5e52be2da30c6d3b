package ui

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A FlagGroup is a part of the flags of a command, which --help=NAME shows with its text.
// The help of the command shows the first flags only.
type FlagGroup struct {
	Name, Title string
	First, More string // names of flags
	Text        string
}

// groupKey is the annotation of a flag with the name of its group.
const groupKey = "ckpt_group"

// GroupFlags shows the flags of a command in groups.
func GroupFlags(cmd *cobra.Command, groups []FlagGroup) {
	topics := []string{"all"}
	first := []string{"help"}
	for _, group := range groups {
		topics = append(topics, group.Name)
		first = append(first, strings.Fields(group.First)...)
		for _, name := range strings.Fields(group.First + " " + group.More) {
			if err := cmd.Flags().SetAnnotation(name, groupKey, []string{group.Name}); err != nil {
				panic(err) // the flag does not exist
			}
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[groupKey] == nil && !f.Hidden {
			panic("no group has --" + f.Name)
		}
	})
	topic := &helpTopic{cmd: cmd, groups: groups, first: first}
	f := cmd.Flags().VarPF(topic, "help", "h", "help for "+cmd.Name()+": =all for all flags, =GROUP for those of a group")
	f.NoOptDefVal = "true"
	Choices(cmd.Flags(), "help", topics...)
}

// A helpTopic is the value of a flag --help: true, all, or the name of a group.
type helpTopic struct {
	cmd    *cobra.Command
	groups []FlagGroup
	first  []string
	topic  string
}

// Type makes cobra take it for its own flag.
func (*helpTopic) Type() string { return "bool" }

func (h *helpTopic) String() string { return fmt.Sprint(h.topic != "" && h.topic != "false") }

func (h *helpTopic) Set(s string) error {
	topics := ChoicesOf(h.cmd.Flags().Lookup("help"))
	if s != "true" && s != "false" && !slices.Contains(topics, s) {
		return fmt.Errorf("want one of %s", strings.Join(topics, ", "))
	}
	h.topic = s
	return nil
}

// helpOf returns the topic of a command whose flags are in groups, nil for another command.
func helpOf(cmd *cobra.Command) *helpTopic {
	if f := cmd.Flags().Lookup("help"); f != nil {
		if h, ok := f.Value.(*helpTopic); ok {
			return h
		}
	}
	return nil
}

// flags lists what was asked for of the flags.
func (h *helpTopic) flags(width int) string {
	var b strings.Builder
	all := h.topic == "all"
	for _, group := range h.groups {
		if !all && h.groupAsked() && group.Name != h.topic {
			continue
		}
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		h.cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			in := slices.Equal(f.Annotations[groupKey], []string{group.Name})
			if in && (all || h.groupAsked() || slices.Contains(h.first, f.Name)) {
				set.AddFlag(f)
			}
		})
		usages := strings.TrimRight(set.FlagUsagesWrapped(width), " \n")
		if usages == "" {
			continue
		}
		title := group.Title
		if title == "" {
			title = strings.ToUpper(group.Name[:1]) + group.Name[1:]
		}
		fmt.Fprintf(&b, "\n%s (--help=%s):\n", title, group.Name)
		if group.Text != "" && (all || h.groupAsked()) {
			b.WriteString(hanging("  ", group.Text, width) + "\n")
		}
		b.WriteString(usages + "\n")
	}
	if !all && !h.groupAsked() {
		topics := ChoicesOf(h.cmd.Flags().Lookup("help"))
		b.WriteString("\n" + hanging("", fmt.Sprintf("%s --help=all shows all flags; --help=GROUP those of a group: %s.", h.cmd.CommandPath(), strings.Join(topics[1:], ", ")), width))
	}
	return b.String()
}

// groupAsked reports whether the flags of one group were asked for.
func (h *helpTopic) groupAsked() bool {
	return slices.ContainsFunc(h.groups, func(g FlagGroup) bool { return g.Name == h.topic })
}

// GroupTexts returns what the groups of a command say about their flags.
func GroupTexts(cmd *cobra.Command) (texts []string) {
	if h := helpOf(cmd); h != nil {
		for _, group := range h.groups {
			if group.Text != "" {
				texts = append(texts, group.Text)
			}
		}
	}
	return texts
}

// AddPeriods adds the flags of an image.Retention.
func AddPeriods(f *pflag.FlagSet, hourly, daily *int) {
	f.IntVar(hourly, "keep-hourly", 0, "also keep the newest checkpoint of each of the last N hours that have one")
	f.IntVar(daily, "keep-daily", 0, "also keep the newest checkpoint of each of the last N days that have one")
}

// Renamed keeps the old name of a flag, hidden, for a release.
func (g *Globals) Renamed(f *pflag.FlagSet, old, name string) {
	is := f.Lookup(name)
	alias := f.VarPF(&renamed{is.Value, g, f, old, name}, old, "", "")
	alias.Hidden, alias.NoOptDefVal, alias.Annotations = true, is.NoOptDefVal, is.Annotations
}

// A renamed is the value of a flag under its old name.
type renamed struct {
	pflag.Value
	g         *Globals
	flags     *pflag.FlagSet
	old, name string
}

func (r *renamed) Set(s string) error {
	r.g.Warn("--%s is now called --%s", r.old, r.name)
	return r.flags.Set(r.name, s)
}

// movedTo annotates the old name of a command with the new one.
const movedTo = "ckpt_moved_to"

// Moved keeps the old name of a command, hidden, for a release. A path that ends with -o gives
// that flag the first argument; one that ends with JOB needs an argument.
func Moved(old, path string) *cobra.Command {
	return &cobra.Command{
		Use: old, Hidden: true, Short: "Is now ckpt " + path, DisableFlagParsing: true, Annotations: map[string]string{movedTo: path},
		RunE: func(*cobra.Command, []string) error { return errors.New("moved to ckpt " + path) },
	}
}

// Present returns a command line with the present name of its command. Under an old name it
// tells the user.
func Present(root *cobra.Command, args []string) ([]string, error) {
	cmd, rest, err := root.Find(args)
	if err != nil || cmd.Annotations[movedTo] == "" {
		return args, nil // an error comes again
	}
	path := cmd.Annotations[movedTo]
	fmt.Fprintf(root.ErrOrStderr(), "ckpt: %s is now called ckpt %s\n", cmd.CommandPath(), path)
	first := slices.IndexFunc(rest, func(a string) bool { return !strings.HasPrefix(a, "-") })
	command, job := strings.CutSuffix(path, " JOB")
	command, output := strings.CutSuffix(command, " -o")
	switch {
	case job && first < 0 && !slices.Contains(rest, "--help") && !slices.Contains(rest, "-h"):
		return args, BadUsage(cmd.CommandPath()+" takes a job", "ckpt "+path+" compares a job with its prediction; ckpt "+command+" alone evaluates the built-in tables")
	case output && first >= 0:
		rest = slices.Concat(rest[:first], []string{"-o"}, rest[first:])
	}
	return append(strings.Fields(command), rest...), nil
}
